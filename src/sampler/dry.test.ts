import assert from "node:assert/strict";
import { test } from "node:test";
import { Dry, type DryRule, endsInLoop } from "./dry.js";

const RULE: DryRule = {
  multiplier: 1,
  base: 2,
  allowedLength: 2,
  lastTokens: -1,
  isBreaker: (token) => token === 9,
};

/** What the tokens lose, by token. */
function lost(tokens: readonly number[], rule: Partial<DryRule> = {}, dry = new Dry({ ...RULE, ...rule })) {
  const logits = new Float32Array(12);
  dry.edit(logits, Int32Array.from(tokens));
  return Object.fromEntries([...logits].flatMap((value, id) => (value === 0 ? [] : [[id, -value]])));
}

/** The rule as it is said, without a trick. */
function plainly(tokens: readonly number[], { multiplier, base, allowedLength, lastTokens, isBreaker }: DryRule) {
  const seen = lastTokens < 0 ? tokens : tokens.slice(-lastTokens);
  const longest: Record<number, number> = {};
  for (let end = 1; end < seen.length; end++) {
    let length = 0;
    while (length < end && seen[end - 1 - length] === seen[seen.length - 1 - length]) {
      if (isBreaker(seen[end - 1 - length]!)) break;
      length++;
    }
    const next = seen[end]!;
    if (length >= Math.max(1, allowedLength) && !isBreaker(next)) longest[next] = Math.max(longest[next] ?? 0, length);
  }
  return Object.fromEntries(
    Object.entries(longest).map(([id, length]) => [id, multiplier * base ** (length - allowedLength)]),
  );
}

test("what would go on with a repetition loses more the longer it is", () => {
  assert.deepEqual(lost([1, 2, 3, 1, 2]), { 3: 1 });
  assert.deepEqual(lost([1, 2, 3, 4, 1, 2, 3]), { 4: 2 });
  assert.deepEqual(lost([5, 1, 2, 3, 5, 1, 2, 4, 5, 1, 2]), { 3: 2, 4: 2 });
  assert.deepEqual(lost([1, 2, 3, 8, 1, 2, 4, 8, 1, 2]), { 3: 1, 4: 2 }, "the longest counts");
  assert.deepEqual(lost([1, 1, 1, 1]), { 1: 2 });
  assert.deepEqual(lost([1, 2, 3, 4, 2]), {}, "one token is free");
  assert.deepEqual(lost([1, 2, 3, 4, 2], { allowedLength: 1 }), { 3: 1 });
  assert.deepEqual([lost([]), lost([1])], [{}, {}]);
});

test("a repetition has no breaker in it, and none goes on with one", () => {
  assert.deepEqual(lost([1, 9, 2, 3, 1, 9, 2]), {}, "only 2 is repeated behind the breaker");
  assert.deepEqual(lost([9, 1, 2, 3, 9, 1, 2]), { 3: 1 });
  assert.deepEqual(lost([1, 2, 9, 1, 2]), {});
  assert.deepEqual(lost([1, 2, 3, 1, 2, 9]), {});
});

test("only the last tokens are looked at, and no logit becomes infinite", () => {
  assert.deepEqual(lost([1, 2, 3, 1, 2], { lastTokens: 4 }), {});
  assert.deepEqual(lost([1, 2, 3, 1, 2], { lastTokens: 5 }), { 3: 1 });
  const [loss] = Object.values(
    lost(
      Array.from({ length: 500 }, () => 1),
      { base: 100 },
    ),
  );
  assert.ok(loss! > 1e29 && Number.isFinite(loss));
});

test("the same as the rule said plainly, whatever the tokens, with one editor for a growing text", () => {
  let state = 7;
  const random = (below: number) => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    return (state >>> 16) % below;
  };
  for (let round = 0; round < 60; round++) {
    const rule = { ...RULE, allowedLength: random(4), lastTokens: random(3) === 0 ? random(20) + 1 : -1 };
    const dry = new Dry(rule);
    const kinds = 2 + random(9);
    const tokens: number[] = [];
    for (let i = 0; i < 40; i++) {
      tokens.push(random(kinds));
      assert.deepEqual(lost(tokens, rule, dry), plainly(tokens, rule), JSON.stringify([rule, tokens]));
    }
  }
});

test("a long repetition is looked at in one go", () => {
  const tokens = new Int32Array(200_000).fill(1);
  const dry = new Dry(RULE);
  const startMs = performance.now();
  dry.edit(new Float32Array(4), tokens);
  assert.ok(performance.now() - startMs < 2000);
});

test("an answer that ends with one pattern over and over is a loop", () => {
  const loops = (tokens: readonly number[], count: number, min = 1, max = 8) =>
    endsInLoop(Int32Array.from(tokens), count, min, max);
  assert.deepEqual(
    [loops([1, 1, 1], 3), loops([1, 1], 3), loops([2, 1, 1], 3), loops([], 2)],
    [true, false, false, false],
  );
  assert.deepEqual([loops([9, 1, 2, 1, 2, 1, 2], 3), loops([9, 1, 2, 1, 2], 3)], [true, false]);
  assert.deepEqual([loops([1, 1, 1], 3, 2), loops([1, 1, 1, 1, 1, 1], 3, 2)], [false, true]);
  assert.deepEqual([loops([1, 2, 3, 1, 2, 3], 2, 1, 2), loops([1, 2, 3, 1, 2, 3], 2, 1, 3)], [false, true]);
  assert.equal(loops([1, 2, 1, 2, 1], 2), true, "2 1 2 1");
});
