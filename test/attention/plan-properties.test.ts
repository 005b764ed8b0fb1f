// What every plan must satisfy, whatever the batch and options: each (query row, visible key) in exactly one item, chunks at
// absolute multiples, consistent merges, each item with exactly one worker, no allocation in steady state.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { AttentionPlanner, type PlannerOptions } from "../../src/attention/planner.js";
import { type AttentionPlan, MAX_PARTIAL_ROWS } from "../../src/core/attention-plan.js";
import { Batch } from "../../src/core/batch.js";

const PAGE = 16;
const NO_TOKENS = new Int32Array(1 << 17);
const NO_PAGES = new Int32Array(1 << 13);

function batchOf(rows: readonly (readonly [start: number, queryLen: number])[]): Batch {
  const batch = new Batch(
    PAGE,
    rows.reduce((n, [, q]) => n + q, 0),
  );
  for (const [start, queryLen] of rows) batch.addRow(NO_TOKENS, start, queryLen, NO_PAGES, Infinity);
  return batch;
}

function checkPlan(batch: Batch, plan: AttentionPlan, options: PlannerOptions): void {
  const { groupSize, window } = options;
  // Items in order row, q tile, KV chunk; those of one q tile are adjacent.
  let item = 0;
  let merge = 0;
  let partials = 0;
  for (let row = 0; row < batch.numRows; row++) {
    const packedLen = batch.queryLen(row) * groupSize;
    for (let q = 0; q < packedLen; q += plan.qTile) {
      const first = item;
      for (; item < plan.numItems && plan.itemQLen[item] !== 0; item++) {
        if (plan.itemRow[item] !== row || plan.itemQStart[item] !== q) break;
        assert.equal(plan.itemQLen[item], Math.min(plan.qTile, packedLen - q));
        assert.equal(plan.itemKvStart[item]! % plan.kvChunk, 0, "chunks start at absolute multiples");
        assert.ok(
          item === first || plan.itemKvStart[item] === plan.itemKvEnd[item - 1],
          "adjacent, ascending, disjoint",
        );
      }
      const count = item - first;
      assert.ok(count >= 1, `row ${row} tile ${q} has an item`);
      // Keys that some token of the tile sees lie in [kvStart of the first item, kvEnd of the last), nothing past the last token.
      const start = batch.contextLen(row) - batch.queryLen(row);
      const firstPos = start + Math.floor(q / groupSize);
      const lastPos = start + Math.floor((Math.min(q + plan.qTile, packedLen) - 1) / groupSize);
      const firstKey = window > 0 ? Math.max(0, firstPos - window + 1) : 0;
      assert.ok(plan.itemKvStart[first]! <= firstKey && firstKey - plan.itemKvStart[first]! < plan.kvChunk);
      assert.equal(plan.itemKvEnd[item - 1], lastPos + 1);
      if (count === 1) {
        assert.equal(plan.itemPartial[first], -1);
        continue;
      }
      for (let i = first; i < item; i++) {
        assert.equal(plan.itemPartial[i], partials + i - first);
        assert.ok(plan.itemKvEnd[i]! - plan.itemKvStart[i]! <= plan.kvChunk, "a part is one chunk");
      }
      assert.equal(plan.mergeRow[merge], row);
      assert.equal(plan.mergeQStart[merge], q);
      assert.equal(plan.mergePartial[merge], partials);
      assert.equal(plan.mergeCount[merge], count);
      merge++;
      partials += count;
    }
  }
  for (; item < plan.numItems; item++) assert.equal(plan.itemQLen[item], 0, "the rest is padding");
  for (; merge < plan.numMerges; merge++) assert.equal(plan.mergeCount[merge], 0, "the rest is padding");
  assert.equal(plan.numPartials, partials);
  assert.ok(partials * plan.qTile <= MAX_PARTIAL_ROWS);
}

const rowsArb = fc.array(
  fc.oneof(
    fc.tuple(fc.nat(5000), fc.constant(1)), // decode
    fc.tuple(
      fc.nat(40).map((pages) => pages * PAGE),
      fc.integer({ min: 1, max: 300 }),
    ), // chunk
  ),
  { minLength: 1, maxLength: 40 },
);
const optionsArb = fc.record({
  groupSize: fc.constantFrom(1, 3, 4, 8),
  headDim: fc.constantFrom(64, 128, 256, 576),
  window: fc.constantFrom(0, 0, 1, 7, 128, 4096),
  numWorkers: fc.constantFrom(1, 2, 16, 66, 264),
  split: fc.constantFrom("fixed" as const, "balanced" as const),
  kvChunk: fc.constantFrom(16, 48, 128, 256),
});

test("every visible key of every query row is in exactly one item, in order, with its merge", () => {
  fc.assert(
    fc.property(rowsArb, optionsArb, fc.constantFrom(0, 0, 64, 1000), (rows, options, padItems) => {
      const batch = batchOf(rows);
      const plan = new AttentionPlanner(options).plan(batch, padItems);
      checkPlan(batch, plan, options);
      if (padItems > 0 && plan.numItems > padItems) {
        const tiles = rows.reduce((n, [, q]) => n + Math.ceil((q * options.groupSize) / plan.qTile), 0);
        assert.equal(
          plan.numItems,
          tiles,
          "only a batch with too many tiles exceeds the padding, and then nothing is split",
        );
      }
    }),
    { numRuns: 400, seed: 11 },
  );
});

