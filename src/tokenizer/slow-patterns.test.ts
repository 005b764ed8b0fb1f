import assert from "node:assert/strict";
import { test } from "node:test";
import { isQuick, patternsOf, provocationsOf, refuseSlowPatterns } from "./slow-patterns.js";

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

test("loops of two and three characters are provoked; what public tokenizers have is let be", () => {
  const load = (Regex: string) => () =>
    refuseSlowPatterns({ pre_tokenizer: { type: "Split", pattern: { Regex } } }, "f");
  for (const slow of ["(?:(?:ab)+)+c", "(?:xy|xyx?y?)+z", "(?:(?:abc)*)*d", "(a+)+b"])
    assert.throws(load(slow), { code: "file_corrupt" }, slow);
  for (const quick of [
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    "(?=(\\d{3})+(?!\\d))",
  ])
    load(quick)();
});

test("texts are runs of what an expression may read, up to a hundred, each with an end that it cannot", () => {
  const runs = (source: string) =>
    provocationsOf(source)
      .filter((text) => text === `${text[0]!.repeat(48)}\0`)
      .map((text) => text[0]);
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
