import assert from "node:assert/strict";
import { test } from "node:test";
import { makeRandom } from "../../test/support/random.js";
import { TokenIndex } from "./token-index.js";

const LONGEST = 12;

test("a match is the longest there is among the newest candidates, as a plain search finds it", () => {
  for (const gram of [1, 2, 3]) {
    const random = makeRandom(gram);
    const text = new Int32Array(400);
    const index = new TokenIndex(gram);
    let numFound = 0;
    for (let n = 0; n < text.length; n++) {
      text[n] = random(40) === 0 ? 7 : random(60); // seldom more than 32 of a gram
      index.extend(text, n + 1);
      index.find(text, text, n + 1, LONGEST);
      const [length, end] = searched(text, 0, n + 1, text, n + 1, gram);
      assert.deepEqual([index.matchLen, index.matchLen > 0 ? index.matchEnd : 0], [length, end], `token ${n}`);
      if (length > 0) numFound++;
    }
    assert.ok(gram === 3 || numFound > 20, `${numFound} matches`);
  }
});

test("a ring finds what it still has", () => {
  const random = makeRandom(5);
  const capacity = 64;
  const all = new Int32Array(2000);
  const ring = new Int32Array(capacity);
  const index = new TokenIndex(2, capacity);
  let numFound = 0;
  for (let n = 0; n < all.length; n++) {
    all[n] = random(8);
    ring[n % capacity] = all[n]!;
    index.extend(ring, n + 1);
    const context = Int32Array.from({ length: 6 }, () => random(8));
    index.find(ring, context, context.length, LONGEST);
    const [length, end] = searched(all, Math.max(0, n + 1 - capacity), n + 1, context, context.length, 2);
    assert.deepEqual([index.matchLen, index.matchLen > 0 ? index.matchEnd : 0], [length, end], `token ${n}`);
    if (length > 0) numFound++;
  }
  assert.ok(numFound > 500);
});

test("nothing is found before a gram is there", () => {
  const index = new TokenIndex(3);
  const text = Int32Array.of(1, 1);
  index.extend(text, 2);
  index.find(text, text, 2, LONGEST);
  assert.equal(index.matchLen, 0);
});

/** Length and end of the longest match among text[first .. count), the newest of equals; [0, 0]: none. */
function searched(
  text: Int32Array,
  first: number,
  count: number,
  tokens: Int32Array,
  end: number,
  gram: number,
): [number, number] {
  let best = 0;
  let bestEnd = 0;
  for (let at = count - 2; at >= first; at--) {
    let length = 0;
    while (length < LONGEST && length < end && at - length >= first && text[at - length] === tokens[end - 1 - length])
      length++;
    if (length >= gram && length > best) {
      best = length;
      bestEnd = at + 1;
    }
  }
  return [best, bestEnd];
}
