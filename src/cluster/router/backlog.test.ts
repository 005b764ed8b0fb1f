import assert from "node:assert/strict";
import { test } from "node:test";
import { Backlog } from "./backlog.js";

test("a call waits for those that are not worse, and for what others have there beside its own router", () => {
  const all = new Backlog();
  for (const [priority, tokens] of [
    [0, 10],
    [0, 20],
    [5, 100],
    [-1, 7],
    [9, 1],
  ] as const)
    all.add(priority, tokens);
  all.remove(9, 1);
  assert.deepEqual(all.list(), [
    [0, 2, 30],
    [5, 1, 100],
    [-1, 1, 7],
  ]);
  assert.deepEqual(all.seenBy(0), { numWorse: 1, tokensAhead: 37 });
  assert.deepEqual(all.seenBy(-2), { numWorse: 4, tokensAhead: 0 });
  assert.deepEqual(all.seenBy(5), { numWorse: 0, tokensAhead: 137 });
  const others = all.without([
    [0, 1, 20],
    [-1, 3, 9],
  ]);
  assert.deepEqual(others.seenBy(5), { numWorse: 0, tokensAhead: 110 });
});

test("what is left without a part that was counted at another time is never less than nothing", () => {
  const all = Backlog.of([
    [0, 2, 30],
    [5, 1, 100],
    [-1, 1, 7],
  ]);
  const less = [
    [0, 1, 20],
    [-1, 3, 9],
    [5, 0, 200],
  ] as const;
  assert.deepEqual(all.without(less).list(), [
    [0, 1, 10],
    [5, 1, 0],
  ]);
});
