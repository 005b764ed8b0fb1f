import assert from "node:assert/strict";
import { test } from "node:test";
import { isQuick, patternsOf, provocationsOf } from "./slow-patterns.js";

test("expressions are found with their place, twenty levels deep", () => {
  const split = (Regex: unknown) => ({ type: "Split", pattern: { Regex } });
  assert.deepEqual(patternsOf({ type: "Sequence", pretokenizers: [split("a"), split(3), split("b")] }, "pre"), [
    ["pre.pretokenizers.0.pattern", "a"],
    ["pre.pretokenizers.2.pattern", "b"],
  ]);
  for (const nothing of [null, undefined, "Regex", 3, {}, { Regex: null }, { pattern: { String: "a" } }])
    assert.deepEqual(patternsOf(nothing, "pre"), []);
  const nested = (depth: number): unknown => (depth === 0 ? { Regex: "a" } : { x: nested(depth - 1) });
  assert.deepEqual(patternsOf(nested(20), ""), [[".x".repeat(20), "a"]]);
  assert.deepEqual(patternsOf(nested(21), ""), []);
});

test("texts are runs of what an expression may read, up to a hundred, each with an end that it cannot", () => {
  const runs = (source: string) =>
    provocationsOf(source).map((text) => {
      assert.equal(text, `${text[0]!.repeat(48)}\0`);
      return text[0];
    });
  assert.deepEqual(runs(""), ["a", "A", "1", " ", "\n", ".", "'", "é"]);
  assert.deepEqual(runs("(a|b)+ \t\n中"), ["a", "A", "1", " ", "\n", ".", "'", "é", "(", "|", "b", ")", "+", "中"]);
  assert.equal(runs(String.fromCodePoint(...Array.from({ length: 200 }, (_, i) => 0x4e00 + i))).length, 100);
});

test("work that was held up is tried again, five times in all; work that had its time is not", () => {
  const tried = (...spentMs: (number | null)[]) => {
    let tries = 0;
    const isDone = isQuick(() => spentMs[tries++] ?? null);
    return [isDone, tries];
  };
  assert.deepEqual(tried(null), [true, 1]);
  assert.deepEqual(tried(500, 3, null), [true, 3]);
  assert.deepEqual(tried(1, 501, null), [false, 2]);
  assert.deepEqual(tried(1, 1, 1, 1, null), [true, 5]);
  assert.deepEqual(tried(1, 1, 1, 1, 1, null), [false, 5]);
});
