// The four ways in which a tiled attention kernel is known to go wrong (checklist B), each made visible, and bad input.

import assert from "node:assert/strict";
import { test } from "node:test";
import { AttentionPlanner } from "../../src/attention/planner.js";
import type { AttentionPlan } from "../../src/core/attention-plan.js";
import { DeviceError } from "../../src/core/errors.js";
import { CpuDevice } from "../../src/device/cpu/cpu-device.js";
import { AttentionCase, type CaseRow, type CaseShape, type Masking, maxDifference } from "../support/attention-case.js";
import { runOnDevice } from "../support/device-attention.js";
import { ISAS, whyNoCpu } from "../support/isas.js";

const SHAPE: CaseShape = { seed: 4, numKvHeads: 1, groupSize: 2, keyDim: 16, valueDim: 16, pageSize: 16 };

/** A case whose values are given: whoever sees one key too many shows it. */
function caseWithValues(rows: CaseRow[], value: (pos: number) => number): AttentionCase {
  const problem = new AttentionCase(SHAPE, rows);
  problem.value = (_sequence, pos) => value(pos);
  return problem;
}

function planFor(problem: AttentionCase, qTile: number, kvChunk: number, window = 0): AttentionPlan {
  const { groupSize, keyDim: headDim } = problem.shape;
  const planner = new AttentionPlanner({ groupSize, headDim, window, numWorkers: 1, split: "fixed", kvChunk, qTile });
  return planner.plan(problem.batch);
}

function run(isa: string, problem: AttentionCase, plan: AttentionPlan, masking: Masking = {}): Float32Array {
  const device = new CpuDevice({ threads: 2, isa });
  try {
    return runOnDevice(device, problem, plan, "f32", masking);
  } finally {
    device.close();
  }
}

const width = SHAPE.numKvHeads * SHAPE.groupSize * SHAPE.valueDim;

for (const isa of ISAS) {
  test(`${isa} (a): a tall tile masks every key block of its diagonal, not only the last`, () => {
    // 512 queries in one tile over 1024 keys. A kernel that masks its last block only lets row 0 see keys 513..767.
    const rows: CaseRow[] = [{ sequence: 0, start: 512, queryLen: 512 }];
    const problem = caseWithValues(rows, (pos) => (pos >= 513 ? 1e30 : 1));
    const got = run(isa, problem, planFor(problem, 1024, 4096));
    assert.ok(got.subarray(0, width).every((x) => Math.abs(x - 1) < 1e-5));
    assert.ok(got.subarray(width).every((x) => Math.abs(x) > 1e20));
  });

  test(`${isa} (b): a row that sees no key gives zeros, whatever its neighbours left behind`, () => {
    const problem = new AttentionCase(SHAPE, [{ sequence: 0, start: 100, queryLen: 4 }]);
    const plan = planFor(problem, 16, 4096);
    plan.itemKvEnd[0] = 0;
    assert.deepEqual([...new Set(run(isa, problem, plan))], [0]);
    // The same as parts: two chunks without keys and their merge.
    Object.assign(plan, { numItems: 2, numPartials: 2, numMerges: 1 });
    for (const array of ["itemRow", "itemQStart", "itemKvStart", "itemKvEnd"] as const) plan[array].fill(0, 0, 2);
    plan.itemQLen[1] = plan.itemQLen[0]!;
    plan.itemPartial.set([0, 1]);
    plan.mergeCount[0] = 2;
    assert.deepEqual([...new Set(run(isa, problem, plan))], [0]);
  });

  test(`${isa} (c): with a sliding window, rows without a key in a tile keep their state`, () => {
    // One tile of 300 queries with a window of 3: in every key tile most rows see nothing.
    const rows: CaseRow[] = [{ sequence: 0, start: 0, queryLen: 150 }];
    const problem = new AttentionCase(SHAPE, rows);
    for (const window of [1, 3, 64]) {
      const got = run(isa, problem, planFor(problem, 300, 64, window), { window });
      const worst = maxDifference(got, Float32Array.from(problem.naive({ window }).out));
      assert.ok(worst < 4e-6, `window ${window} differs by ${worst}`);
    }
  });

  test(`${isa} (d): what lies behind a row's keys and behind its head dim never leaks in`, () => {
    // runOnDevice fills every slot that no token owns with NaN, the null page included; 40 and 20 are no whole vectors.
    const odd = { ...SHAPE, keyDim: 40, valueDim: 20 };
    for (let length = 1; length <= 66; length += 5) {
      const problem = new AttentionCase(odd, [{ sequence: 0, start: length - 1, queryLen: 1 }]);
      assert.ok(run(isa, problem, planFor(problem, 16, 64)).every(Number.isFinite), `length ${length}`);
    }
    // A later token of the same request that overflowed stays its own problem.
    const problem = caseWithValues([{ sequence: 0, start: 0, queryLen: 60 }], (pos) => (pos >= 30 ? Infinity : 1));
    const got = run(isa, problem, planFor(problem, 128, 4096));
    assert.ok(maxDifference(got.subarray(0, 30 * width), new Float32Array(30 * width).fill(1)) < 1e-6);
  });
}

test("integers that do not fit the pool are refused, not followed", { skip: whyNoCpu }, () => {
  for (const spoil of [
    (problem: AttentionCase) => (problem.batch.groups[0]!.kvIndices[0] = 1e6),
    (problem: AttentionCase) => (problem.batch.groups[0]!.kvIndices[0] = -1),
    (problem: AttentionCase) => (problem.batch.groups[0]!.slots[0] = 1e6),
    (problem: AttentionCase) => (problem.batch.groups[0]!.slots[1] = -1),
    (problem: AttentionCase) => (problem.batch.groups[0]!.kvIndptr[1] = 1),
    (problem: AttentionCase) => (problem.batch.qoIndptr[1] = 3),
    (problem: AttentionCase) => (problem.batch.visibleEnd[1] = 5),
    (problem: AttentionCase) => (problem.batch.positions[0] = -1),
    (_: AttentionCase, plan: AttentionPlan) => ((plan as { group: number }).group = 1),
    (_: AttentionCase, plan: AttentionPlan) => (plan.itemRow[0] = 7),
    (_: AttentionCase, plan: AttentionPlan) => (plan.itemQStart[0] = 5000),
    (_: AttentionCase, plan: AttentionPlan) => (plan.itemKvEnd[0] = 5000),
    (_: AttentionCase, plan: AttentionPlan) => (plan.itemPartial[0] = 3),
  ]) {
    const problem = new AttentionCase(SHAPE, [{ sequence: 0, start: 20, queryLen: 4 }]);
    const plan = planFor(problem, 16, 64);
    const device = new CpuDevice({ threads: 1 });
    const pool = device.allocKvPool({ ...problem.spec, dtype: "f32" });
    const staged = device.createStagedBatch(problem.batch.maxTokens);
    const q = device.allocTensor(4, 32);
    const out = device.allocTensor(4, 32);
    const params = { numHeads: 2, scale: 1, softcap: 0, sinks: null };
    device.stage(staged, problem.batch, [plan]);
    device.attention(out, q, pool, 1, staged, 0, params);
    spoil(problem, plan);
    // What the step alone can tell is refused when it is staged, what only the pool can tell when they meet; and a step that
    // was refused serves no op.
    assert.throws(() => {
      device.stage(staged, problem.batch, [plan]);
      device.attention(out, q, pool, 1, staged, 0, params);
    }, DeviceError);
    assert.throws(() => device.attention(out, q, pool, 1, staged, 0, params), DeviceError);
    device.close();
  }
});
