// The host's draw and the device's are one rule, and reports change nothing: the same seed gives the same tokens with and without
// log-probabilities, with a hook that changes nothing, and as the first of several samples.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SAMPLING_DEFAULTS, type SamplingParams } from "../src/core/sampling.js";
import { createEngine } from "../src/engine/client/engine.js";
import type { GenerateOptions } from "../src/engine/types.js";
import type { TokenConstraint } from "../src/grammar/constraint.js";
import { KeptRow } from "../src/sampler/row-table.js";
import { canRunAhead } from "../src/sampler/sampler.js";
import { openCpu } from "./support/cpu.js";
import { writeTinyCheckpoint } from "./support/tiny-checkpoint.js";

const model = writeTinyCheckpoint({ context: 128 });
const cpu = await openCpu();
cpu.device?.close();

const CASES: Record<string, GenerateOptions> = {
  plain: { temperature: 1 },
  "a temperature that f32 rounds": { temperature: 0.7, topP: 0.9, minP: 0.01 },
  "top-k": { temperature: 1.3, topK: 7 },
  penalties: { temperature: 0.9, repetitionPenalty: 1.2, presencePenalty: 0.3, frequencyPenalty: 0.1 },
  bias: {
    temperature: 1.1,
    logitBias: [
      [65, 1.7],
      [66, -3],
    ],
  },
  "a shortest answer": { temperature: 1, minTokens: 20, stopTokenIds: [65, 66, 67, 68], ignoreEos: false },
};

for (const device of ["reference", "cpu"] as const) {
  test(`${device}: one rule for every way to a token`, { skip: device === "cpu" && cpu.reason }, async () => {
    await using engine = await createEngine({ model, device, threads: 2, numPages: 64, worker: false });
    for (const [name, options] of Object.entries(CASES)) {
      const run = async (more: GenerateOptions) => {
        const all = { maxTokens: 24, seed: 9, ignoreEos: true, ...options, ...more };
        return (await engine.generate("one rule", all).result()).samples;
      };
      const [plain] = await run({});
      const [reporting] = await run({ logprobs: 3 });
      assert.deepEqual(reporting!.tokenIds, plain!.tokenIds, `${name}, with logprobs`);
      assert.equal(reporting!.logprobs!.length, plain!.tokenIds.length);
      assert.deepEqual(
        (await run({ promptLogprobs: 2 }))[0]!.tokenIds,
        plain!.tokenIds,
        `${name}, with prompt logprobs`,
      );
      const [hooked] = await run({ editLogits: () => undefined });
      assert.deepEqual(hooked!.tokenIds, plain!.tokenIds, `${name}, through the host`);
      const samples = await run({ n: 3 });
      assert.deepEqual(samples[0]!.tokenIds, plain!.tokenIds, `${name}, as the first of three`);
      const through = await run({ n: 3, editLogits: () => undefined, logprobs: 0 });
      assert.deepEqual(
        through.map(({ tokenIds }) => tokenIds),
        samples.map(({ tokenIds }) => tokenIds),
        `${name}, three samples through the host`,
      );
    }
  });
}

test("a row runs ahead of its own token unless the host must see that token first", () => {
  const sampling: SamplingParams = { ...SAMPLING_DEFAULTS, maxTokens: 1, seed: 0 };
  const plain = {
    stopIds: new Int32Array(0),
    constraint: null,
    editLogits: null,
    row: KeptRow.of(sampling, 3, new Int32Array()),
  };
  const constraint = { fillMask: () => true } as unknown as TokenConstraint;
  assert.equal(canRunAhead(sampling, plain), true);
  assert.equal(canRunAhead(sampling, { ...plain, constraint }), false);
  assert.equal(canRunAhead(sampling, { ...plain, editLogits: () => {} }), false);
  for (const penalty of [{ repetitionPenalty: 1.1 }, { frequencyPenalty: 0.1 }, { presencePenalty: -0.1 }])
    assert.equal(canRunAhead({ ...sampling, ...penalty }, plain), true);
});

test("rules that are the host's: the same alone and beside others, for each sample of a call, and told by the seed", async () => {
  await using engine = await createEngine({ model, device: "reference", numPages: 64, worker: false });
  const run = async (options: GenerateOptions) => {
    const all = { maxTokens: 40, seed: 9, ignoreEos: true, ...options };
    return (await engine.generate("one rule", all).result()).samples.map(({ tokenIds }) => tokenIds);
  };
  const few = { temperature: 0, logitBias: Array.from({ length: 8 }, (_, i) => [65 + i, 60] as const) };
  const dry = { ...few, dryMultiplier: 2, dryAllowedLength: 1 };
  const xtc = { xtcProbability: 0.5, xtcThreshold: 0.001, temperature: 1 };
  const [greedy, dried, drawn, excluded] = await Promise.all([
    run(few),
    run(dry),
    run({ temperature: 1, n: 2 }),
    run({ ...xtc, n: 2 }),
  ]);
  assert.deepEqual([await run(dry), await run({ ...xtc, n: 2 })], [dried, excluded]);
  assert.notDeepEqual(excluded, drawn);
  assert.notDeepEqual(excluded[0], excluded[1]);
  assert.deepEqual(await run({ ...xtc, xtcProbability: 0, n: 2 }), drawn);
  assert.deepEqual(await run({ ...xtc, xtcThreshold: 1, n: 2 }), drawn, "none is so probable");
  assert.deepEqual(await run({ ...dry, dryPenaltyLastN: 0 }), greedy);
  const pairs = (tokens: readonly number[]) => new Set(tokens.slice(1).map((id, i) => `${tokens[i]} ${id}`)).size;
  assert.ok(pairs(greedy[0]!) < pairs(dried[0]!), "it repeats itself less");
  assert.deepEqual(await run({ ...dry, drySequenceBreakers: [..."ABCDEFGH"] }), greedy, "nothing is left to repeat");
});

test("an answer that goes round in circles is cut, and says so", async () => {
  await using engine = await createEngine({ model, device: "reference", numPages: 64, worker: false });
  const run = async (options: GenerateOptions) => {
    const all = { maxTokens: 20, temperature: 0, ignoreEos: true, logitBias: [[65, 100]] as const, ...options };
    const { tokenIds, finishReason, stopReason } = (await engine.generate("one rule", all).result()).samples[0]!;
    return [tokenIds.length, finishReason, stopReason];
  };
  assert.deepEqual(await run({}), [20, "length", null]);
  assert.deepEqual(await run({ loopCount: 3 }), [3, "length", "repetition"]);
  assert.deepEqual(await run({ loopCount: 3, loopMinSize: 2 }), [6, "length", "repetition"]);
  assert.deepEqual(await run({ loopCount: 3, loopMinSize: 7, loopMaxSize: 9 }), [20, "length", null]);
});
