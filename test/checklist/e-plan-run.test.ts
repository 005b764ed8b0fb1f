// Golden numbers of the plan/run text (E): CSR, tiles, KV chunks, work lists, states, paged offsets.

import assert from "node:assert/strict";
import { test } from "node:test";
import { workersPerHead } from "../../src/attention/kv-chunk.js";
import { AttentionPlanner, chooseQTile, type PlannerOptions } from "../../src/attention/planner.js";
import { csrShape, slotOf } from "../../src/cli/explain/batch-shapes.js";
import type { AttentionPlan } from "../../src/core/attention-plan.js";
import { Batch } from "../../src/core/batch.js";
import { keyOffset, kvLayout } from "../../src/device/kv-layout.js";
import { SoftmaxStates } from "../../src/device/reference/softmax-state.js";
import { AttentionCase, maxDifference } from "../support/attention-case.js";

const TOKENS = new Int32Array(8192);
const PAGES = Int32Array.from({ length: 8192 }, (_, i) => i + 1);

/** Rows given as [queryLen, kvLen]. */
function batchOf(rows: readonly (readonly [number, number])[], pageSize: number): Batch {
  const batch = new Batch(
    pageSize,
    rows.reduce((n, [q]) => n + q, 0),
  );
  for (const [queryLen, kvLen] of rows) batch.addRow(TOKENS, kvLen - queryLen, queryLen, PAGES, Infinity);
  return batch;
}

function planOf(batch: Batch, options: Partial<PlannerOptions>, padItems = 0): AttentionPlan {
  return new AttentionPlanner({
    groupSize: 1,
    headDim: 128,
    window: 0,
    numWorkers: 1,
    split: "balanced",
    kvChunk: 1,
    ...options,
  }).plan(batch, padItems);
}

function items(plan: AttentionPlan): [row: number, qTile: number, chunk: number][] {
  return Array.from({ length: plan.numItems }, (_, i) => [
    plan.itemRow[i]!,
    plan.itemQStart[i]! / plan.qTile,
    plan.itemKvStart[i]! / plan.kvChunk,
  ]);
}

test("E2: kv lengths [1024,512,2048] at 16 a page: indptr [0,64,96,224]", () => {
  const rows = [1024, 512, 2048].map((length) => ({ tokens: [], start: length - 1, queryLen: 1, pages: PAGES }));
  const { kvIndptr } = csrShape(rows, 16);
  assert.deepEqual(kvIndptr, [0, 64, 96, 224]);
  const batch = batchOf(
    [
      [1, 1024],
      [1, 512],
      [1, 2048],
    ],
    16,
  );
  assert.deepEqual(Array.from(batch.groups[0]!.kvIndptr.subarray(0, 4)), kvIndptr);
});

test("E3 EX6: each (token, head in group) is a row for tiling: 32 / 4 = 8 heads make 8 packed rows of a decode", () => {
  const plan = planOf(batchOf([[5, 64]], 16), { groupSize: 8, qTile: 16 });
  assert.deepEqual(Array.from(plan.itemQStart.subarray(0, plan.numItems)), [0, 16, 32]);
});

test("E4 EX1: the tile from the average packed length: 16, 64 or 128, less for wide heads", () => {
  const tiles = [1, 16, 17, 64, 65, 4096].map((length) => chooseQTile(length, 128));
  assert.deepEqual(tiles, [16, 16, 64, 64, 128, 128]);
  assert.deepEqual([chooseQTile(4096, 256), chooseQTile(17, 256), chooseQTile(16, 256)], [64, 64, 16]);
  assert.deepEqual([chooseQTile(4096, 512), chooseQTile(16, 576)], [32, 16]);
});

test("E4: the average is over query rows, so decodes do not shrink the tile of the chunk beside them", () => {
  const equals = batchOf(Array(4).fill([10, 50]), 16);
  assert.equal(planOf(equals, {}).qTile, chooseQTile(10, 128));
  const mixed = batchOf([...Array(60).fill([1, 50]), [200, 200]], 16); // 4 per row, 154 per query row
  assert.equal(planOf(mixed, {}).qTile, 128);
});

test("E4: graph mode takes the worst case, total - rows + 1, whatever the rows are", () => {
  const batch = batchOf(Array(10).fill([8, 50]), 16); // average 8, worst case 71
  assert.equal(planOf(batch, {}).qTile, 16);
  assert.equal(planOf(batch, {}, 20).qTile, 128);
});

