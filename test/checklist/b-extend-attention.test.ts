// The CPU extend-attention text (B) on the plan and the reference run: lengths, indirection, tiles, and the four hazards that
// were bugs in the kernel it describes.

import assert from "node:assert/strict";
import { test } from "node:test";
import { AttentionPlanner, type PlannerOptions } from "../../src/attention/planner.js";
import { Batch } from "../../src/core/batch.js";
import { AttentionScratch, runAttention } from "../../src/device/reference/attention.js";
import { AttentionCase, type CaseShape, maxDifference } from "../support/attention-case.js";

const SHAPE: CaseShape = { seed: 3, numKvHeads: 2, groupSize: 2, keyDim: 8, valueDim: 4, pageSize: 16 };

function planFor(problem: AttentionCase, options: Partial<PlannerOptions>) {
  return new AttentionPlanner({
    groupSize: problem.shape.groupSize,
    headDim: problem.shape.keyDim,
    window: 0,
    numWorkers: 1,
    split: "fixed",
    kvChunk: 64,
    ...options,
  }).plan(problem.batch);
}

test("B1 B7 B8: prefix and causal triangle share one softmax, with GQA and Dv != D; a prefix of 0 is no special case", () => {
  for (const start of [0, 37]) {
    const problem = new AttentionCase(SHAPE, [{ sequence: 1, start, queryLen: 40 }]);
    assert.ok(maxDifference(problem.run(planFor(problem, {})).out, problem.naive().out) < 1e-5, `prefix ${start}`);
  }
});

test("B2 BX3: no tile pair is special: 64x256, upstream's four pairs and odd ones give the same numbers", () => {
  const problem = new AttentionCase({ ...SHAPE, numKvHeads: 1, groupSize: 1 }, [
    { sequence: 1, start: 100, queryLen: 300 },
  ]);
  const want = problem.naive().out;
  for (const [qTile, kvChunk] of [
    [64, 256],
    [32, 64],
    [128, 256],
    [256, 768],
    [512, 768],
    [7, 33],
  ] as const) {
    for (const numWorkers of [1, 32]) {
      const got = problem.run(planFor(problem, { qTile, kvChunk, numWorkers })).out;
      assert.ok(maxDifference(got, want) < 1e-5, `${qTile}x${kvChunk} on ${numWorkers}`);
    }
  }
});

test("B3: a short row beside a long one has no idle blocks: tiles are counted per row", () => {
  const problem = new AttentionCase({ ...SHAPE, groupSize: 1 }, [
    { sequence: 0, start: 0, queryLen: 200 },
    { sequence: 1, start: 0, queryLen: 3 },
  ]);
  const plan = planFor(problem, { qTile: 64 });
  assert.deepEqual(Array.from(plan.itemRow.subarray(0, plan.numItems)), [0, 0, 0, 0, 1]);
});

test("B5: with page size 1 the page table is the list of token slots", () => {
  const problem = new AttentionCase({ ...SHAPE, pageSize: 1 }, [
    { sequence: 0, start: 9, queryLen: 6 },
    { sequence: 1, start: 4, queryLen: 1 },
  ]);
  assert.equal(problem.batch.groups[0]!.kvIndptr[2], 20);
  assert.deepEqual(problem.batch.groups[0]!.slots.subarray(0, 6), problem.batch.groups[0]!.kvIndices.subarray(9, 15));
  assert.ok(maxDifference(problem.run(planFor(problem, {})).out, problem.naive().out) < 1e-5);
});

test("B6 BX1: context length is prefix + extend; qoIndptr is the start of a row in the packed tokens", () => {
  const batch = new Batch(16, 64);
  batch.addRow(new Int32Array(64), 30, 10, Int32Array.of(1, 2, 3), Infinity);
  batch.addRow(new Int32Array(64), 7, 1, Int32Array.of(4), Infinity);
  assert.deepEqual([batch.contextLen(0), batch.queryLen(0)], [40, 10]);
  assert.deepEqual([batch.contextLen(1), batch.queryLen(1)], [8, 1]);
  assert.deepEqual(Array.from(batch.qoIndptr.subarray(0, 3)), [0, 10, 11]);
});

