import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";
import { Batch } from "./batch.js";

function batchOf(rows: readonly (readonly [numTokens: number, adapter: number, logitsFrom: number])[]): Batch {
  const batch = new Batch(4, 64);
  const tokens = new Int32Array(16);
  for (const [numTokens, adapter, logitsFrom] of rows) {
    batch.addRow(tokens, 0, numTokens, new Int32Array(4), logitsFrom);
    batch.adapterSlots[batch.numRows - 1] = adapter;
  }
  batch.adapters.group(batch);
  return batch;
}

const listOf = (values: Int32Array, indptr: Int32Array, g: number): number[] =>
  Array.from(values.subarray(indptr[g], indptr[g + 1]));

test("rows are grouped by adapter: tokens and logit rows of each, those without one in none", () => {
  const { adapters } = batchOf([
    [2, 5, 1],
    [1, -1, 0],
    [3, 2, 3],
    [2, 5, 0],
    [1, 2, 0],
  ]);
  equal(adapters.count, 2);
  deepEqual(Array.from(adapters.slots.subarray(0, 2)), [5, 2]);
  deepEqual(listOf(adapters.tokens, adapters.tokenIndptr, 0), [0, 1, 6, 7]);
  deepEqual(listOf(adapters.tokens, adapters.tokenIndptr, 1), [3, 4, 5, 8]);
  // Logit rows: 0 of row 0, 1 of row 1, none of row 2, 2 and 3 of row 3, 4 of row 4.
  deepEqual(listOf(adapters.logits, adapters.logitIndptr, 0), [0, 2, 3]);
  deepEqual(listOf(adapters.logits, adapters.logitIndptr, 1), [4]);
});

test("a row has no adapter until it is given one, whatever the step before had", () => {
  const batch = batchOf([[1, 3, 0]]);
  equal(batch.adapters.count, 1);
  batch.clear();
  batch.addRow(new Int32Array(4), 0, 1, new Int32Array(4), 0);
  batch.adapters.group(batch);
  equal(batch.adapters.count, 0);
});
