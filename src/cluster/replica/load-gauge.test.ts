import assert from "node:assert/strict";
import { test } from "node:test";
import { writeTinyCheckpoint } from "../../../test/support/tiny-checkpoint.js";
import { createEngine } from "../../engine/client/engine.js";
import type { Engine, StepRecord } from "../../engine/types.js";
import { LoadGauge, PromptSpeed } from "./load-gauge.js";

test("the speed is that of late: what came before counts nine tenths as much", () => {
  const speed = new PromptSpeed();
  assert.equal(speed.tokensPerSecond, 1000);
  speed.note(100, 50);
  assert.equal(speed.tokensPerSecond, 2000);
  speed.note(10, 55);
  assert.equal(speed.tokensPerSecond, 1000, "100 tokens in 100 ms");
  for (let i = 0; i < 300; i++) speed.note(0, 1000);
  assert.equal(speed.tokensPerSecond, 1);
});

test("a gauge says what the engine said last; steps that only answer do not count as prompts", async () => {
  const model = writeTinyCheckpoint();
  await using engine = await createEngine({ model, device: "null", numPages: 20, worker: false });
  const gauge = new LoadGauge(engine);
  const { tokensPerSecond, ...counts } = gauge.load();
  assert.equal(tokensPerSecond, 1000);
  assert.deepEqual([...new Set(Object.values(counts))], [0]);
  await engine.generate([1, 2, 3], { maxTokens: 2, ignoreEos: true }).result();
  await gauge.refresh();
  const { promptTokens, generatedTokens, requestsFinished, pagesTotal, running, waiting } = gauge.load();
  assert.deepEqual(
    [promptTokens, generatedTokens, requestsFinished, pagesTotal, running, waiting],
    [3, 2, 1, 19, 0, 0],
  );
  gauge.close();
  const still = new LoadGauge(engine);
  const step = (prefills: number) => ({ prefills, tokens: 50, durationMs: 10 }) as StepRecord;
  still.measure(step(0));
  assert.equal(still.load().tokensPerSecond, 1000);
  still.measure(step(1));
  assert.equal(still.load().tokensPerSecond, 5000);
  still.close();
  await engine.close();
  await still.refresh();
  assert.equal(still.load().promptTokens, 0, "nobody is asked");
});

test("the engine is asked once at a time, and again after it failed; its steps are followed until the gauge is closed", async () => {
  let numAsked = 0;
  let answer!: (stats: object | Error) => void;
  let signal!: AbortSignal;
  const engine = {
    health: () => ({ state: "ready" }),
    stats: () =>
      new Promise((resolve, reject) => {
        numAsked++;
        answer = (stats) => (stats instanceof Error ? reject(stats) : resolve(stats));
      }),
    inspect: {
      async *steps(options: { signal: AbortSignal }) {
        signal = options.signal;
        yield { prefills: 1, tokens: 3, durationMs: 0.5 };
      },
    },
  };
  const gauge = new LoadGauge(engine as unknown as Engine);
  for (const stats of [new Error("gone"), { running: 4 }]) {
    const first = gauge.refresh();
    await gauge.refresh();
    answer(stats);
    await first;
  }
  assert.deepEqual([numAsked, gauge.load().running, gauge.load().tokensPerSecond], [2, 4, 6000]);
  assert.equal(signal.aborted, false);
  gauge.close();
  assert.equal(signal.aborted, true);
});
