// Golden numbers of the extend-attention text (A): kernel arguments, cache reads and writes, start positions. Named by code;
// the X codes are its contradictions, each pinned to what this project decided.

import assert from "node:assert/strict";
import { test } from "node:test";
import { AttentionPlanner } from "../../src/attention/planner.js";
import { blockTableShape, paddedArguments, pageRuns, type ShapeRow } from "../../src/cli/explain/batch-shapes.js";
import { Batch } from "../../src/core/batch.js";
import { ceilDiv } from "../../src/core/math.js";
import { keyOffset, kvLayout, valueOffset } from "../../src/device/kv-layout.js";
import { AttentionCase, maxDifference } from "../support/attention-case.js";

const LLAMA_8B = { pageSize: 16, numLayers: 32, numKvHeads: 8, keyDim: 128, valueDim: 128 };

function rowOf(start: number, queryLen: number, pages: readonly number[], first = 0): ShapeRow {
  return { tokens: Array.from({ length: start + queryLen }, (_, i) => first + i), start, queryLen, pages };
}

test("A2 AX10: pages are blocks of [layer, K|V, kv head, slot, dim]; the K|V factor is in the offset", () => {
  const layout = kvLayout(LLAMA_8B);
  assert.equal(layout.page, 1_048_576);
  const flat = (page: number, layer: number, kv: number, head: number, slot: number) =>
    ((((page * 32 + layer) * 2 + kv) * 8 + head) * 16 + slot) * 128;
  assert.equal(keyOffset(layout, 3, 5, 2, 7), flat(3, 5, 0, 2, 7));
  assert.equal(valueOffset(layout, 3, 5, 2, 7), flat(3, 5, 1, 2, 7));
});

