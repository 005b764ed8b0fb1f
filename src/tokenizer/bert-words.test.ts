import assert from "node:assert/strict";
import { test } from "node:test";
import { bertWords } from "./bert-words.js";
import { toByteLevel, tryByteLevelBytes } from "./byte-level.js";

const words = (text: string, lowersCase = true, stripsAccents = lowersCase) =>
  bertWords(text, { lowersCase, stripsAccents });

test("spaces part, punctuation and Chinese stand alone, control characters go, case and accents where asked", () => {
  assert.deepEqual(words("  Hé\u00adl\u0000lo,\u3000wörld!\tA~`$ "), ["hello", ",", "world", "!", "a", "~", "`", "$"]);
  assert.deepEqual(words("Hé x\ufffdy", false), ["Hé", "xy"]);
  assert.deepEqual(words("Hé", true, false), ["hé"]);
  assert.deepEqual(words("Hé", false, true), ["He"]);
  assert.deepEqual(words("a/b:c@d[e{f"), ["a", "/", "b", ":", "c", "@", "d", "[", "e", "{", "f"]);
  assert.deepEqual(words(""), []);
});

test("Chinese is what Unicode's blocks of it hold, to their ends", () => {
  const blocks = [
    [0x4e00, 0x9fff],
    [0x3400, 0x4dbf],
    [0x20000, 0x2a6df],
    [0x2a700, 0x2b73f],
    [0x2b740, 0x2b81f],
    [0x2b920, 0x2ceaf],
    [0x2f800, 0x2fa1f],
    [0xf900, 0xfaff],
  ] as const;
  const isChinese = (code: number) => blocks.some(([from, to]) => from <= code && code <= to);
  for (const [from, to] of blocks)
    for (const code of [from - 1, from, to, to + 1]) {
      const char = String.fromCodePoint(code);
      const expected = isChinese(code) ? ["a", char, "b"] : [`a${char}b`];
      assert.deepEqual(words(`a${char}b`, false), expected, code.toString(16));
    }
});

test("every byte has a character of its own, and comes back", () => {
  const bytes = Uint8Array.from({ length: 256 }, (_, i) => i);
  const text = toByteLevel(bytes);
  assert.equal(new Set(text).size, 256);
  assert.deepEqual(tryByteLevelBytes(text), bytes);
  assert.equal(toByteLevel(Buffer.from("~ \n\x7f\xa0\xa1\xad\xff\x00!", "latin1")), "~ĠĊġł¡ŃÿĀ!");
  assert.equal(tryByteLevelBytes("a b"), null);
  assert.equal(tryByteLevelBytes("ńa"), null);
});
