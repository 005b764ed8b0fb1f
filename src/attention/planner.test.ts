// The planner beside a plain rewriting of it, whole plans at a time. What every plan must satisfy is in test/attention.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type AttentionPlan, aheadOf, visibleEnd, visibleStart } from "../core/attention-plan.js";
import { Batch } from "../core/batch.js";
import { searchKvChunk } from "./kv-chunk.js";
import { AttentionPlanner, chooseQTile, type PlannerOptions } from "./planner.js";

type Row = readonly [start: number, queryLen: number];

const NO_TOKENS = new Int32Array(1 << 12);
const NO_PAGES = new Int32Array(1 << 12);

function batchOf(pageSize: number, rows: readonly Row[]): Batch {
  const batch = new Batch(
    pageSize,
    rows.reduce((sum, [, queryLen]) => sum + queryLen, 0),
  );
  for (const [start, queryLen] of rows) batch.addRow(NO_TOKENS, start, queryLen, NO_PAGES, Infinity);
  return batch;
}

/** A plan as plain arrays: no more of them than it counts. */
function shown(plan: AttentionPlan) {
  const { group, window, attentionChunk, groupSize, numWorkers, qTile, kvChunk, numPartials } = plan;
  const items = Array.from({ length: plan.numItems }, (_, i) => [
    ...[plan.itemRow[i], plan.itemQStart[i], plan.itemQLen[i]],
    ...[plan.itemKvStart[i], plan.itemKvEnd[i], plan.itemPartial[i]],
  ]);
  const merges = Array.from({ length: plan.numMerges }, (_, i) => [
    ...[plan.mergeRow[i], plan.mergeQStart[i], plan.mergePartial[i], plan.mergeCount[i]],
  ]);
  return { group, window, attentionChunk, groupSize, numWorkers, qTile, kvChunk, numPartials, items, merges };
}

/** What AttentionPlanner's comments say, in as few words. */
function plainly(options: PlannerOptions, pageSize: number, rows: readonly Row[], padItems: number) {
  const { groupSize, headDim, window, numWorkers: all, split, slack } = options;
  const { pairCost = 1 / 16, maxPartialRows = 16384, tallWorkers = all, attentionChunk = 0, group = 0 } = options;
  const wholeKeys = split === "fixed" ? (options.wholeKeys ?? 0) : 0;
  const numTokens = rows.reduce((sum, [, queryLen]) => sum + queryLen, 0);
  const squares = rows.reduce((sum, [, queryLen]) => sum + queryLen * queryLen, 0);
  const longest = (numTokens - rows.length + 1) * groupSize;
  const typical = padItems > 0 ? longest : Math.floor((squares / numTokens) * groupSize);
  const qTile = options.qTile ?? chooseQTile(numTokens === 0 ? 0 : typical, headDim);
  const numWorkers = qTile > 16 ? tallWorkers : all;
  const rule = { window, attentionChunk, mostAhead: aheadOf(window) };
  const tiles = rows.flatMap(([start, queryLen], row) => {
    const packed = queryLen * groupSize;
    return Array.from({ length: Math.ceil(packed / qTile) }, (_, i) => {
      const q = i * qTile;
      const qEnd = Math.min(packed, q + qTile);
      const last = start + Math.floor((qEnd - 1) / groupSize);
      const end = visibleEnd(rule, last, last + 1);
      const from = Math.min(end, visibleStart(rule, start + Math.floor(q / groupSize)));
      return {
        row,
        q,
        qLen: qEnd - q,
        from,
        end,
        cost: 2 * (qEnd - q) + end - from + pairCost * (qEnd - q) * (end - from),
      };
    });
  });
  const most = Math.floor(maxPartialRows / qTile);
  let kvChunk = options.kvChunk;
  let threshold = 0;
  if (split === "balanced") {
    const budget = Math.min(most, numWorkers, padItems > 0 ? padItems : Infinity);
    const least = Math.max(1, Math.floor(options.kvChunk / pageSize));
    const first = Int32Array.from(tiles, ({ from }) => Math.floor(from / pageSize));
    const past = Int32Array.from(tiles, ({ end }) => Math.ceil(end / pageSize));
    kvChunk = pageSize * searchKvChunk(first, past, tiles.length, budget, least);
  } else {
    const share = tiles.reduce((sum, { cost }) => sum + cost, 0) / numWorkers;
    const spare = slack?.[qTile > 16 ? "tall" : "decode"];
    const worst = Math.max(0, ...tiles.map(({ cost }) => cost)) * Math.ceil(tiles.length / numWorkers);
    threshold = spare !== undefined && worst <= (1 + spare) * share ? Infinity : share / 2;
  }
  const items: number[][] = [];
  const merges: number[][] = [];
  let numPartials = 0;
  let itemRoom = padItems > 0 ? padItems - tiles.length : Infinity;
  for (const { row, q, qLen, from, end, cost } of tiles) {
    const start = from - (from % kvChunk);
    const numChunks = Math.ceil((end - start) / kvChunk);
    const isSplit = numWorkers > 1 && numChunks > 1 && cost > threshold && end - from > wholeKeys;
    if (!isSplit || numPartials + numChunks > most || numChunks - 1 > itemRoom) {
      items.push([row, q, qLen, start, end, -1]);
      continue;
    }
    itemRoom -= numChunks - 1;
    merges.push([row, q, numPartials, numChunks]);
    for (let at = start; at < end; at += kvChunk)
      items.push([row, q, qLen, at, Math.min(end, at + kvChunk), numPartials++]);
  }
  while (items.length < padItems) items.push([0, 0, 0, 0, 0, -1]);
  while (merges.length < Math.floor(padItems / 2)) merges.push([0, 0, 0, 0]);
  return { group, window, attentionChunk, groupSize, numWorkers, qTile, kvChunk, numPartials, items, merges };
}

