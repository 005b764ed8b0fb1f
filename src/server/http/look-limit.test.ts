import assert from "node:assert/strict";
import { test } from "node:test";
import { LookLimit } from "./look-limit.js";

test("each client has its own looks; they come back with time", () => {
  let nowMs = 0;
  const limit = new LookLimit(() => nowMs);
  const numTaken = (client: string): number => {
    for (let count = 0; ; count++) {
      try {
        limit.take(client, "/api/cache");
      } catch (error) {
        assert.equal((error as { code: string }).code, "too_many_looks");
        return count;
      }
    }
  };
  assert.deepEqual([numTaken("a"), numTaken("a"), numTaken("b")], [20, 0, 20]);
  nowMs = 500;
  assert.deepEqual([numTaken("a"), numTaken("b")], [5, 5]);
  nowMs = 60_000;
  assert.equal(numTaken("a"), 20);
  for (let i = 0; i < 10_000; i++) limit.take(`c${i}`, "");
  assert.equal(numTaken("b"), 20, "forgotten");
});
