import assert from "node:assert/strict";
import { test } from "node:test";
import { writeTinyCheckpoint } from "../../../test/support/tiny-checkpoint.js";
import { createEngine } from "../client/engine.js";

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
