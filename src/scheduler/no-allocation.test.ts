// The hot path of a steady decode allocates nothing: schedule() and land() of many rows, thousands of times, with requests whose
// arrays are large enough already.
import assert from "node:assert/strict";
import { test } from "node:test";
import { makeRequest, tokensOf } from "../../test/support/simulation.js";
import { CacheManager } from "../cache/cache-manager.js";
import { Scheduler } from "./scheduler.js";

const NUM_ROWS = 32;
const NUM_STEPS = 10_000;

test(`${NUM_STEPS} decode steps of ${NUM_ROWS} rows allocate nothing`, () => {
  const { gc } = globalThis;
  assert.ok(gc, "run with --expose-gc");
  const pageSize = 16;
  const pagesPerRow = Math.ceil((NUM_STEPS + 3_000) / pageSize);
  const cache = new CacheManager({
    pageSize,
    prefixCaching: true,
    groups: [{ kind: "full", numPages: 1 + NUM_ROWS * pagesPerRow }],
  });
  const options = { mode: "extend", pageSize, maxPagesPerBatch: 8, idealChunk: 128 } as const;
  let nowMs = 0;
  const scheduler = new Scheduler(options, cache, () => nowMs);
  for (let i = 0; i < NUM_ROWS; i++) {
    const request = makeRequest(`r${i}`, tokensOf(i, 3), { maxTokens: 1 });
    const tokens = new Int32Array(pagesPerRow * pageSize);
    tokens.set(request.tokens);
    request.tokens = tokens;
    request.tables[0]!.pages = new Int32Array(pagesPerRow);
    scheduler.add(request);
  }
  const decode = (numSteps: number): void => {
    for (let i = 0; i < numSteps; i++) {
      nowMs += 0.5;
      const step = scheduler.schedule()!;
      scheduler.land(step);
      for (let r = 0; r < step.numRows; r++) step.rows[r]!.appendToken(i % 100);
    }
  };
  decode(2_000); // lets the compiler settle
  // In slices, so that a scavenge in one of them cannot hide what the others allocate.
  const grown: number[] = [];
  for (let slice = 0; slice < 10; slice++) {
    gc();
    const before = process.memoryUsage().heapUsed;
    decode(NUM_STEPS / 10);
    grown.push(process.memoryUsage().heapUsed - before);
  }
  assert.equal(scheduler.numRunning, NUM_ROWS);
  // One object of 16 bytes a step would be 16 KB in every slice; now and then the runtime adds something of its own.
  const quietest = grown.sort((a, b) => a - b)[1]!;
  assert.ok(quietest < 12_000, `bytes a slice: ${grown}`);
});
