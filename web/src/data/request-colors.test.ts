import assert from "node:assert/strict";
import { test } from "node:test";
import { RequestColors } from "./request-colors.js";

test("a request keeps its colour; requests that run together do not share one", () => {
  const colors = new RequestColors();
  const ids = Array.from({ length: 24 }, (_, i) => `r${i}`);
  const first = ids.map((id) => colors.colorOf(id, false));
  assert.equal(new Set(first).size, ids.length);
  assert.deepEqual(
    [...ids].reverse().map((id) => colors.colorOf(id, false)),
    first.reverse(),
  );
  assert.notEqual(colors.colorOf("r0", true), colors.colorOf("r0", false));
});