test("B7: q and out may be columns of wider tensors", () => {
  const problem = new AttentionCase(SHAPE, [{ sequence: 1, start: 5, queryLen: 3 }]);
  const qWidth = problem.numHeads * SHAPE.keyDim;
  const outWidth = problem.numHeads * SHAPE.valueDim;
  const q = new Float32Array(3 * (qWidth + 10)).fill(NaN);
  for (let t = 0; t < 3; t++) q.set(problem.q.subarray(t * qWidth, (t + 1) * qWidth), 7 + t * (qWidth + 10));
  const out = new Float32Array(3 * (outWidth + 5)).fill(-1);
  const plan = planFor(problem, {});
  runAttention(
    { data: out, offset: 2, stride: outWidth + 5 },
    { data: q, offset: 7, stride: qWidth + 10 },
    { data: problem.pool, spec: problem.spec },
    1,
    problem.batch,
    plan,
    problem.params(),
    new AttentionScratch(problem.spec),
  );
  const want = problem.run(plan).out;
  for (let t = 0; t < 3; t++) {
    const at = 2 + t * (outWidth + 5);
    assert.deepEqual(out.slice(at, at + outWidth), want.slice(t * outWidth, (t + 1) * outWidth));
  }
  assert.deepEqual([out[0], out[1], out[2 + outWidth]], [-1, -1, -1], "nothing beside its columns is written");
});

test("hazard a: with 512 queries in one tile over chunks of 768, keys 513..767 do not leak to row 0", () => {
  const shape = { ...SHAPE, numKvHeads: 1, groupSize: 1, keyDim: 4 };
  const problem = new AttentionCase(shape, [{ sequence: 1, start: 512, queryLen: 512 }]);
  const want = problem.naive().out;
  for (const numWorkers of [1, 8]) {
    const plan = planFor(problem, { qTile: 512, kvChunk: 768, numWorkers });
    assert.equal(plan.qTile, 512);
    assert.ok(maxDifference(problem.run(plan).out, want) < 1e-5);
  }
});

test("hazard b: a row that sees nothing of a chunk adds nothing of its neighbours' weights", () => {
  // Tile of 40 tokens over chunks of 16: row 0 sees one chunk of three, row 39 all. Row 0 must be as if it were alone.
  const shape = { ...SHAPE, numKvHeads: 1, groupSize: 1 };
  const together = new AttentionCase(shape, [{ sequence: 1, start: 0, queryLen: 40 }]);
  const alone = new AttentionCase(shape, [{ sequence: 1, start: 0, queryLen: 1 }]);
  for (const numWorkers of [1, 16]) {
    const scratch = new AttentionScratch(together.spec);
    const plan = planFor(together, { qTile: 64, kvChunk: 16, numWorkers });
    together.run(plan, {}, scratch); // leaves weights behind
    const got = together.run(plan, {}, scratch).out;
    const want = alone.run(planFor(alone, { qTile: 64, kvChunk: 16 })).out;
    assert.deepEqual(got.slice(0, shape.valueDim), want);
  }
});

test("hazard c: a window leaves rows without a valid key in the early chunks of their tile", () => {
  const problem = new AttentionCase(SHAPE, [{ sequence: 1, start: 30, queryLen: 60 }]);
  for (const numWorkers of [1, 16]) {
    const plan = planFor(problem, { window: 5, qTile: 256, kvChunk: 16, numWorkers });
    assert.equal(plan.itemKvStart[0], 16); // 30 - 4 = 26, down to a multiple of 16
    const got = problem.run(plan, { window: 5 });
    const want = problem.naive({ window: 5 });
    assert.ok(maxDifference(got.out, want.out) < 1e-5);
    assert.ok(maxDifference(got.lse, want.lse) < 1e-5);
  }
});

test("hazard c: a row without any key gives zeros and -inf, with and without a sink", () => {
  const problem = new AttentionCase(SHAPE, [{ sequence: 1, start: 0, queryLen: 1 }]);
  const plan = planFor(problem, {});
  plan.itemKvEnd[0] = 0;
  for (const sinks of [null, new Float32Array(4).fill(1)]) {
    const { out, lse } = problem.run(plan, { sinks });
    assert.ok(out.every((x) => x === 0));
    assert.ok(lse.every((x) => x === -Infinity));
  }
});

test("hazard d: garbage in the unused slots of a page never reaches a result", () => {
  const problem = new AttentionCase(SHAPE, [{ sequence: 1, start: 17, queryLen: 4 }]); // 21 tokens on two pages of 16
  assert.ok(problem.pool.some(Number.isNaN), "unused slots hold NaN");
  for (const split of ["fixed", "balanced"] as const) {
    const { out } = problem.run(planFor(problem, { split, kvChunk: 16, numWorkers: 8 }));
    assert.ok(out.every(Number.isFinite));
  }
});
