import assert from "node:assert/strict";
import { test } from "node:test";
import { ALL_AHEAD, AttentionPlan } from "./attention-plan.js";

const ITEM_ARRAYS = ["itemRow", "itemQStart", "itemQLen", "itemKvStart", "itemKvEnd", "itemPartial"] as const;
const MERGE_ARRAYS = ["mergeRow", "mergeQStart", "mergePartial", "mergeCount"] as const;
const lengths = (plan: AttentionPlan, names: readonly (keyof AttentionPlan)[]) =>
  names.map((name) => (plan[name] as Int32Array).length);

test("a plan before the first batch is one of nothing for one worker", () => {
  const {
    group,
    window,
    attentionChunk,
    mostAhead,
    groupSize,
    numWorkers,
    qTile,
    kvChunk,
    numItems,
    numPartials,
    numMerges,
  } = new AttentionPlan(3, { window: 8, attentionChunk: 4, mostAhead: 6 }, 2);
  assert.deepEqual(
    {
      group,
      window,
      attentionChunk,
      mostAhead,
      groupSize,
      numWorkers,
      qTile,
      kvChunk,
      numItems,
      numPartials,
      numMerges,
    },
    {
      group: 3,
      window: 8,
      attentionChunk: 4,
      mostAhead: 6,
      groupSize: 2,
      numWorkers: 1,
      qTile: 16,
      kvChunk: 1,
      numItems: 0,
      numPartials: 0,
      numMerges: 0,
    },
  );
});

test("arrays double together and keep what they hold", () => {
  const plan = new AttentionPlan(0, { window: 0, attentionChunk: 0, mostAhead: ALL_AHEAD }, 1);
  for (let i = 0; i < 64; i++) plan.addItem(i, i + 1, i + 2, i + 3, i + 4, i + 5);
  for (let i = 0; i < 16; i++) plan.addMerge(i, i + 1, i + 2, i + 3);
  assert.deepEqual(lengths(plan, ITEM_ARRAYS), Array(6).fill(64));
  assert.deepEqual(lengths(plan, MERGE_ARRAYS), Array(4).fill(16));
  plan.addItem(64, 65, 66, 67, 68, 69);
  plan.addMerge(16, 17, 18, 19);
  assert.deepEqual(lengths(plan, ITEM_ARRAYS), Array(6).fill(128));
  assert.deepEqual(lengths(plan, MERGE_ARRAYS), Array(4).fill(32));
  for (const [i, name] of ITEM_ARRAYS.entries())
    assert.deepEqual(
      [...plan[name].slice(0, 65)],
      Array.from({ length: 65 }, (_, at) => at + i),
      name,
    );
  for (const [i, name] of MERGE_ARRAYS.entries())
    assert.deepEqual(
      [...plan[name].slice(0, 17)],
      Array.from({ length: 17 }, (_, at) => at + i),
      name,
    );
  assert.deepEqual([plan.numItems, plan.numMerges], [65, 17]);
  plan.clear();
  assert.deepEqual([plan.numItems, plan.numMerges, plan.numPartials], [0, 0, 0]);
});
