// Golden numbers of the ragged-batching text (D).

import assert from "node:assert/strict";
import { test } from "node:test";
import { AttentionPlanner } from "../../src/attention/planner.js";
import { raggedLine, raggedShape, type ShapeRow } from "../../src/cli/explain/batch-shapes.js";
import { Batch } from "../../src/core/batch.js";
import { AttentionCase } from "../support/attention-case.js";

const LENGTHS = [36, 37, 36];
const ROWS: ShapeRow[] = LENGTHS.map((queryLen, r) => ({
  tokens: Array.from({ length: queryLen }, (_, i) => 100 * r + i),
  start: 0,
  queryLen,
  pages: [1 + 3 * r, 2 + 3 * r, 3 + 3 * r],
}));

test("D1 D3: lengths [36,37,36] are 109 flat tokens, 111 padded, 2 saved; the line says so", () => {
  const shape = raggedShape(ROWS, 16);
  assert.equal(shape.tokenIds.length, 109);
  assert.equal(shape.rectangle, 111);
  assert.equal(raggedLine(shape, 3), "3 rows, 109 tokens (111 padded, 2 saved)");
  assert.deepEqual(shape.rowOf, [...Array(36).fill(0), ...Array(37).fill(1), ...Array(36).fill(2)]);
  assert.deepEqual(
    [shape.positions[35], shape.positions[36], shape.positions[72], shape.positions[73]],
    [35, 0, 36, 0],
  );
  assert.deepEqual([shape.tokenIds[36], shape.tokenIds[73]], [100, 200]);
});

test("DX1: slots are page * P + offset and disjoint between rows: 109 of them, none twice", () => {
  const { slots } = raggedShape(ROWS, 16);
  assert.equal(new Set(slots).size, 109);
  assert.deepEqual([slots[0], slots[35], slots[36]], [16, 51, 64]);
});

test("D2: continuation chunks and decodes go through the same builder; Batch holds the same numbers", () => {
  const rows: ShapeRow[] = [
    { tokens: Array.from({ length: 40 }, (_, i) => i), start: 32, queryLen: 8, pages: [4, 9, 2] },
    { tokens: Array.from({ length: 21 }, (_, i) => 50 + i), start: 20, queryLen: 1, pages: [7, 1] },
  ];
  const shape = raggedShape(rows, 16);
  const batch = new Batch(16, 64);
  for (const row of rows) {
    batch.addRow(Int32Array.from(row.tokens), row.start, row.queryLen, Int32Array.from(row.pages), Infinity);
  }
  const n = batch.numTokens;
  assert.deepEqual(Array.from(batch.inputIds.subarray(0, n)), shape.tokenIds);
  assert.deepEqual(
    Array.from(batch.visibleEnd.subarray(0, n)),
    shape.positions.map((position) => position + 1),
  );
  assert.deepEqual(Array.from(batch.positions.subarray(0, n)), shape.positions);
  assert.deepEqual(Array.from(batch.groups[0]!.slots.subarray(0, n)), shape.slots);
  assert.deepEqual(shape.slots, [32, 33, 34, 35, 36, 37, 38, 39, 20]);
});

test("D4: one run over all tokens; each row attends within itself, bit for bit as if alone", () => {
  const shape = { seed: 4, numKvHeads: 2, groupSize: 2, keyDim: 8, valueDim: 8, pageSize: 16 };
  const rows = LENGTHS.map((queryLen, sequence) => ({ sequence, start: 0, queryLen }));
  const planner = new AttentionPlanner({
    groupSize: 2,
    headDim: 8,
    window: 0,
    numWorkers: 3,
    split: "fixed",
    kvChunk: 16,
  });
  const together = new AttentionCase(shape, rows);
  const { out } = together.run(planner.plan(together.batch));
  let at = 0;
  for (const row of rows) {
    const alone = new AttentionCase(shape, [row]);
    const want = alone.run(planner.plan(alone.batch)).out;
    assert.deepEqual(out.slice(at, at + want.length), want);
    at += want.length;
  }
  assert.equal(at, out.length);
});
