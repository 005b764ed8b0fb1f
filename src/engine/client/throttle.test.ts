import assert from "node:assert/strict";
import { test } from "node:test";
import { Throttle } from "./throttle.js";

const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

test("pieces go on until a turn has had enough; the others wait for the next one, in their order", async () => {
  const turns = new Throttle(10);
  const begun: number[] = [];
  for (const [i, size] of [6, 3, 1, 20, 1].entries()) void turns.acquire(size).then(() => begun.push(i));
  await Promise.resolve();
  await Promise.resolve();
  assert.deepEqual(begun, [0, 1, 2], "ten are enough");
  await nextTurn();
  assert.deepEqual(begun, [0, 1, 2, 3]);
  await nextTurn();
  assert.deepEqual(begun, [0, 1, 2, 3, 4]);
});
