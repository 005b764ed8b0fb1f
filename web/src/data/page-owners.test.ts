import assert from "node:assert/strict";
import { test } from "node:test";
import { viewPages } from "./page-owners.js";

test("pages know their owners, their text and how many share them", () => {
  const node = { id: 1, pages: [1, 0], parent: 0, tokens: [7], refs: 2, saltHash: "", text: "Once" };
  const view = viewPages({
    pageSize: 1,
    groups: [
      {
        kind: "full",
        window: 0,
        pages: [
          { state: "null", owners: 0 },
          { state: "used", owners: 2 },
          { state: "used", owners: 1 },
          { state: "cached", owners: 0 },
          { state: "free", owners: 0 },
        ],
      },
      {
        kind: "window",
        window: 64,
        pages: [
          { state: "null", owners: 0 },
          { state: "used", owners: 1 },
        ],
      },
    ],
    nodes: [node],
    requests: [
      { id: "a", tables: [[1, 2], [1]] },
      { id: "b", tables: [[1], []] },
    ],
  });
  assert.deepEqual(view.pages[1], { group: 0, page: 1, state: "used", owners: ["a", "b"], numOwners: 2, node });
  assert.deepEqual(view.pages[2]!.owners, ["a"]);
  assert.deepEqual(view.counts, { free: 1, cached: 1, used: 3, shared: 1 });
  assert.deepEqual(view.groups[1], { name: "window of 64", start: 5, numPages: 2 });
  assert.deepEqual(view.pages[6], { group: 1, page: 1, state: "used", owners: ["a"], numOwners: 1, node: null });
});