test("E5 E7: packed q [128,256] over kv [2048,1024], budget 4: chunk 1024 and the text's work list", () => {
  const plan = planOf(
    batchOf(
      [
        [128, 2048],
        [256, 1024],
      ],
      1,
    ),
    { numWorkers: 4 },
  );
  assert.equal(plan.qTile, 128);
  assert.equal(plan.kvChunk, 1024);
  assert.deepEqual(items(plan), [
    [0, 0, 0],
    [0, 0, 1],
    [1, 0, 0],
    [1, 1, 0],
  ]);
});

test("E5: the same with budgets 8 and 16: chunks 512 and 256", () => {
  const batch = batchOf(
    [
      [128, 2048],
      [256, 1024],
    ],
    1,
  );
  for (const [numWorkers, chunk] of [
    [8, 512],
    [16, 256],
  ] as const) {
    const plan = planOf(batch, { numWorkers });
    assert.deepEqual([plan.kvChunk, plan.numItems], [chunk, numWorkers]);
  }
});

test("E5: decode over kv [1024,512,2048,256]: budget 4 no split, 8 -> 512 (8 items), 16 -> 256 (15 items)", () => {
  const batch = batchOf(
    [
      [1, 1024],
      [1, 512],
      [1, 2048],
      [1, 256],
    ],
    1,
  );
  const whole = planOf(batch, { numWorkers: 4 });
  assert.deepEqual([whole.numItems, whole.numPartials], [4, 0]);
  for (const [numWorkers, chunk, numItems] of [
    [8, 512, 8],
    [16, 256, 15],
  ] as const) {
    const plan = planOf(batch, { numWorkers });
    assert.deepEqual([plan.kvChunk, plan.numItems], [chunk, numItems]);
  }
});

test("E5: a row without keys counts as one item, of no keys", () => {
  const batch = new Batch(16, 8);
  batch.addRow(TOKENS, 299, 1, PAGES, Infinity);
  batch.qoIndptr[2] = 2; // a second row with one token and no pages
  batch.groups[0]!.kvIndptr[2] = batch.groups[0]!.kvIndptr[1]!;
  batch.numRows = 2;
  const plan = planOf(batch, { numWorkers: 8 });
  const last = plan.numItems - 1;
  assert.deepEqual([plan.itemRow[last], plan.itemKvStart[last], plan.itemKvEnd[last]], [1, 0, 0]);
});

test("E6: kv 4096 in chunks of 1024: four ranges, one item each, then one merge", () => {
  const plan = planOf(batchOf([[1, 4096]], 16), { numWorkers: 4 });
  const ranges = Array.from({ length: plan.numItems }, (_, i) => [plan.itemKvStart[i], plan.itemKvEnd[i]]);
  assert.deepEqual(ranges, [
    [0, 1024],
    [1024, 2048],
    [2048, 3072],
    [3072, 4096],
  ]);
  assert.deepEqual([plan.numMerges, plan.mergeCount[0], plan.mergePartial[0]], [1, 4, 0]);
});

test("E8: graph mode pads items with no queries, and the run ignores them", () => {
  const shape = { seed: 9, numKvHeads: 1, groupSize: 1, keyDim: 8, valueDim: 8, pageSize: 16 };
  const problem = new AttentionCase(shape, [
    { sequence: 0, start: 90, queryLen: 1 },
    { sequence: 1, start: 20, queryLen: 1 },
  ]);
  const plan = planOf(problem.batch, { headDim: 8, numWorkers: 4, kvChunk: 16 }, 12);
  assert.equal(plan.numItems, 12);
  assert.equal(plan.numMerges, 6);
  assert.ok(plan.itemQLen.subarray(0, 12).includes(0) && plan.itemQLen[0] === 1);
  assert.ok(maxDifference(problem.run(plan).out, problem.naive().out) < 1e-5);
});

