// Golden numbers of the paged-attention text (C): varlen lengths and block tables.

import assert from "node:assert/strict";
import { test } from "node:test";
import { AttentionPlanner } from "../../src/attention/planner.js";
import { blockTableShape, type ShapeRow, varlenShape } from "../../src/cli/explain/batch-shapes.js";
import { Batch } from "../../src/core/batch.js";
import { ceilDiv } from "../../src/core/math.js";

function rowOf(start: number, queryLen: number, pages: readonly number[] = []): ShapeRow {
  return { tokens: [], start, queryLen, pages };
}

test("C1: one plan serves both paths; a decode-only batch is one small tile per row, a mixed one needs no second path", () => {
  const planner = new AttentionPlanner({
    groupSize: 4,
    headDim: 128,
    window: 0,
    numWorkers: 1,
    split: "fixed",
    kvChunk: 256,
  });
  const batch = new Batch(32, 64);
  const pages = Int32Array.from({ length: 8 }, (_, i) => i + 1);
  for (const start of [30, 32, 70]) batch.addRow(new Int32Array(128), start, 1, pages, Infinity);
  const decode = planner.plan(batch);
  assert.deepEqual([decode.qTile, decode.numItems], [16, 3]);
  batch.addRow(new Int32Array(128), 0, 40, pages, Infinity);
  assert.equal(planner.plan(batch).numItems, 3 + ceilDiv(160, planner.plan(batch).qTile));
});

test("C3 CX1: q [10,3,1] over cached [0,1,7]: keys include the new tokens, so cuK is [0,10,14,22] and no softmax is empty", () => {
  const shape = varlenShape([rowOf(0, 10), rowOf(1, 3), rowOf(7, 1)]);
  assert.deepEqual(shape.cuQ, [0, 10, 13, 14]);
  assert.deepEqual(shape.cuCached, [0, 0, 1, 8]); // the text's cu_seq_lens_k
  assert.deepEqual(shape.cuK, [0, 10, 14, 22]);
  assert.deepEqual([shape.maxQ, shape.maxK], [10, 10]);
  assert.deepEqual(shape.rowOfQ, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 2]);
  assert.deepEqual(shape.rowOfK, [...Array(10).fill(0), ...Array(4).fill(1), ...Array(8).fill(2)]);
});

const C5 = [rowOf(30, 1, [2]), rowOf(32, 1, [0, 1]), rowOf(70, 1, [3, 5, 6])];

test("C4 C5: block table with -1, cache lengths, and the slot of each new token", () => {
  const shape = blockTableShape(C5, 32, 4);
  assert.deepEqual(shape.table, [
    [2, -1, -1, -1],
    [0, 1, -1, -1],
    [3, 5, 6, -1],
  ]);
  assert.deepEqual(shape.cacheLens, [30, 32, 70]);
  assert.deepEqual(shape.writes, [
    { page: 2, slot: 30 },
    { page: 1, slot: 0 },
    { page: 6, slot: 6 },
  ]);
});

test("CX2: 32 cached tokens lie in one block of 32; the second is there for the new token alone", () => {
  assert.equal(ceilDiv(32, 32), 1);
  assert.deepEqual(blockTableShape([rowOf(32, 1, [0, 1])], 32, 2).table, [[0, 1]]);
  assert.deepEqual(blockTableShape([rowOf(31, 1, [0, 1])], 32, 2).table, [[0, -1]]);
});

test("CX3: a token fits while start + 1 <= block: 31 cached and one new share a block", () => {
  const batch = new Batch(32, 4);
  batch.addRow(new Int32Array(64), 31, 1, Int32Array.of(9, 8), Infinity);
  const { kvIndptr, slots } = batch.groups[0]!;
  assert.deepEqual([kvIndptr[1], batch.contextLen(0), slots[0]], [1, 32, 9 * 32 + 31]);
});
