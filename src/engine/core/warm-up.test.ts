import assert from "node:assert/strict";
import { test } from "node:test";
import { writeTinyCheckpoint } from "../../../test/support/tiny-checkpoint.js";
import { engineConfig } from "../../config/engine-config.js";
import { createEngine } from "../client/engine.js";
import { loadEngine } from "./load.js";
import { STEPS, warmPrompts, warmUp } from "./warm-up.js";

test("a warm-up leaves nothing behind: counts, pages and answers are those of a new engine", async () => {
  const model = writeTinyCheckpoint();
  const answers: (readonly number[])[] = [];
  for (const warmup of [false, true]) {
    await using engine = await createEngine({ model, device: "reference", worker: false, numPages: 12, warmup });
    const { steps, generatedTokens, promptTokens, requestsFinished, pagesUsed, pagesCached } = await engine.stats();
    assert.deepEqual(
      { steps, generatedTokens, promptTokens, requestsFinished, pagesUsed, pagesCached },
      { steps: 0, generatedTokens: 0, promptTokens: 0, requestsFinished: 0, pagesUsed: 0, pagesCached: 0 },
    );
    const { samples } = await engine.generate("as ever", { maxTokens: 8, temperature: 0 }).result();
    answers.push(samples[0]!.tokenIds);
  }
  assert.deepEqual(answers[1], answers[0]);
});

test("prompts of a warm-up: powers of two that the step and the pool hold, in chunks", async () => {
  const { core } = await loadEngine(
    engineConfig({ model: writeTinyCheckpoint(), device: "reference", numPages: 70, maxPagesPerBatch: 64 }),
    () => {},
  );
  assert.deepEqual(warmPrompts(core, 256, 48), [128, 256]);
  assert.deepEqual(warmPrompts(core, 4096, 48), [128, 256, 512]);
  const { running, waiting, pagesUsed, requestsFinished } = core.stats();
  assert.deepEqual(
    { running, waiting, pagesUsed, requestsFinished },
    { running: 0, waiting: 0, pagesUsed: 0, requestsFinished: 0 },
  );
  core.close();
});

test("decodes of a warm-up: one row to eight, then powers of two that the limit and the pool hold, ten steps of each", async () => {
  const model = writeTinyCheckpoint({ layers: 1 });
  for (const [numPages, maxRows, sizes] of [
    [100, 32, [1, 2, 3, 4, 5, 6, 7, 8, 16, 32]],
    [100, 31, [1, 2, 3, 4, 5, 6, 7, 8, 16]],
    [6, 32, [1, 2, 3, 4, 5]],
  ] as const) {
    const { core } = await loadEngine(engineConfig({ model, device: "null", numPages }), () => {});
    const step = core.step.bind(core);
    let numSteps = 0;
    core.step = () => {
      numSteps++;
      return step();
    };
    const warmed = warmUp(core, maxRows);
    assert.deepEqual(
      warmed.map(({ rows }) => rows),
      sizes,
    );
    assert.equal(numSteps, STEPS * sizes.length);
    assert.ok(warmed.every(({ firstMs, laterMs, replays }) => firstMs > 0 && laterMs > 0 && replays === 0));
    assert.equal(core.stats().steps, 0);
    core.close();
  }
});
