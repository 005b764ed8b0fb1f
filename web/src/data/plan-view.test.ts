import assert from "node:assert/strict";
import { test } from "node:test";
import { viewPlan } from "./plan-view.js";
import type { StepPlan } from "./wire.js";

const row = (queryLen: number, contextLen: number) => {
  return { id: "a", start: contextLen - queryLen, queryLen, contextLen, isPrefill: queryLen > 1 };
};

test("split tiles keep their parts together, the last tile is short", () => {
  const item = (r: number, qStart: number, kvStart: number, kvEnd: number, isPartial: boolean) => {
    return { row: r, qStart, kvStart, kvEnd, isPartial };
  };
  const plan: StepPlan = {
    window: 0,
    groupSize: 3,
    qTile: 16,
    kvChunk: 256,
    items: [item(0, 0, 0, 256, true), item(0, 0, 256, 300, true), item(1, 0, 0, 7, false), item(1, 16, 0, 7, false)],
    merges: [{ row: 0, qStart: 0, count: 2 }],
  };
  const view = viewPlan(plan, [row(1, 300), row(7, 7)]);
  assert.deepEqual(
    view.tiles.map(({ row: r, qLen, items }) => [r, qLen, items.length]),
    [
      [0, 3, 2],
      [1, 16, 1],
      [1, 5, 1],
    ],
  );
  assert.equal(view.numPartials, 2);
  assert.equal(view.numMerges, 1);
});

test("an empty plan has no tiles", () => {
  const plan = { window: 0, groupSize: 1, qTile: 16, kvChunk: 256, items: [], merges: [] };
  assert.deepEqual(viewPlan(plan, []), { tiles: [], numPartials: 0, numMerges: 0 });
});
