// What a step's columns hold, row by row, and what a token sees.

import assert from "node:assert/strict";
import { test } from "node:test";
import { ALL_AHEAD, visibleEnd, visibleStart } from "./attention-plan.js";
import { Batch, MEDIUM_ID } from "./batch.js";
import { PageTable } from "./request.js";

const ids = (length: number, from = 0) => Int32Array.from({ length }, (_, i) => from + i);
const part = (column: Int32Array, end: number) => [...column.subarray(0, end)];

test("rows lie one behind the other: tokens, positions, pages and slots of every group, the logits that are wanted", () => {
  const batch = new Batch(4, 16, 2);
  assert.deepEqual(
    [batch.pageSize, batch.maxTokens, batch.numRows, batch.numTokens, batch.numLogitRows],
    [4, 16, 0, 0, 0],
  );
  assert.deepEqual(
    [batch.groups.length, new Batch(4, 16).groups.length, batch.qoIndptr.length, batch.groups[1]!.kvIndptr.length],
    [2, 1, 17, 17],
  );
  for (let round = 0; round < 2; round++) {
    batch.addRow(ids(9, 100), 6, 3, Int32Array.of(5, 3, 9, 77), 7, 2);
    batch.setTokenType(8);
    batch.addPages(1, Int32Array.of(1, 2, 4));
    batch.addRow(ids(4, 200), 0, 4, Int32Array.of(8), Number.POSITIVE_INFINITY);
    batch.addPages(1, Int32Array.of(6));
    batch.addRow(ids(5, 300), 4, 1, Int32Array.of(2, 7), 0);
    batch.addPages(1, Int32Array.of(0, 11));
    assert.deepEqual([batch.numRows, batch.numTokens, batch.numLogitRows], [3, 8, 3]);
    assert.deepEqual(part(batch.inputIds, 8), [106, 107, 108, 200, 201, 202, 203, 304]);
    assert.deepEqual(part(batch.positions, 8), [6, 7, 8, 0, 1, 2, 3, 4]);
    assert.deepEqual(part(batch.visibleEnd, 8), [7, 8, 9, 1, 2, 3, 4, 5]);
    assert.deepEqual(part(batch.tokenTypes, 8), [0, 0, 1, 0, 0, 0, 0, 0]);
    assert.deepEqual(part(batch.qoIndptr, 4), [0, 3, 7, 8]);
    assert.deepEqual(part(batch.stateSlots, 3), [2, -1, -1]);
    assert.deepEqual(part(batch.logitRows, 3), [1, 2, 7]);
    assert.deepEqual(
      [0, 1, 2].map((r) => [batch.queryLen(r), batch.contextLen(r)]),
      [
        [3, 9],
        [4, 4],
        [1, 5],
      ],
    );
    const [first, second] = batch.groups;
    assert.deepEqual(part(first!.kvIndptr, 4), [0, 3, 4, 6]);
    assert.deepEqual(part(second!.kvIndptr, 4), [0, 3, 4, 6]);
    assert.deepEqual(part(first!.kvIndices, 6), [5, 3, 9, 8, 2, 7]);
    assert.deepEqual(part(second!.kvIndices, 6), [1, 2, 4, 6, 0, 11]);
    assert.deepEqual(part(first!.slots, 8), [14, 15, 36, 32, 33, 34, 35, 28]);
    assert.deepEqual(part(second!.slots, 8), [10, 11, 16, 24, 25, 26, 27, 44]);
    batch.clear();
    assert.deepEqual([batch.numRows, batch.numTokens, batch.numLogitRows], [0, 0, 0]);
  }
});

test("a row of no tokens has no pages; a batch without groups has none at all; columns take as much as was said", () => {
  const batch = new Batch(4, 4, 0);
  batch.addRow(ids(4), 0, 4, Int32Array.of(), 3);
  assert.deepEqual([batch.numTokens, batch.contextLen(0), batch.groups.length], [4, 4, 0]);
  assert.deepEqual(part(batch.inputIds, 9), [0, 1, 2, 3]);
  const paged = new Batch(4, 4);
  paged.addRow(ids(4), 2, 0, Int32Array.of(9), 0);
  assert.deepEqual([paged.numRows, paged.numTokens, paged.queryLen(0), paged.contextLen(0)], [1, 0, 0, 0]);
  paged.addRow(ids(4), 0, 1, Int32Array.of(9), 0);
  assert.deepEqual([part(paged.groups[0]!.kvIndptr, 3), paged.groups[0]!.kvIndices[0]], [[0, 0, 1], 9]);
});

