// The order and the cuts of the work that decode blocks take: which block runs what changes no bit, but the end of a launch.

import assert from "node:assert/strict";
import { test } from "node:test";
import { AttentionPlanner } from "../../attention/planner.js";
import { Batch } from "../../core/batch.js";
import type { GpuFacts } from "./context.js";
import { plannerLimits } from "./kv-pool.js";
import { newStagedPlan, PlanWriter, planInts, UNIT } from "./staged-plan.js";

interface Work {
  readonly row: number; // of one token each
  readonly first: number; // unit
  readonly end: number;
  readonly isPart: boolean;
  readonly blocks: number; // of its row
}

/** The decodes' records for rows of these contexts, on a GPU of 132 multiprocessors with 8 kv heads. */
function workOf(contexts: readonly number[]): Work[] {
  const batch = new Batch(16, contexts.length);
  for (const context of contexts) {
    batch.addRow(new Int32Array(context), context - 1, 1, new Int32Array(Math.ceil(context / 16)), Infinity);
  }
  const shape = { groupSize: 4, headDim: 128, numKvHeads: 8, window: 0, split: "fixed" } as const;
  const plan = new AttentionPlanner({ ...shape, ...plannerLimits({ multiprocessors: 132 } as GpuFacts, shape) }).plan(
    batch,
  );
  const ints = new Int32Array(planInts(plan));
  const staged = newStagedPlan();
  new PlanWriter().write(ints, 0, plan, batch, 0, staged);
  return Array.from({ length: staged.numDecodes }, (_, i) => {
    const [row, , , first, end, , , partial, , blocks] = ints.subarray(8 + 16 * i, 24 + 16 * i);
    return { row: row!, first: first! / UNIT, end: Math.ceil(end! / UNIT), isPart: partial! >= 0, blocks: blocks! };
  });
}

test("decodes longer than a split one's spans come first, then the split ones, most units first, then the others", () => {
  const contexts = Array.from({ length: 64 }, (_, i) => Math.round(100 * 160 ** (((i * 37) % 64) / 63)));
  const work = workOf(contexts);
  const from = work.findIndex(({ isPart }) => isPart);
  const to = work.findLastIndex(({ isPart }) => isPart) + 1;
  const span = Math.max(...work.slice(from, to).map(({ first, end }) => end - first));
  const units = work.map(({ row }) => Math.ceil(contexts[row]! / UNIT));
  assert.ok(from > 0 && to - from > 64 && work.length - to > 16);
  assert.ok(work.slice(from, to).every(({ isPart }) => isPart));
  assert.ok(units.slice(0, from).every((count) => count > span) && units.slice(to).every((count) => count <= span));
  for (let i = 1; i < work.length; i++) if (i !== from && i !== to) assert.ok(units[i - 1]! >= units[i]!, `work ${i}`);
});

test("a split row's spans cover it once, and differ by one unit at most", () => {
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
    assert.equal(at, Math.ceil(context / UNIT));
    const lengths = spans.map(({ first, end }) => end - first);
    assert.ok(Math.max(...lengths) - Math.min(...lengths) <= 1);
    if (spans[0]!.isPart) {
      assert.ok(spans.every(({ blocks }) => blocks === spans.length));
      split++;
    }
  }
  assert.ok(split >= 2 && split < contexts.length);
});
