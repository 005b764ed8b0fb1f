import assert from "node:assert/strict";
import { test } from "node:test";
import { Charsmap } from "./charsmap.js";

/** A double array of the entries, put together node by node, and the texts behind it. */
function compile(entries: Readonly<Record<string, string>>): Uint8Array {
  const utf8 = new TextEncoder();
  const texts: number[] = [];
  const values = new Map<string, number>();
  for (const [key, text] of Object.entries(entries)) {
    values.set(utf8.encode(key).join(), texts.length);
    texts.push(...utf8.encode(text), 0);
  }
  const units: number[] = [];
  const isTaken = new Set([0]);
  let isFar = false;
  const place = (position: number, label: number, prefix: readonly number[]): void => {
    const keys = Object.keys(entries).map((key) => [...utf8.encode(key)]);
    const below = keys.filter((key) => key.length > prefix.length && prefix.every((byte, i) => key[i] === byte));
    const labels = [...new Set(below.map((key) => key[prefix.length]!))];
    const value = values.get(prefix.join());
    const places = value === undefined ? labels : [0, ...labels];
    isFar = !isFar; // every other one by an offset of whole 256s, which is written otherwise
    const offsets = Array.from({ length: 5000 }, (_, i) => (isFar ? (i + 1) * 256 : i + 1));
    const offset = offsets.find((o) => places.every((byte) => !isTaken.has(position ^ o ^ byte)))!;
    const base = position ^ offset;
    for (const byte of places) isTaken.add(base ^ byte);
    const written = offset % 256 === 0 ? ((offset / 256) << 10) | 0x200 : offset << 10;
    units[position] = (written | (value === undefined ? 0 : 0x100) | label) >>> 0;
    if (value !== undefined) units[base] = (value | 0x80000000) >>> 0;
    for (const byte of labels) place(base ^ byte, byte, [...prefix, byte]);
  };
  place(0, 0, []);
  const bytes = new Uint8Array(4 + 4 * units.length + texts.length);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, 4 * units.length, true);
  for (let i = 0; i < units.length; i++) view.setUint32(4 + 4 * i, units[i] ?? 0, true);
  bytes.set(texts, 4 + 4 * units.length);
  return bytes;
}

const ENTRIES = {
  ...{ a: "1", ab: "22", abc: "", ａ: "a", "\u00e9": "e", "e\u0301": "é", "😀": ":)" },
  ...{ ﷺ: "long text", "\t": " ", 한: "h" },
};
const TEXTS = [
  "",
  "a",
  "ab",
  "abc",
  "abca",
  "abd",
  "xyz",
  "ａbａ",
  "éé",
  "😀a😁b",
  "ﷺ\t.",
  "한국",
  "abab\u200dab",
  "é́",
  "👨‍👩‍👧a",
  "e\u0301\u0301\u0301\u0301",
];

test("SentencePiece's way: the longest entry at each place, characters without one as they are", () => {
  const map = new Charsmap(compile(ENTRIES), "f");
  for (const text of TEXTS) {
    let expected = "";
    for (let at = 0; at < text.length; ) {
      const keys = Object.keys(ENTRIES).filter((key) => text.startsWith(key, at));
      const key = keys.sort((a, b) => b.length - a.length)[0];
      const char = String.fromCodePoint(text.codePointAt(at)!);
      expected += key === undefined ? char : ENTRIES[key as keyof typeof ENTRIES];
      at += (key ?? char).length;
    }
    assert.equal(map.normalize(text), expected, JSON.stringify(text));
  }
});

test("Hugging Face's way: clusters under six bytes by their shortest entry, others character by character", () => {
  const map = new Charsmap(compile(ENTRIES), "f");
  const replaced = (text: string): string | null => {
    const keys = Object.keys(ENTRIES).filter((key) => text.startsWith(key));
    const key = keys.sort((a, b) => a.length - b.length)[0];
    return key === undefined ? null : ENTRIES[key as keyof typeof ENTRIES];
  };
  for (const text of TEXTS) {
    let expected = "";
    for (const { segment } of new Intl.Segmenter(undefined, { granularity: "grapheme" }).segment(text)) {
      const whole = Buffer.byteLength(segment) < 6 ? replaced(segment) : null;
      expected += whole ?? [...segment].map((char) => replaced(char) ?? char).join("");
    }
    assert.equal(map.normalizeClusters(text), expected, JSON.stringify(text));
  }
});

test("the last text may lack its end; a map without whole units, or longer than its bytes, is refused", () => {
  const bytes = compile({ a: "b" });
  assert.equal(new Charsmap(bytes.subarray(0, -1), "f").normalize("aa"), "bb");
  assert.equal(new Charsmap(compile({ a: "", b: "c" }), "f").normalize("xaab"), "xc", "a first text may be empty");
  const shifted = new Uint8Array(bytes.length + 3);
  shifted.set(bytes, 3);
  assert.equal(new Charsmap(shifted.subarray(3), "f").normalize("ca"), "cb");
  assert.equal(new Charsmap(Uint8Array.of(4, 0, 0, 0, 0, 0, 0, 0), "f").normalize("ab"), "ab");
  const refused: [bytes: number[], size: number][] = [
    [[], -1],
    [[4, 0, 0], -1],
    [[8, 0, 0, 0], 8],
    [[0, 0, 0, 0, 1], 0],
    [[6, 0, 0, 0, 1, 2, 3, 4, 5, 6], 6],
    [[8, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7], 8],
  ];
  for (const [bytes, size] of refused)
    assert.throws(
      () => new Charsmap(Uint8Array.from(bytes), "f"),
      new RegExp(
        `f: precompiled_charsmap: expected a trie and its texts, found ${bytes.length} bytes, ${size} of them`,
      ),
    );
});