test("whole plans of random batches under random options, by a plain rewriting; arrays that are used again carry nothing over", () => {
  let state = 7;
  const random = (below: number): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  const oneOf = <T>(...values: readonly T[]): T => values[random(values.length)]!;
  for (let round = 0; round < 1500; round++) {
    const pageSize = oneOf(1, 4, 16);
    const given = {
      qTile: oneOf(undefined, undefined, undefined, 1, 3, 16, 17, 24),
      attentionChunk: oneOf(undefined, undefined, 0, 16, 50),
      pairCost: oneOf(undefined, 0, 0.5),
      maxPartialRows: oneOf(undefined, 40, 64, 100),
      tallWorkers: oneOf(undefined, 2, 5),
      slack: oneOf(undefined, undefined, { decode: 0.2, tall: 0.5 }, { decode: 1, tall: 0 }),
      group: oneOf(undefined, 3),
      wholeKeys: oneOf(undefined, 30),
    };
    const options: PlannerOptions = {
      groupSize: oneOf(1, 2, 3),
      headDim: oneOf(1, 64, 128, 255, 256, 511, 512),
      window: given.attentionChunk ? 0 : oneOf(0, 0, 1, 9, 40),
      numWorkers: oneOf(1, 2, 3, 8, 40),
      split: oneOf("fixed", "balanced"),
      kvChunk: oneOf(1, 8, 16, 24, 33),
      ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)),
    };
    const planner = new AttentionPlanner(options);
    for (let again = 0; again < 2; again++) {
      const numRows = oneOf(0, 1, 2, 3, 6, round % 50 === 0 ? 200 : 4);
      const rows = Array.from(
        { length: numRows },
        (): Row => [random(oneOf(3, 60, 300)), oneOf(1, 1, 2, 1 + random(70))],
      );
      const padItems = oneOf(0, 0, 1, 2, 5, 9, 40);
      const got = shown(planner.plan(batchOf(pageSize, rows), padItems));
      assert.deepEqual(got, plainly(options, pageSize, rows, padItems), JSON.stringify({ options, rows, padItems }));
    }
  }
});

test("tiles by length and head: 16, 32, 64 or 128 rows", () => {
  const tiles = (headDim: number) => [16, 17, 64, 65].map((length) => chooseQTile(length, headDim));
  assert.deepEqual([255, 256, 511, 512].map(tiles), [
    [16, 64, 64, 128],
    [16, 64, 64, 64],
    [16, 64, 64, 64],
    [16, 32, 32, 32],
  ]);
});

test("a pair of query and key costs a sixteenth of what a key does, unless told otherwise", () => {
  const planner = new AttentionPlanner({
    ...{ groupSize: 1, headDim: 64, window: 0, numWorkers: 2, split: "fixed", kvChunk: 64, qTile: 16 },
  });
  // 16 queries of 1,000 keys cost 32 + 1000 + 1000; a decode is split when three of it cost more.
  const isDecodeSplit = (numKeys: number) => {
    const rows: Row[] = [
      [984, 16],
      [numKeys - 1, 1],
    ];
    return shown(planner.plan(batchOf(16, rows))).merges.some(([row]) => row === 1);
  };
  assert.deepEqual([635, 637].map(isDecodeSplit), [false, true]);
});

test("each option has its least value", () => {
  const least = { groupSize: 1, headDim: 1, window: 0, numWorkers: 1, split: "fixed", kvChunk: 1 } as const;
  new AttentionPlanner({ ...least, attentionChunk: 0, qTile: 1 });
  for (const [name, value] of Object.entries({ ...least, attentionChunk: 0, qTile: 1 })) {
    if (typeof value !== "number") continue;
    const expected = new RegExp(`Option ${name} is ${value - 1}; .* at least ${value}`);
    assert.throws(() => new AttentionPlanner({ ...least, [name]: value - 1 }), expected);
  }
});
