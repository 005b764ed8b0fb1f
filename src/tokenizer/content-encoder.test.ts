import assert from "node:assert/strict";
import { test } from "node:test";
import { sentencePieceJson } from "../../test/fixtures/vocabularies.js";
import { JsonTokenizer } from "./json-tokenizer.js";

const FIRST = 300;
/** Added tokens of every manner, in a vocabulary that knows bytes and "hello". */
const ADDED = [
  { content: "[L]", lstrip: true },
  { content: "[R]", rstrip: true },
  { content: "[B]", lstrip: true, rstrip: true },
  { content: "[n]", normalized: true, lstrip: true },
  { content: "[m]", normalized: true, rstrip: true },
  { content: "[!]", special: true },
];
const json = sentencePieceJson();
const tokenizer = new JsonTokenizer({
  file: "tokenizer.json",
  json: {
    ...json,
    normalizer: { type: "Replace", pattern: { String: " " }, content: "▁" },
    added_tokens: [
      ...(json.added_tokens as unknown[]),
      ...ADDED.map((token, i) => ({
        ...{ id: FIRST + i, special: false, normalized: false, lstrip: false, rstrip: false, single_word: false },
        ...token,
      })),
    ],
  },
});
const [L, R, B, n, m, control] = ADDED.map((_, i) => FIRST + i);
const id = (token: string) => tokenizer.tokenToId(token)!;
const [space, h, e, o] = ["▁", "h", "e", "o"].map(id);
const bytes = (text: string) => [...Buffer.from(text)].map((byte) => byte + 3);
/** The text as a request's own from its first character on. */
const encode = (text: string, content: [number, number][] = [[0, text.length]]) => tokenizer.encode(text, { content });

test("added tokens take the spaces that they are said to take, on their side alone", () => {
  const table: [string, (number | undefined)[]][] = [
    ["h [L] e", [h, L, space, e]],
    ["h [R] e", [h, space, R, e]],
    ["h [B] e", [h, B, e]],
    ["h  [B]  [B]", [h, B, B]],
    [" [B] ", [B]],
    ["h[L]e[R]o", [h, L, e, R, o]],
    // Looked for in normalised text, where a space is a letter like any other.
    ["h [n]e", [h, space, n, e]],
    ["h[m] e", [h, m, space, e]],
    ["h\n[n]e", [h, n, e]],
    ["h[m]\ne", [h, m, e]],
    ["h\n[m]\n[n]\ne", [h, ...bytes("\n"), m, n, ...bytes("\n"), e]],
    ["", []],
    ["hello", [id("hello")]],
    ["<unk>", bytes("<unk>")],
    ["z", bytes("z")],
  ];
  for (const [text, ids] of table) assert.deepEqual(encode(text), ids, JSON.stringify(text));
});

test("a control token is one where the template wrote it", () => {
  assert.deepEqual(encode("h[!]e"), [h, ...bytes("[!]"), e]);
  assert.deepEqual(
    encode("h[!]e", [
      [0, 1],
      [4, 5],
    ]),
    [h, control, e],
  );
  assert.deepEqual(encode("[!][!]", [[3, 6]]), [control, ...bytes("[!]")]);
});

test("where no content is in doubt, the ids are the library's own", () => {
  const parts = ["h", " ", "\n", "[L]", "[R]", "[B]", "hello", "é"];
  for (const a of parts)
    for (const b of parts)
      for (const c of parts) {
        const text = a + b + c;
        assert.deepEqual(encode(text), tokenizer.encode(text, { addSpecialTokens: false }), JSON.stringify(text));
      }
});
