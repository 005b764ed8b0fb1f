// The classes of regular expressions hold what JavaScript's own hold.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type CodePoints, complement, contains, DIGITS, LINE_ENDS, SPACES, WORD } from "./code-points.js";

const CLASSES: readonly [CodePoints, RegExp][] = [
  [DIGITS, /^\d$/u],
  [WORD, /^\w$/u],
  [SPACES, /^\s$/u],
  [complement(LINE_ENDS), /^.$/u],
  [complement(WORD), /^\W$/u],
];

test("each class has the characters that JavaScript's has, and no other", () => {
  for (const [set, class_] of CLASSES) {
    const wrong: number[] = [];
    for (let code = 0; code <= 0x10ffff; code++) {
      const isSurrogate = code >= 0xd800 && code <= 0xdfff;
      if (code === 0x3100) code = 0xd7ff; // nothing of note between
      if (code === 0x10100) code = 0x10fffe;
      if (contains(set, code) !== (!isSurrogate && class_.test(String.fromCodePoint(code)))) wrong.push(code);
    }
    assert.deepEqual(wrong, [], `${class_}`);
  }
});
