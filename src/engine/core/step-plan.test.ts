import assert from "node:assert/strict";
import { test } from "node:test";
import { AttentionPlanner } from "../../attention/planner.js";
import { planOfRows } from "./step-plan.js";

const plannerOf = (window: number) =>
  new AttentionPlanner({ groupSize: 2, headDim: 64, window, numWorkers: 4, split: "fixed", kvChunk: 16 });
const rowOf = (start: number, queryLen: number) => ({
  ...{ id: `at ${start}`, start, queryLen, contextLen: start + queryLen, isPrefill: start === 0 },
});

test("a step's plans are made again from its rows, one for each window", () => {
  const [all, windowed] = planOfRows([rowOf(0, 3), rowOf(40, 1)], [plannerOf(0), plannerOf(20)], 16, false);
  const short = { row: 0, qStart: 0, kvStart: 0, kvEnd: 3, isPartial: false };
  const part = (kvStart: number, kvEnd: number) => ({ row: 1, qStart: 0, kvStart, kvEnd, isPartial: true });
  assert.deepEqual(all!.items, [short, part(0, 16), part(16, 32), part(32, 41)]);
  assert.deepEqual(all!.merges, [{ row: 1, qStart: 0, count: 3 }]);
  assert.deepEqual([all!.window, all!.groupSize, all!.kvChunk], [0, 2, 16]);
  assert.deepEqual(windowed!.items, [short, part(16, 32), part(32, 41)]);
  assert.deepEqual(windowed!.merges, [{ row: 1, qStart: 0, count: 2 }]);
});

test("tokens of a bidirectional model see those after them", () => {
  const ends = [false, true].map((isBidirectional) => {
    const [plan] = planOfRows([rowOf(0, 70)], [plannerOf(0)], 16, isBidirectional);
    const firstTile = plan!.items.filter(({ qStart }) => qStart === 0);
    return Math.max(...firstTile.map(({ kvEnd }) => kvEnd));
  });
  assert.deepEqual(ends, [64, 70]);
});
