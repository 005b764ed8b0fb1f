// Steps that are replayed without writing their launches, on the GPU or its emulator: they are the launches that would have been written,
// and the answers are those of an engine that writes them all. With EMULATED_IDLE=1 the emulator computes nothing, and it takes seconds.

import assert from "node:assert/strict";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { HeldAdapter } from "../../src/adapters/adapter-pool.js";
import { engineConfig } from "../../src/config/engine-config.js";
import { SAMPLING_DEFAULTS, type SamplingParams } from "../../src/core/sampling.js";
import type { CudaDevice } from "../../src/device/cuda/cuda-device.js";
import type { Drafter } from "../../src/drafter/drafter.js";
import type { EngineCore } from "../../src/engine/core/engine-core.js";
import { loadEngine } from "../../src/engine/core/load/load.js";
import { openCuda } from "../support/cuda.js";
import { outputsOf } from "../support/outputs.js";
import { writeTinyAdapter } from "../support/tiny-adapter.js";
import { withByteTokenizer, writeTinyCheckpoint } from "../support/tiny-checkpoint.js";

const { device, reason } = await openCuda();
device?.close();

const STATES = "../shared/goldens2/qwen3.5";
const MODELS: readonly (readonly [string, () => string, string | false])[] = [
  ["windows beside full attention", () => withByteTokenizer("test/goldens/gemma3", 320), false],
  [
    "states beside full attention",
    () => withByteTokenizer(STATES, 320),
    existsSync(STATES) ? false : `${STATES} is not here`,
  ],
  [
    "tensor-core kernels",
    () => writeTinyCheckpoint({ hidden: 256, heads: 4, kvHeads: 2, ffn: 160, dtype: "BF16" }),
    false,
  ],
];

for (const [name, modelOf, skip] of MODELS) {
  test(`${name}: known steps are what writing them gives`, { skip: reason || skip }, async () => {
    const model = modelOf();
    const written = await answersOf(model, true);
    assert.ok(written.numKnown > 20, `${written.numKnown} steps were known`);
    const replayed = await answersOf(model, false);
    assert.ok(replayed.numKnown > 20, `${replayed.numKnown} steps were known`);
    assert.deepEqual(replayed.answers, written.answers);
  });

  test(`${name}: and so are known steps with guesses`, { skip: reason || skip }, async () => {
    const model = modelOf();
    const written = await answersOf(model, true, guessing());
    const replayed = await answersOf(model, false, guessing());
    assert.ok(replayed.numDrafted > 200 && replayed.numKnown > 20, `${replayed.numKnown} steps were known`);
    assert.deepEqual(replayed.answers, written.answers);
  });
}

test("latent attention takes few launches, so that a step of many layers is a graph", { skip: reason }, async () => {
  const device = (await openCuda()).device!;
  const { core, facts } = await load(device, withByteTokenizer("test/goldens/deepseek-v3", 320));
  const answers = new Map<string, number[]>();
  add(core, answers, "a", 9, facts.vocabSize, { maxTokens: 40 });
  run(core, answers, 20);
  const { launches, graphReplays } = { ...device.counts };
  run(core, answers, 10);
  const ofStep = (device.counts.launches - launches) / 10;
  assert.ok(device.counts.graphReplays - graphReplays >= 9);
  core.close();
  // Two layers, one of them with experts: of 27 layers (DeepSeek-V2-Lite) no more than 13.5 times as many.
  assert.ok(13.5 * ofStep < 1200, `${ofStep} launches a step of two layers`);
});

/** Up to four guesses a row, nearly always four. */
function guessing(): Drafter {
  let turn = 0;
  return {
    propose: (request, most) => {
      const count = Math.min(most, turn++ % 7 === 0 ? 2 : 4);
      for (let i = 0; i < count; i++) request.tokens[request.numTokens + i] = (turn + i) % 50;
      return count;
    },
  };
}

test("decodes that are padded to a size that is known are answered as each alone", { skip: reason }, async () => {
  const model = writeTinyCheckpoint({ hidden: 256, heads: 4, kvHeads: 2, ffn: 160, dtype: "BF16" });
  const { core, facts } = await load((await openCuda()).device!, model);
  const together = new Map<string, number[]>();
  const alone = new Map<string, number[]>();
  const lengths = Array.from({ length: 11 }, (_, i) => 3 + i);
  for (const length of lengths) add(core, together, `${length}`, length, facts.vocabSize, { maxTokens: 5 + length });
  run(core, together, Number.POSITIVE_INFINITY);
  for (const length of lengths) {
    add(core, alone, `${length}`, length, facts.vocabSize, { maxTokens: 5 + length, seed: 1 });
    run(core, alone, Number.POSITIVE_INFINITY);
  }
  core.close();
  assert.deepEqual(together, alone);
});

