import assert from "node:assert/strict";
import { test } from "node:test";
import { NULL_PAGE } from "../core/ids.js";
import { hashPage, PrefixTrie } from "./prefix-trie.js";

const tokens = Int32Array.of(1, 2, 3, 4, 5, 6);

test("a page is found by its parent and its tokens", () => {
  const trie = new PrefixTrie(8, 2);
  trie.insert("", NULL_PAGE, tokens, 0, 5);
  trie.insert("", 5, tokens, 2, 3);
  assert.equal(trie.find("", NULL_PAGE, tokens, 0), 5);
  assert.equal(trie.find("", 5, tokens, 2), 3);
  assert.equal(trie.find("", NULL_PAGE, tokens, 2), NULL_PAGE, "the same tokens elsewhere are another node");
  assert.equal(trie.find("", 5, tokens, 4), NULL_PAGE);
  assert.equal(trie.numNodes, 2);
  assert.equal(trie.parentOf(3), 5);
  assert.equal(trie.parentOf(5), NULL_PAGE);
  assert.deepEqual([...trie.tokensOf(3)], [3, 4]);
});

test("different salts have different roots", () => {
  const trie = new PrefixTrie(8, 2);
  trie.insert("tenant a", NULL_PAGE, tokens, 0, 1);
  assert.equal(trie.find("tenant b", NULL_PAGE, tokens, 0), NULL_PAGE);
  assert.equal(trie.find("", NULL_PAGE, tokens, 0), NULL_PAGE);
  trie.insert("tenant b", NULL_PAGE, tokens, 0, 2);
  trie.insert("tenant b", 2, tokens, 2, 3);
  assert.equal(trie.find("tenant a", NULL_PAGE, tokens, 0), 1);
  assert.equal(trie.find("tenant b", NULL_PAGE, tokens, 0), 2);
  assert.equal(trie.saltOf(3), "tenant b");
});

test("a salt without nodes leaves nothing behind", () => {
  const trie = new PrefixTrie(4, 2);
  for (let i = 0; i < 1000; i++) {
    trie.insert(`tenant ${i}`, NULL_PAGE, tokens, 0, 1);
    trie.remove(1);
  }
  assert.equal(trie.numRoots, 0);
  trie.insert("last", NULL_PAGE, tokens, 0, 1);
  assert.equal(trie.saltOf(1), "last");
});

test("only leaves can be removed, and their parents become leaves", () => {
  const trie = new PrefixTrie(8, 2);
  trie.insert("", NULL_PAGE, tokens, 0, 1);
  trie.insert("", 1, tokens, 2, 2);
  assert.throws(() => trie.remove(1), /page 1 is evicted before its children/);
  trie.remove(2);
  trie.remove(1);
  assert.equal(trie.numNodes, 0);
  assert.equal(trie.find("", NULL_PAGE, tokens, 0), NULL_PAGE);
});

test("nodes that share a bucket can be removed in any order", () => {
  // Few buckets, many nodes: chains of several nodes are certain.
  for (const order of [
    [1, 2, 3, 4, 5, 6, 7],
    [7, 6, 5, 4, 3, 2, 1],
    [4, 1, 7, 2, 6, 3, 5],
  ]) {
    const trie = new PrefixTrie(8, 1);
    const ids = Int32Array.from({ length: 8 }, (_, i) => i * 16);
    for (let page = 1; page < 8; page++) trie.insert("", NULL_PAGE, ids, page, page);
    const left = new Set([1, 2, 3, 4, 5, 6, 7]);
    for (const page of order) {
      trie.remove(page);
      left.delete(page);
      for (let other = 1; other < 8; other++) {
        assert.equal(trie.find("", NULL_PAGE, ids, other), left.has(other) ? other : NULL_PAGE);
      }
    }
  }
});

test("two pages of equal hash are told apart by their tokens", () => {
  const numPages = 4;
  const root = numPages; // the first root's id
  const [a, b] = findCollision(root);
  assert.equal(hashPage(root, a, 0, 2), hashPage(root, b, 0, 2));
  const trie = new PrefixTrie(numPages, 2);
  trie.insert("", NULL_PAGE, a, 0, 1);
  assert.equal(trie.find("", NULL_PAGE, b, 0), NULL_PAGE);
  trie.insert("", NULL_PAGE, b, 0, 2);
  assert.equal(trie.find("", NULL_PAGE, a, 0), 1);
  assert.equal(trie.find("", NULL_PAGE, b, 0), 2);
});

/** 32 bits: among 200,000 pages some collide. */
function findCollision(parentId: number): [Int32Array, Int32Array] {
  const seen = new Map<number, Int32Array>();
  for (let i = 0; i < 200_000; i++) {
    const page = Int32Array.of(i * 7919, i * 104_729 + 1);
    const hash = hashPage(parentId, page, 0, 2);
    const twin = seen.get(hash);
    if (twin !== undefined) return [twin, page];
    seen.set(hash, page);
  }
  throw new Error("no collision found");
}