test("page tables grow as they must, short and long ones alike, and keep the rows before", () => {
  for (const numPages of [1, 7, 23, 24, 25, 60]) {
    const batch = new Batch(2, 8);
    batch.addRow(ids(2), 0, 2, Int32Array.of(500), 0);
    batch.addRow(ids(2 * numPages), 2 * numPages - 1, 1, ids(numPages + 3, 1), 0);
    batch.addRow(ids(3), 2, 1, Int32Array.of(600, 601), 0);
    const { kvIndices, kvIndptr, slots } = batch.groups[0]!;
    assert.deepEqual(part(kvIndptr, 4), [0, 1, 1 + numPages, 3 + numPages]);
    assert.deepEqual(part(kvIndices, 3 + numPages), [500, ...ids(numPages, 1), 600, 601]);
    assert.deepEqual(part(slots, 4), [1000, 1001, 2 * numPages + 1, 1202]);
    assert.ok(kvIndices.length >= Math.min(3 + numPages, 8));
  }
  const doubled = new Batch(1, 4);
  doubled.addRow(ids(4), 3, 1, ids(4), 0);
  assert.equal(doubled.groups[0]!.kvIndices.length, 4, "it had room");
  doubled.addRow(ids(1), 0, 1, ids(1), 0);
  assert.equal(doubled.groups[0]!.kvIndices.length, 8, "it grows by as much again");
});

test("tokens of the last row are shown keys ahead, or are of a second text, within the row", () => {
  const batch = new Batch(4, 16);
  batch.addRow(ids(3), 0, 3, Int32Array.of(1), 0);
  batch.addRow(ids(9), 3, 5, Int32Array.of(1, 2), 0);
  batch.setVisibleEnd(40, 5, 7);
  batch.setTokenType(6);
  const seen = () => [part(batch.visibleEnd, batch.numTokens + 1), part(batch.tokenTypes, batch.numTokens + 1)];
  assert.deepEqual(seen(), [
    [1, 2, 3, 4, 5, 40, 40, 8, 0],
    [0, 0, 0, 0, 0, 0, 1, 1, 0],
  ]);
  batch.setVisibleEnd(50, 0, 4);
  batch.setVisibleEnd(60, 7, 99);
  batch.setTokenType(0);
  assert.deepEqual(seen(), [
    [1, 2, 3, 50, 5, 40, 40, 60, 0],
    [0, 0, 0, 1, 1, 1, 1, 1, 0],
  ]);
  batch.addRow(ids(1), 0, 1, Int32Array.of(1), 0);
  batch.setVisibleEnd(70, 0, 1);
  assert.deepEqual(seen()[0], [1, 2, 3, 50, 5, 40, 40, 60, 70, 0]);
});

test("what stands for a medium in a prompt is hidden from tables", () => {
  const batch = new Batch(4, 32);
  batch.addRow(ids(9), 2, 5, Int32Array.of(1, 2, 3), 0);
  batch.addRow(Int32Array.of(7, 8, 9, 10), 0, 4, Int32Array.of(4), 0);
  batch.hideIds(1, 3);
  assert.deepEqual(Array.from(batch.inputIds.subarray(5, 9)), [7, MEDIUM_ID, MEDIUM_ID, 10]);
});

test("which keys a token sees: all, a window of them, its chunk of the sequence", () => {
  const full = { window: 0, attentionChunk: 0, mostAhead: ALL_AHEAD };
  const narrow = { window: 1, attentionChunk: 0, mostAhead: 1 };
  const window = { window: 4, attentionChunk: 0, mostAhead: 4 };
  const chunk = { window: 0, attentionChunk: 4, mostAhead: ALL_AHEAD };
  const back = { window: 4, attentionChunk: 0, mostAhead: ALL_AHEAD };
  const single = { window: 0, attentionChunk: 1, mostAhead: ALL_AHEAD };
  const seen = (rule: typeof full) =>
    [0, 2, 3, 4, 9].map((position) => `${visibleStart(rule, position)}-${visibleEnd(rule, position, 7)}`).join(" ");
  assert.equal(seen(full), "0-7 0-7 0-7 0-7 0-7");
  assert.equal(seen(narrow), "0-1 2-3 3-4 4-5 9-7");
  assert.equal(seen(window), "0-4 0-6 0-7 1-7 6-7");
  assert.equal(seen(back), "0-7 0-7 0-7 1-7 6-7");
  assert.equal(seen(chunk), "0-7 0-7 0-7 4-7 8-7");
  assert.equal(seen(single), "0-7 2-7 3-7 4-7 9-7");
});

test("a request's page table holds what is behind its first, grows by as much again, and is cleared", () => {
  const table = new PageTable();
  assert.deepEqual([table.first, table.numPages, table.numHeld], [0, 0, 0]);
  const { pages } = table;
  table.reserve(pages.length);
  assert.equal(table.pages, pages, "it has room");
  pages.set(ids(8, 3));
  table.first = 2;
  table.numPages = 7;
  assert.equal(table.numHeld, 5);
  table.reserve(9);
  assert.deepEqual([table.pages.length, part(table.pages, 9)], [16, [3, 4, 5, 6, 7, 8, 9, 10, 0]]);
  table.reserve(100);
  assert.equal(table.pages.length, 100);
  table.clear();
  assert.deepEqual([table.first, table.numPages, table.numHeld], [0, 0, 0]);
});
