import assert from "node:assert/strict";
import { test } from "node:test";
import { Balancer, sortByCost } from "./balance.js";

function loads(costs: number[], numWorkers: number): number[][] {
  const indptr = new Int32Array(numWorkers + 1);
  const items = new Int32Array(costs.length);
  new Balancer(numWorkers).assign(indptr, items, Float64Array.from(costs), costs.length);
  return Array.from({ length: numWorkers }, (_, w) => Array.from(items.subarray(indptr[w], indptr[w + 1])));
}

test("sorts costliest first, equals in plan order", () => {
  const order = new Int32Array(6);
  sortByCost(order, Float64Array.of(3, 9, 3, 1, 9, 3), 6);
  assert.deepEqual(Array.from(order), [1, 4, 0, 2, 5, 3]);
});

test("the costliest item goes first, each to the least loaded worker; a worker keeps plan order", () => {
  // 7 -> w0, 6 -> w1, 5 -> w1 (11), 4 -> w0 (11), 1 -> w0
  assert.deepEqual(loads([4, 7, 1, 6, 5], 2), [
    [0, 1, 2],
    [3, 4],
  ]);
});

test("fewer items than workers, none at all, and one worker", () => {
  assert.deepEqual(loads([5, 5], 4), [[0], [1], [], []]);
  assert.deepEqual(loads([], 2), [[], []]);
  assert.deepEqual(loads([2, 9, 4], 1), [[0, 1, 2]]);
});
