import assert from "node:assert/strict";
import { test } from "node:test";
import { milliseconds, oneLine, percent, plural, rate, shortId } from "./format.js";

test("numbers are short and keep their order of magnitude", () => {
  assert.deepEqual([0, 0.4, 9.96, 12.4, 1234.5].map(rate), ["0", "0.4", "10.0", "12", "1,235"]);
  assert.deepEqual([0, 0.04, 9.9, 120.4, 1500, 62_000].map(milliseconds), [
    "0 ms",
    "0.0 ms",
    "9.9 ms",
    "120 ms",
    "1.5 s",
    "62 s",
  ]);
  assert.deepEqual([0, 0.004, 0.5, 1].map(percent), ["0 %", "0.4 %", "50 %", "100 %"]);
  assert.deepEqual(
    [1, 2000].map((n) => plural(n, "page")),
    ["1 page", "2,000 pages"],
  );
});

test("ids lose their prefix, keep their sample", () => {
  assert.equal(shortId("chatcmpl-0f3a9cddee"), "0f3a");
  assert.equal(shortId("cmpl-0f3a9cddee-12#2"), "0f3a·12#2");
  assert.equal(shortId("mine"), "mine");
  assert.equal(shortId("a-name-of-my-own"), "a-name-of-m…");
  assert.equal(oneLine("a\n\n b   c", 20), "a ⏎ b c");
  assert.equal(oneLine("abcdef", 4), "abc…");
});