test("E12: indptr 3, token 42, page 16: virtual 90 is page entry 5, slot 10; indptr 10 starts at 160", () => {
  const batch = new Batch(16, 64);
  batch.addRow(TOKENS, 47, 1, Int32Array.of(1, 2, 3), Infinity); // three pages, so the next row has indptr 3
  batch.addRow(TOKENS, 42, 1, Int32Array.of(20, 21, 22), Infinity);
  assert.equal(batch.groups[0]!.kvIndptr[1], 3);
  assert.equal(batch.groups[0]!.kvIndices[5], 22);
  assert.equal(batch.groups[0]!.slots[1], 22 * 16 + 10);
  const wide = batchOf(
    [
      [1, 160],
      [1, 1],
    ],
    16,
  );
  assert.equal(wide.groups[0]!.kvIndptr[1]! * 16, 160);
});

test("E15 EX3 EX4: the state starts (0, -inf, 0), accumulates unnormalised, and its LSE is m + log2 d", () => {
  const states = new SoftmaxStates(3, 1);
  assert.deepEqual([states.o[0], states.m[0], states.d[0], states.lse(0)], [0, -Infinity, 0, -Infinity]);
  states.m.set([3, 1], 1); // two chunks of one key each: scores 3 and 1 in log2 units, values 10 and 2
  states.d.set([1, 1], 1);
  states.o.set([10, 2], 1);
  states.merge(0, states, 1);
  states.merge(0, states, 2);
  assert.deepEqual([states.o[0], states.m[0], states.d[0]], [10.5, 3, 1.25]); // 2 weighs 2^(1-3)
  assert.ok(Math.abs(states.lse(0) - Math.log2(2 ** 3 + 2 ** 1)) < 1e-6);
  assert.ok(Math.abs(states.o[0]! / states.d[0]! - (8 * 10 + 2 * 2) / 10) < 1e-6);
});

test("E16: merging over splits gives the LSE of the whole, per (token, head)", () => {
  const shape = { seed: 6, numKvHeads: 2, groupSize: 2, keyDim: 8, valueDim: 8, pageSize: 16 };
  const problem = new AttentionCase(shape, [{ sequence: 0, start: 200, queryLen: 2 }]);
  const plan = planOf(problem.batch, { groupSize: 2, headDim: 8, numWorkers: 8 });
  assert.ok(plan.numPartials >= 4);
  assert.ok(maxDifference(problem.run(plan).lse, problem.naive().lse) < 1e-5);
});

test("E17: kv 48 on pages [5,12,7], last 16; kv 25 on [3,8], last 9; indptr [0,3,5]; offsets by stride", () => {
  const rows = [
    { tokens: [], start: 47, queryLen: 1, pages: [5, 12, 7] },
    { tokens: [], start: 24, queryLen: 1, pages: [3, 8] },
  ];
  const csr = csrShape(rows, 16);
  assert.deepEqual(csr, {
    qoIndptr: [0, 1, 2],
    kvIndptr: [0, 3, 5],
    kvIndices: [5, 12, 7, 3, 8],
    lastPageLen: [16, 9],
  });
  assert.deepEqual([slotOf(rows[0]!.pages, 20, 16), slotOf(rows[1]!.pages, 24, 16)], [12 * 16 + 4, 8 * 16 + 8]);
  const layout = kvLayout({ pageSize: 16, numLayers: 1, numKvHeads: 4, keyDim: 128, valueDim: 128 });
  assert.equal(keyOffset(layout, 12, 0, 2, 4), 12 * layout.page + 2 * layout.keyHead + 4 * layout.keySlot);
  const batch = new Batch(16, 4);
  assert.equal(batch.contextLen(0), 0, "no tokens, no length");
});

test("EX2: the search counts pages, so a chunk is a whole number of them; the plan is in tokens", () => {
  const plan = planOf(batchOf([[1, 1000]], 16), { numWorkers: 7 });
  assert.equal(plan.kvChunk % 16, 0);
  assert.equal(plan.kvChunk, 144); // 63 pages over 7 workers: 9 pages
});

test("upstream: 2 x 132 CTAs over 4 kv heads are 66 slots; pages [64,32,128] get chunks of 8 pages, 28 items", () => {
  const numWorkers = workersPerHead(2 * 132, 4);
  assert.equal(numWorkers, 66);
  const batch = batchOf(
    [
      [1, 1024],
      [1, 512],
      [1, 2048],
    ],
    16,
  );
  const plan = planOf(batch, { groupSize: 8, numWorkers, kvChunk: 128 });
  assert.deepEqual([plan.kvChunk / 16, plan.numItems], [8, 28]);
});