test("a reused planner gives the plan of a fresh one", () => {
  const options = { groupSize: 4, headDim: 64, window: 0, numWorkers: 8, split: "fixed", kvChunk: 64 } as const;
  const reused = new AttentionPlanner(options);
  fc.assert(
    fc.property(rowsArb, (rows) => {
      const batch = batchOf(rows);
      const got = reused.plan(batch);
      const want = new AttentionPlanner(options).plan(batch);
      checkPlan(batch, got, options);
      assert.deepEqual(items(got), items(want));
    }),
    { numRuns: 50, seed: 12 },
  );
});

test("thousands of rows, and a context of a hundred thousand tokens", () => {
  const rows = Array.from({ length: 4096 }, (_, i) => [(i * 37) % 3000, 1] as const);
  rows[100] = [100_000, 1];
  for (const split of ["fixed", "balanced"] as const) {
    const options = { groupSize: 8, headDim: 128, window: 0, numWorkers: 66, split, kvChunk: 256 };
    const batch = batchOf(rows);
    const plan = new AttentionPlanner(options).plan(batch);
    checkPlan(batch, plan, options);
    assert.ok(plan.numItems >= 4096);
  }
});

test("a long decode row among short ones is split, short ones are not (fixed mode)", () => {
  const rows = Array.from({ length: 33 }, (_, i) => [i === 32 ? 20_000 : 100, 1] as const);
  const plan = new AttentionPlanner({
    groupSize: 4,
    headDim: 64,
    window: 0,
    numWorkers: 8,
    split: "fixed",
    kvChunk: 256,
  }).plan(batchOf(rows));
  assert.equal(plan.numMerges, 1);
  assert.equal(plan.mergeRow[0], 32);
  assert.equal(plan.mergeCount[0], Math.ceil(20_001 / 256));
});

test("whole tiles that keep the longest worker near its share are not split; where they do not, they are", () => {
  const numItems = (queryLen: number, lengths: number[], slack: { decode: number; tall: number }): number => {
    const common = { groupSize: 1, headDim: 64, window: 0, split: "fixed", kvChunk: 16 } as const;
    const planner = new AttentionPlanner({ ...common, numWorkers: 2, slack });
    return planner.plan(batchOf(lengths.map((contextLen) => [contextLen - queryLen, queryLen]))).numItems;
  };
  assert.equal(numItems(1, [64, 64], { decode: 0, tall: -1 }), 2);
  assert.equal(numItems(1, [64, 16], { decode: 0, tall: Infinity }), 5);
  assert.equal(numItems(1, [64, 16], { decode: 1, tall: -1 }), 2);
  assert.equal(numItems(40, [128, 48], { decode: Infinity, tall: 0 }), 11);
  assert.equal(numItems(40, [128, 48], { decode: 0, tall: Infinity }), 2);
});

test("one worker never splits; a window drops the keys before it", () => {
  const batch = batchOf([[4000, 200]]);
  const options = { groupSize: 2, headDim: 64, numWorkers: 1, split: "fixed", kvChunk: 128 } as const;
  const full = new AttentionPlanner({ ...options, window: 0 }).plan(batch);
  assert.equal(full.numPartials, 0);
  assert.equal(full.itemKvStart[0], 0);
  const windowed = new AttentionPlanner({ ...options, window: 256 }).plan(batch);
  assert.equal(windowed.itemKvStart[0], 3712); // 4000 - 255 = 3745, down to a multiple of 128
});

test("planning reuses its arrays and allocates nothing per item", (t) => {
  const { gc } = globalThis;
  if (gc === undefined) return t.skip("needs node --expose-gc, as scripts/run-tests.mjs gives it");
  const planner = new AttentionPlanner({
    groupSize: 4,
    headDim: 64,
    window: 0,
    numWorkers: 16,
    split: "fixed",
    kvChunk: 256,
  });
  const batch = batchOf(Array.from({ length: 256 }, (_, i) => [i * 13, 1] as const));
  const { itemRow, itemPartial, mergeRow } = planner.plan(batch);
  const rounds = 500;
  let perPlan = Number.POSITIVE_INFINITY;
  // Code that is not compiled yet boxes its floats, and a busy machine compiles late. An object or a number per item would be 4096 bytes
  // and more every time.
  for (let tries = 0; perPlan >= 1024 && tries < 40; tries++) {
    gc();
    const before = process.memoryUsage().heapUsed;
    for (let i = 0; i < rounds; i++) planner.plan(batch);
    perPlan = (process.memoryUsage().heapUsed - before) / rounds;
  }
  assert.ok(perPlan < 1024, `${perPlan} bytes per plan of 256 items`);
  const plan = planner.plan(batch);
  assert.ok(plan.itemRow === itemRow && plan.itemPartial === itemPartial && plan.mergeRow === mergeRow);
});

test("options that cannot be are refused by name", () => {
  const good = { groupSize: 4, headDim: 64, window: 0, numWorkers: 2, split: "fixed", kvChunk: 64 } as const;
  assert.throws(() => new AttentionPlanner({ ...good, kvChunk: 0 }), /Option kvChunk is 0; .* at least 1/);
  assert.throws(() => new AttentionPlanner({ ...good, numWorkers: 1.5 }), /numWorkers is 1.5/);
  assert.throws(() => new AttentionPlanner({ ...good, window: -1 }), /window is -1/);
});

function items(plan: AttentionPlan): number[][] {
  return Array.from({ length: plan.numItems }, (_, i) => [
    plan.itemRow[i]!,
    plan.itemQStart[i]!,
    plan.itemKvStart[i]!,
    plan.itemKvEnd[i]!,
    plan.itemPartial[i]!,
  ]);
}
