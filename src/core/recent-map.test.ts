import assert from "node:assert/strict";
import { test } from "node:test";
import { RecentMap } from "./recent-map.js";

test("past its capacity the key goes that was set longest ago", () => {
  const map = new RecentMap<string, number>(3);
  const kept = () => ["a", "b", "c", "d", "e"].filter((key) => map.has(key)).join("");
  for (const [i, key] of ["a", "b", "c"].entries()) map.set(key, i);
  assert.equal(kept(), "abc");
  map.set("d", 3);
  assert.equal(kept(), "bcd");
  map.set("b", 10);
  assert.deepEqual([kept(), map.get("b")], ["bcd", 10]);
  map.set("e", 4);
  assert.deepEqual([kept(), map.get("c"), map.get("b"), map.get("e")], ["bde", undefined, 10, 4]);
});
