import assert from "node:assert/strict";
import { test } from "node:test";
import { Lanes } from "./lanes.js";
import { stepOf } from "./step-fixture.js";

function assignAll(steps: readonly (readonly string[])[]): number[][] {
  const lanes = new Lanes();
  return steps.map((ids, i) => lanes.assign(stepOf(i, ids)));
}

test("a request keeps its lane, and a lane is not shared at one step", () => {
  assert.deepEqual(
    assignAll([
      ["a", "b"],
      ["b", "c"],
      ["c", "b", "a"],
    ]),
    [
      [0, 1],
      [1, 2],
      [2, 1, 0],
    ],
  );
});

const aloneFor = (steps: number) => [["a", "b"], ...Array.from({ length: steps }, () => ["b"])];

test("the lane of a request that is gone is used again, of one that is briefly away is not", () => {
  assert.deepEqual(assignAll([...aloneFor(30), ["b", "late"]]).at(-1), [1, 0]);
  assert.deepEqual(assignAll([...aloneFor(5), ["b", "late"]]).at(-1), [1, 2]);
});

test("a request that returns after its lane was given away gets another", () => {
  assert.deepEqual(assignAll([...aloneFor(20), ["b", "late"], ["b", "late", "a"]]).at(-1), [1, 0, 2]);
});
