import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import fc from "fast-check";
import { sentencePieceJson } from "../../test/fixtures/vocabularies.js";
import { JsonTokenizer } from "./json-tokenizer.js";
import { StreamDetokenizer, type StreamOptions } from "./stream-detokenizer.js";
import type { Tokenizer } from "./tokenizer.js";

const bundled = JSON.parse(readFileSync("models/pagoda-stories-16m/tokenizer.json", "utf8"));
const byteLevel = new JsonTokenizer({ file: "bundled", json: bundled });
const byteFallback = new JsonTokenizer({ file: "llama", json: sentencePieceJson() });

function stream(tokenizer: Tokenizer, ids: readonly number[], options?: StreamOptions) {
  const detokenizer = new StreamDetokenizer(tokenizer, options);
  const pieces = ids.map((id) => detokenizer.push(id));
  pieces.push(detokenizer.flush());
  return { pieces, text: pieces.join(""), stopReason: detokenizer.stopReason };
}

/** What must come out, found the obvious way: the text up to the stop string that ends first, the longer one of a tie. */
function expected(text: string, stops: readonly string[]): { text: string; stopReason: string | null } {
  for (let end = 1; end <= text.length; end++) {
    const ending = stops.filter((stop) => text.slice(0, end).endsWith(stop)).sort((a, b) => b.length - a.length)[0];
    if (ending !== undefined) return { text: text.slice(0, end - ending.length), stopReason: ending };
  }
  return { text, stopReason: null };
}

test("a character of several tokens comes out whole, with its last byte", () => {
  const ids = byteLevel.encode("a🐉b");
  const { pieces, text } = stream(byteLevel, ids);
  assert.equal(text, "a🐉b");
  for (const piece of pieces) assert.doesNotMatch(piece, /\uFFFD/);
  const dragon = byteFallback.encode("🐉", { addSpecialTokens: false }).slice(-4);
  assert.deepEqual(stream(byteFallback, dragon).pieces, ["", "", "", "🐉", ""]);
});

test("bytes that can never become a character are U+FFFD, half a character only at the end", () => {
  const id = (byte: number) => byteFallback.tokenToId(`<0x${byte.toString(16).toUpperCase()}>`)!;
  const detokenizer = new StreamDetokenizer(byteFallback);
  assert.equal(detokenizer.push(id(0xff)), "\uFFFD");
  assert.equal(detokenizer.push(id(0xf8)), "\uFFFD");
  assert.equal(detokenizer.push(id(0xe6)), "");
  assert.equal(detokenizer.push(id(0xbc)), "");
  assert.equal(detokenizer.flush(), "\uFFFD");
});

test("special tokens are left out unless asked for; a leading space is kept in a continuation", () => {
  const ids = byteFallback.encode("hello");
  assert.equal(stream(byteFallback, ids).text, " hello");
  assert.equal(stream(byteFallback, ids, { isContinuation: false }).text, "hello");
  assert.equal(stream(byteFallback, ids, { skipSpecialTokens: false }).text, "<s> hello");
});

test("text that may become a stop string is held back, then given or cut", () => {
  const detokenizer = new StreamDetokenizer(byteLevel, { stop: ["###"] });
  const [hash] = byteLevel.encode("#");
  const [a] = byteLevel.encode("a");
  assert.equal(detokenizer.push(a!), "a");
  assert.equal(detokenizer.push(hash!), "");
  assert.equal(detokenizer.push(hash!), "");
  assert.equal(detokenizer.push(a!), "##a");
  assert.equal(detokenizer.push(hash!), "");
  assert.equal(detokenizer.push(hash!), "");
  assert.equal(detokenizer.stopReason, null);
  assert.equal(detokenizer.push(hash!), "");
  assert.equal(detokenizer.stopReason, "###");
  assert.equal(detokenizer.push(a!), "");
  assert.equal(detokenizer.flush(), "");
});

test("held text is given at the end; stops count only after minTokens; useless stops are ignored", () => {
  const ids = byteLevel.encode("one. two. three.");
  assert.equal(stream(byteLevel, byteLevel.encode("one#"), { stop: ["#!"] }).text, "one#");
  assert.equal(stream(byteLevel, ids, { stop: ["."] }).text, "one");
  const later = stream(byteLevel, ids, { stop: ["."], minTokens: byteLevel.encode("one.").length });
  assert.deepEqual([later.text, later.stopReason], ["one. two", "."]);
  assert.equal(stream(byteLevel, ids, { stop: ["", "\uD83D"] }).text, "one. two. three.");
});

test("property: streamed pieces joined are the decoded text, for any ids", () => {
  for (const tokenizer of [byteLevel, byteFallback]) {
    const ids = fc.array(fc.nat({ max: tokenizer.vocabSize + 3 }), { maxLength: 40 });
    fc.assert(
      fc.property(ids, fc.boolean(), fc.boolean(), (sequence, skipSpecialTokens, isContinuation) => {
        const options = { skipSpecialTokens, isContinuation };
        assert.equal(stream(tokenizer, sequence, options).text, tokenizer.decode(sequence, options));
      }),
      { seed: 2, numRuns: 1000 },
    );
  }
});

test("property: any text, with stop strings, is cut where it should be and no piece ends inside a character", () => {
  // Few characters, so that stops occur, overlap and nearly occur: two emoji share half their code units, two CJK most bytes.
  const unit = fc.constantFrom("a", "b", "#", " ", "\n", "é", "漢", "漣", "😀", "😁", "👩‍👧");
  const text = fc.string({ unit, maxLength: 40 });
  const stops = fc.array(fc.string({ unit, minLength: 1, maxLength: 4 }), { maxLength: 4 });
  for (const tokenizer of [byteLevel, byteFallback]) {
    fc.assert(
      fc.property(text, stops, (whole, stop) => {
        const ids = tokenizer.encode(whole, { addSpecialTokens: false });
        const { pieces, text: streamed, stopReason } = stream(tokenizer, ids, { stop, isContinuation: false });
        assert.deepEqual({ text: streamed, stopReason }, expected(whole, stop));
        for (const piece of pieces) assert.doesNotMatch(piece, /\p{Surrogate}|\uFFFD/u);
      }),
      { seed: 3, numRuns: 1500 },
    );
  }
});

test("byte by byte, each character comes with its last byte; bytes of any kind give the text they are at the end", () => {
  const id = (byte: number) => byteFallback.tokenToId(`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`)!;
  const text = "aé\u07ff\u0800中\uffff\u{10000}🐉\u{10ffff}\u007f\u0080";
  const detokenizer = new StreamDetokenizer(byteFallback);
  for (const char of text) {
    const pieces = [...Buffer.from(char)].map((byte) => detokenizer.push(id(byte)));
    assert.deepEqual(pieces, [...pieces.slice(1).map(() => ""), char]);
  }
  let state = 11;
  const random = (below: number): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  const heads = [0x41, 0x80, 0xbf, 0xc0, 0xc3, 0xdf, 0xe0, 0xe4, 0xef, 0xf0, 0xf4, 0xf7, 0xf8, 0xff];
  for (let round = 0; round < 400; round++) {
    const bytes = Array.from({ length: 1 + random(8) }, () => heads[random(heads.length)]!);
    assert.equal(stream(byteFallback, bytes.map(id)).text, Buffer.from(bytes).toString("utf8"), `${bytes}`);
  }
});
