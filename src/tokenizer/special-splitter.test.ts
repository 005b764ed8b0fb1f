import assert from "node:assert/strict";
import { test } from "node:test";
import { type Fragment, SpecialSplitter } from "./special-splitter.js";

/** At each place the longest token that content does not touch, or may write. */
function plainly(
  tokens: readonly (readonly [string, number])[],
  text: string,
  content: readonly (readonly [number, number])[],
): Fragment[] {
  const out: Fragment[] = [];
  let plain = "";
  const flush = () => {
    if (plain !== "") out.push(plain);
    plain = "";
  };
  for (let at = 0; at < text.length; ) {
    const here = tokens.filter(([token, id]) => {
      const end = at + token.length;
      const touches = content.some(([from, to]) => from < end && at < to);
      return token !== "" && text.startsWith(token, at) && (!touches || id % 2 === 1);
    });
    const best = here.sort(([a], [b]) => b.length - a.length)[0];
    if (best === undefined) {
      plain += text[at++];
      continue;
    }
    flush();
    out.push(best[1]);
    at += best[0].length;
    if (best[1] === 4) while (at < text.length && " \t\n\v\f\r".includes(text[at]!)) at++;
  }
  flush();
  return out;
}

test("tokens in texts with content, as the obvious way finds them; even ids are control tokens, the fourth takes spaces", () => {
  let state = 9;
  const random = (below: number): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  const word = (length: number) => Array.from({ length }, () => "ab <\n"[random(5)]).join("");
  for (let round = 0; round < 3000; round++) {
    const words = new Set(["", ...Array.from({ length: 5 }, () => word(1 + random(4)))]);
    const tokens = [...words].map((text, id) => [text, id] as const);
    const text = word(random(14));
    const cuts = Array.from({ length: 4 }, () => random(text.length + 1)).sort((a, b) => a - b);
    const spans = [[cuts[0]!, cuts[1]!] as const, [cuts[2]!, cuts[3]!] as const].filter(([from, to]) => from < to);
    const splitter = new SpecialSplitter(
      tokens,
      (id) => id === 4,
      (id) => id % 2 === 0,
    );
    assert.deepEqual(
      splitter.split(text, spans),
      plainly(tokens, text, spans),
      JSON.stringify({ tokens, text, spans }),
    );
    assert.deepEqual(splitter.split(text), plainly(tokens, text, []));
  }
  assert.deepEqual(new SpecialSplitter([["<s>", 0]]).split("a<s> b"), ["a", 0, " b"]);
  assert.deepEqual(new SpecialSplitter([["<s>", 0]]).split("a<s>", [[1, 2]]), ["a<s>"]);
});
