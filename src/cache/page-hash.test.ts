import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { blake2s, HASH_WORDS, hashPage, hashSalt } from "./page-hash.js";

const ROOT = new Int32Array(HASH_WORDS);

function hex(words: Int32Array): string {
  return Buffer.from(words.buffer, words.byteOffset, words.byteLength).toString("hex");
}

function pageOf(parent: Int32Array, tokens: number[]): string {
  const out = new Int32Array(HASH_WORDS);
  hashPage(out, 0, parent, 0, Int32Array.from(tokens), 0, tokens.length);
  return hex(out);
}

test("the function is BLAKE2s: the same digests as the platform's own, across block borders", () => {
  for (const length of [0, 1, 3, 4, 63, 64, 65, 127, 128, 129, 1000]) {
    const bytes = Uint8Array.from({ length }, (_, i) => (i * 37) & 255);
    assert.equal(
      hex(blake2s(bytes, 32, ROOT)),
      createHash("blake2s256").update(bytes).digest("hex"),
      `${length} bytes`,
    );
  }
});

test("an identity is what any library gives for digest_size=16, salt and person from the parent", () => {
  // hashlib.blake2s(struct.pack("<4i", 1, 2, 3, 4), digest_size=16, salt=..., person=...)
  assert.equal(pageOf(ROOT, [1, 2, 3, 4]), "84bd4bbf86cbbcb463e496d5158d748f");
  const parent = new Int32Array(Uint8Array.from({ length: 16 }, (_, i) => i).buffer);
  assert.equal(pageOf(parent, [1, 2, 3, 4]), "c3c04fd3b0982b15959b38eb70a54386");
  const bytes = new Uint8Array(Int32Array.of(1, 2, 3, 4).buffer);
  assert.equal(hex(blake2s(bytes, 16, parent)), "c3c04fd3b0982b15959b38eb70a54386");
});

test("an identity is four words, and nothing is written beside them", () => {
  const out = new Int32Array(6).fill(77);
  hashPage(out, 1, ROOT, 0, Int32Array.of(9, 1, 2, 3, 4), 1, 4);
  assert.equal(hex(out.slice(1, 5)), "84bd4bbf86cbbcb463e496d5158d748f");
  assert.deepEqual([out[0], out[5]], [77, 77]);
});

test("an identity depends on every token, on their order and on what came before", () => {
  const seen = new Set<string>();
  const other = Int32Array.of(0, 0, 1, 0);
  for (const parent of [ROOT, other]) {
    for (const tokens of [[1, 2], [2, 1], [1, 2, 0], [1], [-1, 2], [1, 3]]) seen.add(pageOf(parent, tokens));
  }
  assert.equal(seen.size, 12);
});

test("the root of a salt is what any library gives for its UTF-8", () => {
  const out = new Int32Array(HASH_WORDS + 1);
  hashSalt(out, 1, "tenant ä");
  assert.equal(hex(out.subarray(1)), "5b1a7174bbfd5e9a74ab6fc2bb36da47");
});

test("salts have roots of their own, also those that differ in one character or in length only", () => {
  const roots = ["", "a", "b", "aa", "a\0", "ä", "tenant 1", "tenant 2"].map((salt) => {
    const out = new Int32Array(HASH_WORDS);
    hashSalt(out, 0, salt);
    return hex(out);
  });
  assert.equal(new Set(roots).size, roots.length);
});
