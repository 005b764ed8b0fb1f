import assert from "node:assert/strict";
import { test } from "node:test";
import { StopMatcher } from "./stop-matcher.js";

test("the stop that ends first is found in texts in pieces, and what may begin one is counted, as the obvious way does it", () => {
  let state = 3;
  const random = (below: number): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  const word = (length: number) => Array.from({ length }, () => "ab"[random(2)]).join("");
  for (let round = 0; round < 1500; round++) {
    const stops = Array.from({ length: 1 + random(3) }, () => word(2 + random(6)));
    const matcher = new StopMatcher(stops);
    assert.equal(matcher.isEmpty, false);
    let seen = "";
    for (let piece = 0; piece < 8; piece++) {
      const text = word(random(5));
      let expected: { stop: string; end: number } | null = null;
      for (let end = 1; end <= text.length && expected === null; end++) {
        const ending = stops.filter((stop) => (seen + text.slice(0, end)).endsWith(stop));
        const [stop] = ending.sort((a, b) => b.length - a.length);
        if (stop !== undefined) expected = { stop, end };
      }
      assert.deepEqual(matcher.find(text), expected, `${stops} in ${seen}+${text}`);
      if (expected !== null) break;
      seen += text;
      let held = 0;
      for (const stop of stops)
        for (let n = 1; n < stop.length; n++) if (seen.endsWith(stop.slice(0, n))) held = Math.max(held, n);
      assert.equal(matcher.heldLen, held, `${stops} held of ${seen}`);
    }
  }
});

test("stops that no text can have are none", () => {
  const matcher = new StopMatcher(["", "\ud83d"]);
  assert.equal(matcher.isEmpty, true);
  assert.equal(matcher.find("\ud83d\ude00"), null);
});
