import assert from "node:assert/strict";
import { test } from "node:test";
import { RecordedCore } from "../../../test/support/recorded-core.js";
import { writeTinyCheckpoint } from "../../../test/support/tiny-checkpoint.js";
import { engineConfig } from "../../config/engine-config.js";
import { SAMPLING_DEFAULTS } from "../../core/sampling.js";
import { OutputReader } from "../outputs.js";
import type { EngineCore } from "./engine-core.js";
import { loadEngine } from "./load/load.js";

function add(core: EngineCore, callId: string, length: number, n = 1): void {
  const prompt = Int32Array.from({ length }, (_, i) => i);
  core.add({
    ...{ type: "add", callId, kind: "generate", prompt, priority: 0, salt: "", arrivalMs: 0, constraint: null },
    sampling: { ...SAMPLING_DEFAULTS, ignoreEos: true, seed: 1, maxTokens: 2, n },
  });
}

function counts(core: EngineCore) {
  const { steps, promptTokens, cachedTokens, generatedTokens, paddingAvoided, preemptions, requestsFinished } =
    core.stats();
  return { steps, promptTokens, cachedTokens, generatedTokens, paddingAvoided, preemptions, requestsFinished };
}

test("steps, tokens and what was avoided are counted once each; a step is described as it was", async () => {
  const model = writeTinyCheckpoint();
  const { core } = await loadEngine(engineConfig({ model, device: "null", numPages: 40 }), () => {});
  add(core, "long", 20);
  add(core, "short", 3, 2);
  core.step();
  const reader = new OutputReader<string>((callId) => callId);
  const taken = () => {
    const message = core.takeOutputs()!;
    reader.open(message);
    return reader.recordOf(message.step!);
  };
  const first = taken();
  assert.equal(core.takeOutputs(), null);
  assert.deepEqual(
    first.rows.map(({ id, start, queryLen, contextLen, isPrefill }) => [id, start, queryLen, contextLen, isPrefill]),
    [
      ["long", 0, 20, 20, true],
      ["short", 0, 3, 3, true],
    ],
  );
  assert.deepEqual(
    [first.step, first.tokens, first.paddingAvoided, first.waiting, first.preempted],
    [0, 23, 17, 0, []],
  );
  core.step();
  const second = taken();
  assert.deepEqual(
    second.rows.map(({ id, start, queryLen, contextLen, isPrefill }) => [id, start, queryLen, contextLen, isPrefill]),
    [
      ["long", 20, 1, 21, false],
      ["short", 3, 1, 4, false],
      ["short#1", 3, 1, 4, false],
    ],
  );
  assert.deepEqual([second.step, second.tokens, second.paddingAvoided], [1, 3, 0]);
  assert.deepEqual([first.prefills, second.prefills], [2, 0]);
  assert.deepEqual(counts(core), {
    ...{ steps: 2, promptTokens: 23, cachedTokens: 0, generatedTokens: 6, paddingAvoided: 17, preemptions: 0 },
    requestsFinished: 3,
  });
  add(core, "again", 20);
  while (core.hasWork) core.step();
  assert.deepEqual(counts(core), {
    ...{ steps: 4, promptTokens: 43, cachedTokens: 16, generatedTokens: 8, paddingAvoided: 17, preemptions: 0 },
    requestsFinished: 4,
  });
  core.recorder.clear();
  assert.equal(core.recorder.takeRecord(), null);
  assert.ok(Object.values(counts(core)).every((count) => count === 0));
  core.close();
});

test("a step tells who lost their pages in it, how full the cache is, and how long it took", () => {
  const engine = new RecordedCore({ pages: 6 });
  engine.add("first", 8, { maxTokens: 12 });
  engine.step();
  assert.equal(engine.core.recorder.numDropped, 0);
  engine.add("second", 4, { maxTokens: 9 }, { priority: 1 });
  engine.core.recorder.takeRecord();
  const preempted: string[] = [];
  let numMore = 0;
  while (engine.core.hasWork) {
    engine.step();
    const record = engine.core.recorder.takeRecord()!;
    preempted.push(...record.preempted);
    if (record.waiting > 0) numMore++;
    assert.equal(record.pagesFree + record.pagesCached + record.pagesUsed, 6);
    assert.deepEqual([record.durationMs, record.startMs, record.budget], [0, engine.now, 8]);
  }
  assert.ok(preempted.length > 0 && numMore > 0);
  assert.deepEqual(new Set(preempted), new Set(["second"]));
  assert.equal(engine.core.stats().preemptions, preempted.length);
  assert.equal(engine.core.stats().hostTimes, null, "it computes in its calls");
  engine.device.usage = () => ({}) as never;
  const { recorder } = engine.core;
  recorder.clock.mark("plan");
  assert.ok(engine.core.stats().hostTimes!.plan > 0);
  recorder.countDropped();
  recorder.clear();
  assert.deepEqual([recorder.numDropped, engine.core.stats().preemptions], [0, 0]);
  assert.equal(engine.core.stats().hostTimes!.plan, 0);
});
