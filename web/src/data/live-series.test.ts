import assert from "node:assert/strict";
import { test } from "node:test";
import { LiveSeries, summarize, WINDOW } from "./live-series.js";
import { stepOf } from "./step-fixture.js";
import type { Stats } from "./wire.js";

function stats(engine: Partial<NonNullable<Stats["engine"]>>, ttft = { count: 0, mean: 0 }): Stats {
  return {
    engine: {
      running: 1,
      waiting: 2,
      pagesTotal: 10,
      pagesUsed: 1,
      pagesCached: 4,
      promptTokens: 0,
      cachedTokens: 0,
      generatedTokens: 0,
      deviceUsage: null,
      hostTimes: null,
      ...engine,
    },
    server: { queued: 3, ttftMs: ttft },
  } as unknown as Stats;
}

test("totals become rates; what did not happen is null, not zero", () => {
  const series = new LiveSeries();
  series.addStats(0, stats({}));
  const prompt = stepOf(0, ["a", "b"]);
  series.addStep({ ...prompt, rows: [{ ...prompt.rows[0]!, queryLen: 30, isPrefill: true }, prompt.rows[1]!] });
  series.addStats(2, stats({ generatedTokens: 50, promptTokens: 40, cachedTokens: 10 }, { count: 2, mean: 8 }));
  assert.deepEqual(series.samples[0], {
    seconds: 0,
    decodeRate: 0,
    prefillRate: 0,
    running: 1,
    waiting: 5,
    ttftMs: null,
    stepMs: null,
    usedShare: 0.1,
    filledShare: 0.5,
    hitRate: null,
    busyShare: null,
    memoryShare: null,
    replayRate: null,
  });
  const { decodeRate, prefillRate, ttftMs, stepMs, hitRate } = series.samples[1]!;
  assert.deepEqual(
    { decodeRate, prefillRate, ttftMs, stepMs, hitRate },
    { decodeRate: 25, prefillRate: 15, ttftMs: 8, stepMs: prompt.durationMs, hitRate: 0.25 },
  );
});

test("a GPU's clock, memory and graphs become shares and a rate", () => {
  const series = new LiveSeries();
  const usage = { memoryBytes: 200, memoryUsedBytes: 50, busyMs: 1000, launches: 10, graphReplays: 7 };
  series.addStats(0, stats({ deviceUsage: usage }));
  series.addStats(2, stats({ deviceUsage: { ...usage, busyMs: 2500, graphReplays: 107 } }));
  const { busyShare, memoryShare, replayRate } = series.samples[1]!;
  assert.deepEqual({ busyShare, memoryShare, replayRate }, { busyShare: 0.75, memoryShare: 0.25, replayRate: 50 });
});

test("a restarted engine gives no negative rates, and old samples leave", () => {
  const series = new LiveSeries();
  for (let t = 0; t < WINDOW * 2; t++) series.addStats(t, stats({ generatedTokens: t < 300 ? t * 10 : t - 300 }));
  assert.equal(series.samples.length, WINDOW + 1);
  const { min, max, now } = summarize(series.samples, "decodeRate");
  assert.deepEqual({ min, max, now }, { min: 0, max: 10, now: 1 });
  assert.equal(summarize(series.samples, "hitRate").mean, null);
});
