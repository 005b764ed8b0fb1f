// Speculation changes no answer: every kind of model, on every device here, gives the same tokens and log-probabilities with guesses from texts
// as without, whatever is asked of sampling. Together, so that rows with and without guesses share steps.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { test } from "node:test";
import { createEngine } from "../src/engine/client/engine.js";
import type { Engine, GenerateOptions } from "../src/engine/types.js";
import { openCpu } from "./support/cpu.js";
import { openCuda } from "./support/cuda.js";
import { withByteTokenizer, writeTinyCheckpoint } from "./support/tiny-checkpoint.js";

const GOLDENS = "../shared/goldens";
const MODELS: readonly (readonly [name: string, path: string | null])[] = [
  ["full attention", null],
  ["windows beside full attention", `${GOLDENS}/gemma3`],
  ["windows alone", `${GOLDENS}/mistral-swa`],
  ["latent", `${GOLDENS}/deepseek-v3`],
  ["mixture", `${GOLDENS}/mixtral`],
  ["delta nets beside full attention", `${GOLDENS}2/qwen3-next`],
  ["state spaces", `${GOLDENS}2/mamba2`],
];

const cpu = await openCpu();
cpu.device?.close();
const cuda = await openCuda();
cuda.device?.close();
/** Why it is not here; false: it is. */
const ABSENT = { reference: false, cpu: cpu.reason, cuda: cuda.reason };

for (const [name, path] of MODELS) {
  if (path !== null && !existsSync(path)) {
    test(`${name}: ${path}`, { skip: `${path} is not here` });
    continue;
  }
  const model = path === null ? writeTinyCheckpoint() : withByteTokenizer(path, 320);
  for (const device of ["reference", "cpu", "cuda"] as const) {
    test(`${name} on ${device}`, { skip: ABSENT[device] }, async () => {
      await using engine = await createEngine({
        ...{ model, device, worker: false, numPages: 300, threads: 2 },
        targetStepMs: 0, // nor measured: such small models gain nothing by guesses, and would try none
        speculative: { method: "off", minMatch: 1 }, // of one token: random weights repeat little else
      });
      const plain = await answers(engine, "off");
      let before = 0;
      for (const method of ["ngram", "suffix", "suffix"] as const) {
        assert.deepEqual(await answers(engine, method), plain, method);
        const { acceptedTokens, draftTokens } = (await engine.stats()).speculation;
        assert.ok(acceptedTokens - before > 20, `${method}: ${acceptedTokens - before} of ${draftTokens} accepted`);
        before = acceptedTokens;
      }
      assert.equal((await engine.stats()).pagesUsed, 0, "pages leak");
    });
  }
}

test("guesses are tried under a grammar, too", async () => {
  await using engine = await createEngine({
    ...{ model: writeTinyCheckpoint(), device: "reference", worker: false, numPages: 300 },
    ...{ targetStepMs: 0, speculative: { method: "ngram", minMatch: 1 } },
  });
  const constraint = { kind: "regex", source: "(abcdefgh){12}" } as const;
  const { samples } = await engine.generate([65, 66, 67], { constraint, temperature: 0, maxTokens: 120 }).result();
  assert.equal(samples[0]!.text, "abcdefgh".repeat(12));
  const { acceptedTokens } = (await engine.stats()).speculation;
  assert.ok(acceptedTokens > 20, `${acceptedTokens} accepted`);
});

/** Everything that a caller can see of a set of answers, asked for at once. */
async function answers(engine: Engine, method: "off" | "ngram" | "suffix"): Promise<unknown[]> {
  const few = [60, 61, 62, 63].map((id): [number, number] => [id, 5]); // such text repeats itself
  const base: GenerateOptions = { maxTokens: 32, temperature: 0, ignoreEos: true, logprobs: 2, logitBias: few };
  const asked: GenerateOptions[] = [
    base,
    { ...base, temperature: 0.7, topK: 3 },
    { ...base, temperature: 1.2, topP: 0.9, n: 3 },
    { ...base, temperature: 0.5, repetitionPenalty: 1.2, frequencyPenalty: 0.3, presencePenalty: 0.2, minTokens: 9 },
    { ...base, temperature: 0.3, minP: 0.05, logitBias: [] },
    { ...base, promptLogprobs: 1 },
    { ...base, stop: ["A", "zz"], logitBias: [...few, [65, 4]] },
    { ...base, stopTokenIds: [66, 67], logitBias: [...few, [66, 4]] },
    { ...base, constraint: { kind: "regex", source: "(ab|cd){4,12}" } },
  ];
  const prompt = Array.from({ length: 40 }, (_, i) => 60 + ((i * i) % 11));
  const results = await Promise.all(
    asked.map((options, i) => {
      const ids = [...prompt, 70 + i, ...prompt.slice(0, 12 + i)];
      return engine.generate(ids, { ...options, seed: i, speculative: { method } }).result();
    }),
  );
  return results.map(({ samples, promptLogprobs }) => ({ samples, promptLogprobs }));
}