test("A8: two requests of 5 and 3 tokens become a zero padded [2, 16]", () => {
  const rows: ShapeRow[] = [
    { tokens: [1, 2, 3, 4, 5], start: 0, queryLen: 5, pages: [42, 43] },
    { tokens: [10, 11, 12], start: 0, queryLen: 3, pages: [44, 45] },
  ];
  const args = paddedArguments(rows, 16);
  assert.deepEqual(args.tokens, [
    [1, 2, 3, 4, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    [10, 11, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
  ]);
  assert.deepEqual(args.queryLens, [5, 3]);
  assert.deepEqual(args.startPositions, [0, 0]);
  assert.deepEqual(args.pageTable, [
    [42, 43],
    [44, 45],
  ]);
});

test("AX10: 5 and 3 tokens need one page each, not two", () => {
  const rows = [rowOf(0, 5, [42, 43]), rowOf(0, 3, [44, 45])];
  assert.deepEqual(blockTableShape(rows, 16, 2).table, [
    [42, -1],
    [44, -1],
  ]);
});

test("A9: a chunk gathers the positions before its start and scatters its own, page by page", () => {
  const pages = [7, 3, 9];
  assert.deepEqual(pageRuns(pages, 0, 16, 16), [{ page: 7, slot: 0, from: 0, to: 16 }]);
  assert.deepEqual(pageRuns(pages, 20, 40, 16), [
    { page: 3, slot: 4, from: 20, to: 32 },
    { page: 9, slot: 0, from: 32, to: 40 },
  ]);
  assert.deepEqual(pageRuns(pages, 0, 0, 16), []);
});

test("A10: prefill at 0 writes page 0; decodes at 16 and 17 write page 1, slots 0 and 1", () => {
  const batch = new Batch(16, 64);
  const tokens = new Int32Array(64);
  const pages = Int32Array.from([10, 11]);
  const slotsOf = (start: number, queryLen: number) => {
    batch.clear();
    batch.addRow(tokens, start, queryLen, pages, Infinity);
    return Array.from(batch.groups[0]!.slots.subarray(0, queryLen));
  };
  assert.deepEqual(
    slotsOf(0, 16),
    Array.from({ length: 16 }, (_, i) => 160 + i),
  );
  assert.deepEqual(slotsOf(16, 1), [176]);
  assert.deepEqual(slotsOf(17, 1), [177]);
});

test("A10 A12: starts differ within one batch, [0, 16, 0], and each row attends to its own history", () => {
  const shape = { seed: 1, numKvHeads: 1, groupSize: 2, keyDim: 8, valueDim: 8, pageSize: 16 };
  const problem = new AttentionCase(shape, [
    { sequence: 0, start: 0, queryLen: 9 },
    { sequence: 1, start: 16, queryLen: 5 },
    { sequence: 2, start: 0, queryLen: 2 },
  ]);
  const planner = new AttentionPlanner({
    groupSize: 2,
    headDim: 8,
    window: 0,
    numWorkers: 2,
    split: "fixed",
    kvChunk: 16,
  });
  assert.ok(maxDifference(problem.run(planner.plan(problem.batch)).out, problem.naive().out) < 1e-5);
});

test("A11: logits are wanted for the last position only, not for every padded one", () => {
  const batch = new Batch(16, 64);
  const tokens = new Int32Array(64);
  batch.addRow(tokens, 0, 5, Int32Array.of(1), 4);
  batch.addRow(tokens, 0, 3, Int32Array.of(2), Infinity); // more chunks to come
  batch.addRow(tokens, 20, 1, Int32Array.of(3, 4), 20);
  assert.deepEqual(Array.from(batch.logitRows.subarray(0, batch.numLogitRows)), [4, 8]);
});

test("A18 A20: arguments, padding and efficiency of the three invocations of 250 and 300 tokens", () => {
  const r1 = Array.from({ length: 16 }, (_, i) => 1 + i);
  const r2 = Array.from({ length: 19 }, (_, i) => 17 + i);
  const first = paddedArguments([rowOf(0, 128, r1.slice(0, 8)), rowOf(0, 128, r2.slice(0, 8))], 16);
  const second = paddedArguments([rowOf(128, 122, r1), rowOf(128, 128, r2.slice(0, 16))], 16);
  const third = paddedArguments([rowOf(256, 44, r2)], 16);
  assert.deepEqual([first.paddedLen, first.padding, first.efficiency], [128, 0, 1]);
  assert.deepEqual([second.paddedLen, second.padding], [128, 6]);
  assert.equal((100 * second.efficiency).toFixed(1), "97.7");
  assert.deepEqual([third.paddedLen, third.padding], [48, 4]);
  assert.equal((100 * third.efficiency).toFixed(1), "91.7");
  const wide = paddedArguments([rowOf(256, 44, r2)], 64); // the text's other reading
  assert.deepEqual([wide.paddedLen, wide.padding, (100 * wide.efficiency).toFixed(1)], [64, 20, "68.8"]);
  assert.deepEqual([first.startPositions, second.startPositions, third.startPositions], [[0, 0], [128, 128], [256]]);
  assert.equal(third.pageTable[0]!.length, 19);
  assert.equal(second.tokens[0]![122], 0);
});

test("A19: 122 of 128 costs 122: the plan holds no padding row and no key past a row's end", () => {
  const batch = new Batch(16, 512);
  const tokens = new Int32Array(512);
  const pages = Int32Array.from({ length: 32 }, (_, i) => i + 1);
  batch.addRow(tokens, 128, 122, pages, Infinity);
  batch.addRow(tokens, 128, 128, pages, Infinity);
  const plan = new AttentionPlanner({
    groupSize: 1,
    headDim: 128,
    window: 0,
    numWorkers: 1,
    split: "fixed",
    kvChunk: 256,
  }).plan(batch);
  assert.equal(batch.numTokens, 250);
  assert.equal(plan.numItems, 2);
  assert.deepEqual(Array.from(plan.itemKvEnd.subarray(0, 2)), [250, 256]);
});

test("A21 AX3: 50 tokens by 16 are 4 chunks (16, 16, 16, 2) on 4 pages, not 3; each reads all before it", () => {
  const pages = [42, 43, 44, 45];
  assert.equal(ceilDiv(50, 16), pages.length);
  const chunks = [0, 16, 32, 48].map((start) => ({ start, queryLen: Math.min(16, 50 - start) }));
  const args = chunks.map(({ start, queryLen }) => paddedArguments([rowOf(start, queryLen, pages)], 16));
  assert.deepEqual(
    args.map((a) => a.queryLens[0]),
    [16, 16, 16, 2],
  );
  assert.deepEqual(
    args.map((a) => a.contextLens[0]),
    [16, 32, 48, 50],
  );
  assert.deepEqual(
    chunks.map(({ start }) => pageRuns(pages, 0, start, 16).length),
    [0, 1, 2, 3],
  );
  assert.deepEqual(pageRuns(pages, 48, 50, 16), [{ page: 45, slot: 0, from: 48, to: 50 }]);
});

test("AX1: a row has two lengths, queryLen (122) and contextLen (250), and no seqLen", () => {
  const args = paddedArguments([rowOf(128, 122, [])], 16);
  assert.deepEqual([args.queryLens, args.contextLens], [[122], [250]]);
  assert.ok(!("seqLens" in args));
});

test("AX2: 250 and 300 tokens at 16 a page need 16 and 19 pages; 128 tokens fill 8, the tail of 44 takes 3", () => {
  const batch = new Batch(16, 1024);
  const pages = Int32Array.from({ length: 32 }, (_, i) => i + 1);
  batch.addRow(new Int32Array(512), 0, 250, pages, Infinity);
  batch.addRow(new Int32Array(512), 0, 300, pages, Infinity);
  assert.deepEqual(Array.from(batch.groups[0]!.kvIndptr.subarray(0, 3)), [0, 16, 35]);
  assert.equal(pageRuns(pages, 0, 128, 16).length, 8);
  assert.equal(pageRuns(pages, 256, 300, 16).length, 3);
});
