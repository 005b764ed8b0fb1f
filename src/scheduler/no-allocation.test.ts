// The hot path of a steady decode allocates nothing: schedule() and land() of many rows, thousands of times, with requests whose
// arrays are large enough already.
import assert from "node:assert/strict";
import { test } from "node:test";
import { makeRequest, tokensOf } from "../../test/support/simulation.js";
import { CacheManager } from "../cache/cache-manager.js";
import { Scheduler } from "./scheduler.js";

const NUM_ROWS = 32;
const SLICE_STEPS = 500;
/** The compiler needs a while, and longer on a busy machine, until all of it is as it stays. */
const MAX_SLICES = 60;

test(`decode steps of ${NUM_ROWS} rows allocate nothing`, async () => {
  const { gc } = globalThis;
  assert.ok(gc, "run with --expose-gc");
  const pageSize = 16;
  const pagesPerRow = Math.ceil((MAX_SLICES * SLICE_STEPS + 16) / pageSize);
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
  // In slices, so that a scavenge in one of them cannot hide what the others allocate. One object of 16 bytes a step would be
  // 8 KB in every slice; now and then the runtime adds something of its own.
  const grown: number[] = [];
  const numQuiet = (): number => grown.filter((bytes) => bytes < 6_000).length;
  while (numQuiet() < 3 && grown.length < MAX_SLICES) {
    await new Promise(setImmediate); // the compiler's turn
    gc();
    const before = process.memoryUsage().heapUsed;
    decode(SLICE_STEPS);
    grown.push(process.memoryUsage().heapUsed - before);
  }
  assert.equal(scheduler.numRunning, NUM_ROWS);
  assert.ok(numQuiet() >= 3, `bytes a slice: ${grown}`);
});
