import assert from "node:assert/strict";
import { test } from "node:test";
import { viewPages } from "./page-owners.js";

test("pages know their owners, their text and how many share them", () => {
  const node = { page: 1, parent: 0, tokens: [7], refs: 2, saltHash: "", text: "Once" };
  const view = viewPages({
    pageSize: 1,
    pages: [
      { state: "null", owners: 0 },
      { state: "used", owners: 2 },
      { state: "used", owners: 1 },
      { state: "cached", owners: 0 },
      { state: "free", owners: 0 },
    ],
    nodes: [node],
    requests: [
      { id: "a", pages: [1, 2] },
      { id: "b", pages: [1] },
    ],
  });
  assert.deepEqual(view.pages[1], { state: "used", owners: ["a", "b"], numOwners: 2, node });
  assert.deepEqual(view.pages[2]!.owners, ["a"]);
  assert.deepEqual(view.counts, { free: 1, cached: 1, used: 2, shared: 1 });
});
