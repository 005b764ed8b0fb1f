import assert from "node:assert/strict";
import { test } from "node:test";
import { byteClass, charAlternatives } from "./char-set.js";
import type { CodePoints } from "./code-points.js";
import { utf8Ranges } from "./utf8-ranges.js";

test("sets of code points as sequences of byte ranges, at the borders of every length", () => {
  const shown = (points: CodePoints) =>
    utf8Ranges(points).map((sequence) => sequence.map(([low, high]) => `${hex(low)}-${hex(high)}`).join(" "));
  const hex = (byte: number) => byte.toString(16);
  const table: [CodePoints, string[]][] = [
    [[], []],
    [[[0, 0x7f]], ["0-7f"]],
    [[[0x7f, 0x80]], ["7f-7f", "c2-c2 80-80"]],
    [[[0x80, 0x7ff]], ["c2-df 80-bf"]],
    [[[0x81, 0x7fe]], ["c2-c2 81-bf", "c3-de 80-bf", "df-df 80-be"]],
    [[[0xbf, 0xc0]], ["c2-c2 bf-bf", "c3-c3 80-80"]],
    [[[0x7ff, 0x800]], ["df-df bf-bf", "e0-e0 a0-a0 80-80"]],
    [[[0x800, 0xffff]], ["e0-e0 a0-bf 80-bf", "e1-ef 80-bf 80-bf"]],
    [[[0x1000, 0x1fff]], ["e1-e1 80-bf 80-bf"]],
    [[[0x1001, 0x1002]], ["e1-e1 80-80 81-82"]],
    [[[0xffff, 0x10000]], ["ef-ef bf-bf bf-bf", "f0-f0 90-90 80-80 80-80"]],
    [[[0x10000, 0x10ffff]], ["f0-f0 90-bf 80-bf 80-bf", "f1-f3 80-bf 80-bf 80-bf", "f4-f4 80-8f 80-bf 80-bf"]],
    [
      [
        [0x61, 0x61],
        [0x63, 0x64],
      ],
      ["61-61", "63-64"],
    ],
  ];
  for (const [points, sequences] of table) assert.deepEqual(shown(points), sequences, JSON.stringify(points));
});

test("every range is the set that it says, byte by byte", () => {
  const edges = [
    0, 0x41, 0x7f, 0x80, 0xbf, 0xc0, 0x7ff, 0x800, 0xfff, 0x1000, 0xd7ff, 0xe000, 0xffff, 0x10000, 0x3ffff, 0x10ffff,
  ];
  const takes = (points: CodePoints, code: number) => {
    const bytes = Buffer.from(String.fromCodePoint(code));
    return utf8Ranges(points).filter(
      (sequence) =>
        sequence.length === bytes.length && sequence.every(([low, high], i) => low <= bytes[i]! && bytes[i]! <= high),
    ).length;
  };
  for (const low of edges)
    for (const high of edges)
      for (const code of edges)
        if (low <= high) assert.equal(takes([[low, high]], code), low <= code && code <= high ? 1 : 0);
});

test("a class for the ASCII part, sequences for the rest", () => {
  assert.deepEqual(
    charAlternatives([
      [0x61, 0x7a],
      [0x30, 0x30],
      [0xe9, 0xe9],
    ]),
    ["[\\x61-\\x7a\\x30\\x30]", "[\\xc3\\xc3] [\\xa9\\xa9]"],
  );
  assert.deepEqual(charAlternatives([[0xe9, 0xe9]]), ["[\\xc3\\xc3] [\\xa9\\xa9]"]);
  assert.deepEqual(charAlternatives([[0x0a, 0x0a]]), ["[\\x0a\\x0a]"]);
  assert.deepEqual(charAlternatives([]), []);
  assert.equal(byteClass([[0, 9]]), "[\\x00-\\x09]");
});
