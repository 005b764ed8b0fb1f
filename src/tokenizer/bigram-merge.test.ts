import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type MergePriority, mergeBigrams } from "./bigram-merge.js";

/** The obvious way: look at all pairs, join the best, again and again. */
function mergeSlowly(text: string, priority: MergePriority): string[] {
  const symbols = [...text];
  for (;;) {
    let best = Infinity;
    let at = -1;
    for (let i = 0; i + 1 < symbols.length; i++) {
      const order = priority(symbols[i]!, symbols[i + 1]!);
      if (order < best) {
        best = order;
        at = i;
      }
    }
    if (at < 0) return symbols;
    symbols.splice(at, 2, symbols[at]! + symbols[at + 1]!);
  }
}

test("joins the best pair first, the leftmost of equals", () => {
  const ranks: Record<string, number> = { "b c": 0, "a b": 1, "a bc": 2, "x x": 3, "xx xx": 4 };
  const priority: MergePriority = (left, right) => ranks[`${left} ${right}`] ?? Infinity;
  assert.deepEqual(mergeBigrams("abc", priority), ["abc"]);
  assert.deepEqual(mergeBigrams("ab", priority), ["ab"]);
  assert.deepEqual(mergeBigrams("xxxxx", priority), ["xxxx", "x"]);
  assert.deepEqual(mergeBigrams("", priority), []);
  assert.deepEqual(mergeBigrams("🐉", priority), ["🐉"]);
});

test("property: equal to the obvious way for any ranks and text", () => {
  const unit = fc.constantFrom("a", "b", "c", "🐉");
  const token = fc.string({ unit, minLength: 1, maxLength: 3 });
  const ranks = fc.dictionary(
    fc.tuple(token, token).map((pair) => pair.join(" ")),
    fc.nat({ max: 9 }),
  );
  fc.assert(
    fc.property(fc.string({ unit, maxLength: 20 }), ranks, (text, table) => {
      const priority: MergePriority = (left, right) => table[`${left} ${right}`] ?? Infinity;
      assert.deepEqual(mergeBigrams(text, priority), mergeSlowly(text, priority));
    }),
    { seed: 4, numRuns: 2000 },
  );
});
