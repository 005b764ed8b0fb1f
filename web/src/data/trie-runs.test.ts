import assert from "node:assert/strict";
import { test } from "node:test";
import { toRuns } from "./trie-runs.js";
import type { TrieNode } from "./wire.js";

function node(page: number, parent: number, refs: number, text?: string): TrieNode {
  return {
    id: page,
    pages: [page],
    parent,
    refs,
    tokens: [1, 2, 3, 4],
    saltHash: "",
    ...(text === undefined ? {} : { text }),
  };
}

test("a chain is one run; branches and changes of owners end it", () => {
  const runs = toRuns(
    [
      node(1, 0, 3, "a"),
      node(2, 1, 3, "b"),
      node(3, 2, 1, "c"),
      node(4, 3, 1, "d"),
      node(5, 2, 0, "e"),
      node(9, 0, 0, "z"),
    ],
    4,
  );
  assert.deepEqual(
    runs.map(({ pages, text, numPages }) => ({ pages, text, numPages })),
    [
      { pages: [1, 2], text: "ab", numPages: 5 },
      { pages: [9], text: "z", numPages: 1 },
    ],
  );
  assert.deepEqual(
    runs[0]!.children.map(({ pages, refs, start, text }) => ({ pages, refs, start, text })),
    [
      { pages: [3, 4], refs: 1, start: 8, text: "cd" },
      { pages: [5], refs: 0, start: 8, text: "e" },
    ],
  );
});

test("every page is in one run, in whatever order the nodes come, and deep chains are no trouble", () => {
  const nodes = Array.from({ length: 5000 }, (_, i) => node(i + 1, i, 0)).reverse();
  const runs = toRuns(nodes, 4);
  assert.equal(runs.length, 1);
  assert.equal(runs[0]!.pages.length, 5000);
  assert.equal(runs[0]!.text, null);
});
