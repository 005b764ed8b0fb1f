import assert from "node:assert/strict";
import { test } from "node:test";
import { NO_ENTRY, PageDirectory } from "./page-directory.js";
import { HASH_WORDS, hashPage, hashSalt } from "./page-hash.js";

const tokens = Int32Array.of(1, 2, 3, 4, 5, 6);

/** The salt's root, then the identities of the pages of these tokens. */
function hashesOf(sequence: Int32Array, pageSize: number, salt = ""): Int32Array {
  const numPages = Math.floor(sequence.length / pageSize);
  const hashes = new Int32Array((numPages + 1) * HASH_WORDS);
  hashSalt(hashes, 0, salt);
  for (let i = 0; i < numPages; i++) {
    hashPage(hashes, (i + 1) * HASH_WORDS, hashes, i * HASH_WORDS, sequence, i * pageSize, pageSize);
  }
  return hashes;
}

test("a page is found by its identity, wherever its group keeps it", () => {
  const directory = new PageDirectory(8, 2, 2);
  const hashes = hashesOf(tokens, 2);
  const first = directory.insert(hashes, 0, tokens);
  const second = directory.insert(hashes, 1, tokens);
  directory.setPage(second, 1, 7);
  assert.equal(directory.find(hashes, 0, tokens), first);
  assert.equal(directory.find(hashes, 1, tokens), second);
  assert.equal(directory.find(hashes, 2, tokens), NO_ENTRY);
  assert.deepEqual([directory.pageOf(second, 0), directory.pageOf(second, 1)], [0, 7]);
  assert.deepEqual([directory.isEmpty(first), directory.isEmpty(second)], [true, false]);
  assert.deepEqual([directory.parentOf(second), directory.parentOf(first)], [first, NO_ENTRY]);
  assert.deepEqual([...directory.tokensOf(second)], [3, 4]);
});

test("an identity is known as long as its entry is there", () => {
  const directory = new PageDirectory(8, 2, 1);
  const hashes = hashesOf(tokens, 2);
  const at = (page: number) => hashes.slice((page + 1) * HASH_WORDS, (page + 2) * HASH_WORDS);
  const entries = [0, 1, 2].map((page) => {
    assert.equal(directory.has(at(page)), false);
    return directory.insert(hashes, page, tokens);
  });
  assert.deepEqual([directory.has(at(0)), directory.has(at(1)), directory.has(at(2))], [true, true, true]);
  directory.remove(entries[1]!);
  assert.deepEqual([directory.has(at(0)), directory.has(at(1)), directory.has(at(2))], [true, false, true]);
});

test("the same page after another beginning, or of another salt, is another entry", () => {
  const directory = new PageDirectory(8, 2, 1);
  const other = Int32Array.of(9, 9, 3, 4);
  directory.insert(hashesOf(tokens, 2), 1, tokens);
  assert.equal(directory.find(hashesOf(other, 2), 1, other), NO_ENTRY);
  assert.equal(directory.find(hashesOf(tokens, 2, "tenant"), 1, tokens), NO_ENTRY);
});

test("on equal identities the tokens and the parent decide", () => {
  const directory = new PageDirectory(8, 2, 1);
  const hashes = hashesOf(tokens, 2);
  directory.insert(hashes, 1, tokens);
  for (const place of [2, 3]) {
    const forged = tokens.slice();
    forged[place] = 77;
    assert.equal(directory.find(hashes, 1, forged), NO_ENTRY, "other tokens");
  }
  const strangers = hashes.slice();
  strangers[HASH_WORDS]! ^= 1; // the parent's identity
  assert.equal(directory.find(strangers, 1, tokens), NO_ENTRY, "another parent");
});

test("an entry stands without its parent", () => {
  const directory = new PageDirectory(8, 2, 1);
  const hashes = hashesOf(tokens, 2);
  const first = directory.insert(hashes, 0, tokens);
  const second = directory.insert(hashes, 1, tokens);
  directory.remove(first);
  assert.equal(directory.find(hashes, 1, tokens), second);
  assert.equal(directory.parentOf(second), NO_ENTRY);
});

test("entries that share a bucket can be removed in any order, and their places are used again", () => {
  const numEntries = 7;
  const sequences = Array.from({ length: numEntries }, (_, i) => Int32Array.of(i));
  for (const order of [
    [0, 1, 2, 3, 4, 5, 6],
    [6, 5, 4, 3, 2, 1, 0],
    [3, 0, 6, 1, 5, 2, 4],
  ]) {
    const directory = new PageDirectory(numEntries, 1, 1);
    for (let round = 0; round < 3; round++) {
      const entries = sequences.map((sequence) => directory.insert(hashesOf(sequence, 1), 0, sequence));
      assert.throws(() => directory.insert(hashesOf(tokens, 1), 0, tokens), /7 entries are all in use/);
      const left = new Set(entries);
      for (const place of order) {
        directory.remove(entries[place]!);
        left.delete(entries[place]!);
        for (const [i, sequence] of sequences.entries()) {
          const found = directory.find(hashesOf(sequence, 1), 0, sequence);
          assert.equal(found, left.has(entries[i]!) ? entries[i] : NO_ENTRY);
        }
      }
      assert.equal(directory.numEntries, 0);
    }
  }
});
