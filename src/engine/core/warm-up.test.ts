import assert from "node:assert/strict";
import { test } from "node:test";
import { writeTinyCheckpoint } from "../../../test/support/tiny-checkpoint.js";
import { engineConfig } from "../../config/engine-config.js";
import { createEngine } from "../client/engine.js";
import { loadEngine } from "./load.js";
import { warmPrompts } from "./warm-up.js";

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
