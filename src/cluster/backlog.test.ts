import assert from "node:assert/strict";
import { test } from "node:test";
import { Backlog, seenBy } from "./backlog.js";

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
  assert.deepEqual(seenBy(0, all.list()), { numWorse: 1, tokensAhead: 37 });
  assert.deepEqual(seenBy(-2, all.list()), { numWorse: 4, tokensAhead: 0 });
  assert.deepEqual(seenBy(5, all.list()), { numWorse: 0, tokensAhead: 137 });
  const others = all.without([
    [0, 1, 20],
    [-1, 3, 9],
  ]);
  assert.deepEqual(seenBy(5, others), { numWorse: 0, tokensAhead: 110 });
});
