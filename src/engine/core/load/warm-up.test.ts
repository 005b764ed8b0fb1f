import assert from "node:assert/strict";
import { test } from "node:test";
import { RecordedCore } from "../../../../test/support/recorded-core.js";
import { writeTinyCheckpoint } from "../../../../test/support/tiny-checkpoint.js";
import { engineConfig } from "../../../config/engine-config.js";
import { createEngine } from "../../client/engine.js";
import type { AddMessage } from "../../messages.js";
import { loadEngine } from "./load.js";
import { getReady, STEPS, warmUp } from "./warm-up.js";

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

test("decodes of a warm-up: the sizes that steps are padded to, which the limit and the pool hold, ten steps of each", async () => {
  const model = writeTinyCheckpoint({ layers: 1 });
  for (const [numPages, maxRows, sizes] of [
    [100, 32, [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32]],
    [100, 15, [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14]],
    [6, 32, [1, 2, 3, 4, 5]],
  ] as const) {
    const { core } = await loadEngine(engineConfig({ model, device: "null", numPages }), () => {});
    const step = core.stepAsync.bind(core);
    let numSteps = 0;
    core.stepAsync = () => {
      numSteps++;
      return step();
    };
    const warmed = await warmUp(core, maxRows);
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

test("of ten steps the longest of the first four, the middle one of the others, and the replays are told", async (t) => {
  const engine = new RecordedCore();
  const { core, device } = engine;
  const added: AddMessage[] = [];
  const add = core.add.bind(core);
  core.add = (message) => {
    added.push(message);
    add(message);
  };
  let graphReplays = 100;
  device.usage = () => ({ graphReplays }) as never;
  let nowMs = 50;
  t.mock.method(performance, "now", () => nowMs);
  const durations = [9, 1, 2, 3, 5, 4, 7, 6, 8, 10];
  const step = core.stepAsync.bind(core);
  let numSteps = 0;
  core.stepAsync = () => {
    nowMs += durations[numSteps++ % 10]!;
    graphReplays++;
    return step();
  };
  assert.deepEqual(await warmUp(core, 2), [
    { rows: 1, firstMs: 9, laterMs: 7, replays: 10 },
    { rows: 2, firstMs: 9, laterMs: 7, replays: 10 },
  ]);
  assert.equal(STEPS, 10);
  for (const { callId, prompt, sampling, salt, priority, arrivalMs } of added) {
    const { temperature, ignoreEos, seed, maxTokens } = sampling;
    assert.deepEqual([[...prompt], temperature, ignoreEos, seed, maxTokens], [[0], 0, true, 0, 10]);
    assert.deepEqual([salt, priority, arrivalMs], [callId, 0, 0]);
  }
  assert.equal(new Set(added.map(({ callId }) => callId)).size, 3);
});

test("getting ready: prompts of all sizes up to half the pool, every way of drawing, decodes of all sizes; nothing is kept", async () => {
  const model = writeTinyCheckpoint({ layers: 1 });
  const { core, cache } = await loadEngine(engineConfig({ model, device: "null", numPages: 21 }), () => {});
  const added: AddMessage[] = [];
  const add = core.add.bind(core);
  core.add = (message) => {
    added.push(message);
    add(message);
  };
  const before = cache.stats();
  await getReady(core, cache, 6, 100);
  const prompts = added.filter(({ callId }) => callId.startsWith("prompt")).map(({ prompt }) => prompt.length);
  assert.deepEqual(prompts, [20, 40, 80]);
  const draws = added.filter(({ callId }) => callId.startsWith("draw")).map(({ sampling }) => sampling);
  for (const key of ["topK", "topP", "minP", "repetitionPenalty", "logprobs"] as const)
    assert.ok(new Set(draws.map((sampling) => sampling[key])).size > 1, key);
  assert.equal(added.length - prompts.length - draws.length, 1 + 2 + 3 + 4 + 5 + 6);
  const { pagesCached, entries, pagesUsed } = cache.stats();
  assert.deepEqual({ pagesCached, entries, pagesUsed }, { pagesCached: 0, entries: 0, pagesUsed: before.pagesUsed });
  assert.equal(core.stats().steps, 0);
  cache.checkIntegrity([]);
  core.close();
});
