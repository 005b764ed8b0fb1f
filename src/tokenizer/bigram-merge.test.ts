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

test("long texts, whose pairs wait in deep heaps, likewise", () => {
  let state = 5;
  const random = (below: number): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  for (let round = 0; round < 60; round++) {
    const text = Array.from({ length: 40 + random(100) }, () => "abc"[random(3)]).join("");
    const ranks = new Map<string, number>();
    // Every pair has a rank, of few or of many, and one in four never joins.
    const kinds = round % 2 === 0 ? 8 : 1000;
    const priority: MergePriority = (left, right) => {
      assert.ok(left !== "" && right !== "", "only neighbours are compared");
      const pair = `${left} ${right}`;
      let rank = ranks.get(pair);
      if (rank === undefined) {
        rank = random(4) === 0 ? Infinity : random(kinds);
        ranks.set(pair, rank);
      }
      return rank;
    };
    assert.deepEqual(mergeBigrams(text, priority), mergeSlowly(text, priority), text);
  }
});
