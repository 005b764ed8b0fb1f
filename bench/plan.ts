// How long planning takes, per step. Prints; asserts nothing.   node dist/bench/plan.js

import { AttentionPlanner } from "../src/attention/planner.js";
import { Batch } from "../src/core/batch.js";

const PAGE = 16;
const ROUNDS = 500;
const tokens = new Int32Array(16_384);
const pages = new Int32Array(1024);

/** Decode rows at spread positions, and one chunk of 128 beside them. */
function batchOf(numRows: number): Batch {
  const batch = new Batch(PAGE, numRows + 128);
  for (let i = 0; i < numRows; i++) batch.addRow(tokens, (i * 97) % 8000, 1, pages, Infinity);
  batch.addRow(tokens, 1024, 128, pages, Infinity);
  return batch;
}

for (const numRows of [1, 16, 256, 1024]) {
  for (const [split, numWorkers] of [
    ["fixed", 2],
    ["fixed", 16],
    ["fixed", 66],
    ["balanced", 66],
  ] as const) {
    const batch = batchOf(numRows);
    const planner = new AttentionPlanner({ groupSize: 4, headDim: 128, window: 0, numWorkers, split, kvChunk: 256 });
    for (let i = 0; i < ROUNDS; i++) planner.plan(batch);
    const start = performance.now();
    for (let i = 0; i < ROUNDS; i++) planner.plan(batch);
    const micros = ((performance.now() - start) / ROUNDS) * 1000;
    const { numItems, numMerges } = planner.plan(batch);
    console.log(
      `${String(numRows).padStart(5)} decodes + 1 chunk, ${split.padEnd(8)} ${String(numWorkers).padStart(3)} workers: ` +
        `${micros.toFixed(1).padStart(6)} us, ${numItems} items, ${numMerges} merges`,
    );
  }
}
