// The order and the cuts of the work that decode blocks take: which block runs what changes no bit, but the end of a launch.

import assert from "node:assert/strict";
import { test } from "node:test";
import { AttentionPlanner } from "../../attention/planner.js";
import { Batch } from "../../core/batch.js";
import type { GpuFacts } from "./driver/context.js";
import { plannerLimits } from "./kv-pool.js";
import { CHUNK, newStagedPlan, PlanWriter, planInts } from "./staged-plan.js";

interface Work {
  readonly row: number; // of one token each
  readonly first: number; // chunk
  readonly end: number;
  readonly isPart: boolean;
}

/** The plan of rows of [cached, new] tokens on a GPU of 132 multiprocessors with 8 kv heads, as it is staged. */
function stagedOf(rows: readonly (readonly [cached: number, fresh: number])[]) {
  const tokens = rows.reduce((sum, [, fresh]) => sum + fresh, 0);
  const batch = new Batch(16, tokens);
  for (const [cached, fresh] of rows) {
    const length = cached + fresh;
    batch.addRow(new Int32Array(length), cached, fresh, new Int32Array(Math.ceil(length / 16)), Infinity);
  }
  const shape = { groupSize: 4, headDim: 128, numKvHeads: 8, window: 0, split: "fixed" } as const;
  const plan = new AttentionPlanner({ ...shape, ...plannerLimits({ multiprocessors: 132 } as GpuFacts, shape) }).plan(
    batch,
  );
  const ints = new Int32Array(planInts(plan));
  const staged = newStagedPlan();
  new PlanWriter().write(ints, 0, plan, batch, 0, staged);
  return { staged, record: (i: number) => ints.subarray(12 + 12 * i, 24 + 12 * i) };
}

/** The decodes' records for rows of these contexts. */
function workOf(contexts: readonly number[]): Work[] {
  const { staged, record } = stagedOf(contexts.map((context) => [context - 1, 1]));
  return Array.from({ length: staged.numDecodes }, (_, i) => {
    const [row, , , first, end, , , partial] = record(i);
    return { row: row!, first: first! / CHUNK, end: Math.ceil(end! / CHUNK), isPart: partial! >= 0 };
  });
}

test("decodes longer than a split one's spans come first, then the split ones, most chunks first, then the others", () => {
  const contexts = Array.from({ length: 64 }, (_, i) => Math.round(100 * 160 ** (((i * 37) % 64) / 63)));
  const work = workOf(contexts);
  const from = work.findIndex(({ isPart }) => isPart);
  const to = work.findLastIndex(({ isPart }) => isPart) + 1;
  const span = Math.max(...work.slice(from, to).map(({ first, end }) => end - first));
  const chunks = work.map(({ row }) => Math.ceil(contexts[row]! / CHUNK));
  assert.ok(from > 0 && to - from > 64 && work.length - to > 16);
  assert.ok(work.slice(from, to).every(({ isPart }) => isPart));
  assert.ok(chunks.slice(0, from).every((count) => count > span) && chunks.slice(to).every((count) => count <= span));
  for (let i = 1; i < work.length; i++)
    if (i !== from && i !== to) assert.ok(chunks[i - 1]! >= chunks[i]!, `work ${i}`);
});

test("a split row's spans cover it once, and differ by one chunk at most", () => {
  const contexts = [30_000, 4000, 700, 16_000, ...Array.from({ length: 28 }, () => 1000)];
  const work = workOf(contexts);
  let split = 0;
  for (const [row, context] of contexts.entries()) {
    const spans = work.filter((each) => each.row === row).sort((a, b) => a.first - b.first);
    let at = 0;
    for (const { first, end } of spans) {
      assert.equal(first, at);
      at = end;
    }
    assert.equal(at, Math.ceil(context / CHUNK));
    const lengths = spans.map(({ first, end }) => end - first);
    assert.ok(Math.max(...lengths) - Math.min(...lengths) <= 1);
    if (spans[0]!.isPart) {
      assert.ok(spans.every(({ isPart }) => isPart));
      split++;
    }
  }
  assert.ok(split >= 2 && split < contexts.length);
});

test("a few tokens on a long context are split along it, for all multiprocessors, and each of their tiles is merged once", () => {
  const { staged, record } = stagedOf([[8000, 64]]);
  const { numDecodes, numExtends, numTiles, stateRows } = staged;
  assert.deepEqual([numDecodes, numTiles, stateRows], [0, 2, 128]);
  assert.ok(numExtends >= 14 && numExtends <= 16, `${numExtends} blocks of a head`); // 132 / 8
  const chunks = Math.ceil(8064 / CHUNK);
  for (let merge = 0; merge < numTiles; merge++) {
    const [token0, packed0, rows, , , , , partial, firstPartial, numPartials] = record(numExtends + merge);
    assert.deepEqual([token0, rows, partial, numPartials], [0, 128, firstPartial, chunks]);
    const spans = Array.from({ length: numExtends }, (_, i) => record(i))
      .filter((each) => each[1] === packed0)
      .sort((a, b) => a[3]! - b[3]!);
    let [at, next] = [0, firstPartial!];
    for (const span of spans) {
      assert.deepEqual([span[3], span[7]], [at, next]);
      at = span[4]!;
      next += Math.ceil((at - span[3]!) / CHUNK);
    }
    assert.deepEqual([Math.ceil(at / CHUNK), next - firstPartial!], [chunks, chunks]);
  }
});

test("prompts that have work for all multiprocessors are not split", () => {
  for (const rows of [[[0, 8192]], Array.from({ length: 4 }, () => [8000, 512]), [[0, 512]]] as [number, number][][])
    assert.equal(stagedOf(rows).staged.numTiles, 0);
});