for (const isChecked of [true, false]) {
  test(`steps of many groupings of adapters are few graphs${isChecked ? ", as written" : ""}`, {
    skip: reason,
  }, async () => {
    const model = writeTinyCheckpoint();
    const folder = mkdtempSync(join(tmpdir(), "pagoda-lora-steps-"));
    const paths = [/./, /q_proj|v_proj/, /mlp/, /./].map((wanted, seed) =>
      writeTinyAdapter({ seed, rank: 3 + 5 * seed, wanted }, folder),
    );
    if (isChecked) process.env.PAGODA_CUDA_CHECK = "1";
    else delete process.env.PAGODA_CUDA_CHECK;
    const device = (await openCuda()).device!;
    const engine = await load(device, model);
    const { core, facts, adapters } = engine;
    const answersOfAll = async (together: boolean): Promise<Map<string, number[]>> => {
      const answers = new Map<string, number[]>();
      for (let i = 0; i < 20; i++) {
        const kind = (i * 3) % 5;
        const ref = { name: `${kind}`, path: paths[kind - 1]!, scale: 1, isPinned: false };
        const held = kind === 0 ? null : await adapters.acquire(ref);
        add(core, answers, `${i}`, 3 + i, facts.vocabSize, { maxTokens: 30 }, held);
        run(core, answers, together ? 4 : Number.POSITIVE_INFINITY);
      }
      run(core, answers, Number.POSITIVE_INFINITY);
      return answers;
    };
    const alone = await answersOfAll(false);
    const before = { ...device.counts };
    assert.deepEqual(await answersOfAll(true), alone);
    const [known, made] = [device.counts.knownSteps - before.knownSteps, device.counts.graphsMade - before.graphsMade];
    assert.ok(known > made, `${known} steps were known, ${made} graphs were made`);
    core.close();
    rmSync(folder, { recursive: true });
  });
}

/** Every answer of some traffic. `isChecked`: known steps are written all the same and compared; one that differs fails its requests. */
async function answersOf(
  model: string,
  isChecked: boolean,
  drafter: Drafter | null = null,
): Promise<{ answers: string[]; numKnown: number; numDrafted: number }> {
  if (isChecked) process.env.PAGODA_CUDA_CHECK = "1";
  else delete process.env.PAGODA_CUDA_CHECK;
  const device = (await openCuda()).device!;
  const { core, facts } = await load(device, model, drafter);
  const answers = new Map<string, number[]>();
  // Rows that stay while others join and leave, so that sizes come back; one whose keys are split, into more parts as it grows; some that
  // ask for what changes the launches of sampling.
  add(core, answers, "split", 236, facts.vocabSize, { maxTokens: 100 });
  for (let wave = 0; wave < 6; wave++) {
    add(core, answers, `${wave}-long`, 5 + wave, facts.vocabSize, { maxTokens: 60 });
    add(core, answers, `${wave}-short`, 40, facts.vocabSize, { maxTokens: 7, temperature: 1, seed: wave });
    if (wave % 2 === 0) add(core, answers, `${wave}-report`, 3, facts.vocabSize, { maxTokens: 9, logprobs: 2 });
    if (wave % 3 === 0) add(core, answers, `${wave}-late`, 3, facts.vocabSize, { maxTokens: 9, minTokens: 8 });
    run(core, answers, 24);
  }
  run(core, answers, Number.POSITIVE_INFINITY);
  const { knownSteps } = device.counts;
  const { numDrafted } = core.recorder;
  core.close();
  return { answers: [...answers].map(([id, tokens]) => `${id}: ${tokens}`), numKnown: knownSteps, numDrafted };
}

function load(device: CudaDevice, model: string, drafter: Drafter | null = null) {
  const config = engineConfig({ model, device: "cuda", pageSize: 8, maxPagesPerBatch: 16, idealChunk: 32 });
  return loadEngine(
    config,
    () => {},
    async () => device,
    drafter,
  );
}

function add(
  core: EngineCore,
  answers: Map<string, number[]>,
  id: string,
  length: number,
  vocabSize: number,
  sampling: Partial<SamplingParams>,
  adapter: HeldAdapter | null = null,
): void {
  answers.set(id, []);
  core.add(
    {
      type: "add",
      callId: id,
      kind: "generate",
      prompt: Int32Array.from({ length }, (_, i) => (i * 7 + length) % vocabSize),
      sampling: { ...SAMPLING_DEFAULTS, maxTokens: 9, temperature: 0, ignoreEos: true, seed: 0, ...sampling },
      priority: 0,
      salt: id,
      arrivalMs: 0,
      constraint: null,
    },
    null,
    adapter,
  );
}

function run(core: EngineCore, answers: Map<string, number[]>, steps: number): void {
  for (let i = 0; i < steps && core.hasWork; i++) {
    core.step();
    for (const { callId, tokens, error } of outputsOf(core)) {
      assert.equal(error, null, JSON.stringify(error));
      answers.get(callId)!.push(...tokens);
    }
  }
}
