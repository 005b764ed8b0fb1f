import assert from "node:assert/strict";
import { test } from "node:test";
import { seeded } from "../../test/support/byte-matcher.js";
import { parseRegex } from "./regex-parser.js";
import { searchRegex } from "./regex-search.js";

test("what is found in a text is what ECMAScript finds", () => {
  const random = seeded(11);
  const pick = (of: readonly string[]): string => of[Math.floor(random() * of.length)]!;
  const expression = (depth: number): string => {
    if (depth === 0) return pick(["a", "b", "c", ".", "[ab]", "[^a]", "", "^a?", "b?$", "\\w", "é", "😀"]);
    const parts = Array.from({ length: 1 + Math.floor(random() * 3) }, () => expression(depth - 1));
    const whole = `(?:${parts.join(pick(["", "", "|"]))})`;
    return whole + pick(["", "", "*", "+", "?", "{2}", "{0}", "{1,2}", "{2,}", "{9}", "+?"]);
  };
  const counts = { found: 0, missed: 0 };
  for (let i = 0; i < 2000; i++) {
    const source = expression(i % 4);
    const text = Array.from({ length: Math.floor(random() * 7) }, () => pick(["a", "b", "c", "é", "😀", "\n"])).join(
      "",
    );
    const isThere = new RegExp(source, "u").test(text);
    const isFound = searchRegex(parseRegex(source), text, { work: 1_000_000 });
    assert.equal(isFound, isThere, `${source} in ${JSON.stringify(text)}`);
    counts[isThere ? "found" : "missed"]++;
  }
  assert.ok(counts.found > 300 && counts.missed > 300, JSON.stringify(counts));
});

test("a search ends when its budget does, and draws from it", () => {
  const node = parseRegex("(a*)*b");
  const budget = { work: 10_000 };
  assert.equal(searchRegex(node, "aab", budget), true);
  assert.ok(budget.work > 9900 && budget.work < 10_000, `${budget.work}`);
  assert.equal(searchRegex(node, "a".repeat(1000), budget), null);
  assert.equal(searchRegex(node, "aab", budget), null);
});
