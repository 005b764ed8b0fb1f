// What a token may see is data: rows that see ahead (encoders, images in a prompt) and chunked attention, on reference and cpu,
// against the textbook, and bit for bit alone, beside others, split and in other tiles.

import assert from "node:assert/strict";
import { test } from "node:test";
import { AttentionPlanner, type PlannerOptions } from "../../src/attention/planner.js";
import { ALL_AHEAD } from "../../src/core/attention-plan.js";
import { CpuDevice } from "../../src/device/cpu/cpu-device.js";
import type { Device } from "../../src/device/device.js";
import { ReferenceDevice } from "../../src/device/reference/reference-device.js";
import { AttentionCase, type CaseRow, type CaseShape, type Masking, maxDifference } from "../support/attention-case.js";
import { runOnDevice } from "../support/device-attention.js";
import { ISAS } from "../support/isas.js";

const SHAPE: CaseShape = { seed: 12, numKvHeads: 2, groupSize: 3, keyDim: 24, valueDim: 16, pageSize: 8 };
const WIDTH = SHAPE.numKvHeads * SHAPE.groupSize * SHAPE.valueDim;

/** A whole sequence that sees itself; an image at 40..90 of a prompt, its first 30 tokens cached; causal rows beside them. */
const ENCODER: CaseRow = { sequence: 1, start: 0, queryLen: 150, together: [0, 150] };
const IMAGE: CaseRow = { sequence: 2, start: 30, queryLen: 90, together: [40, 90] };
const OTHERS: readonly CaseRow[] = [
  { sequence: 3, start: 100, queryLen: 1 },
  { sequence: 4, start: 0, queryLen: 33 },
];

const devices: Record<string, () => Device> = { reference: () => new ReferenceDevice() };
for (const isa of ISAS) devices[`cpu ${isa}`] = () => new CpuDevice({ threads: 3, isa });

function run(open: () => Device, rows: readonly CaseRow[], options: Partial<PlannerOptions>, masking: Masking = {}) {
  const problem = new AttentionCase(SHAPE, rows);
  const planner = new AttentionPlanner({
    groupSize: SHAPE.groupSize,
    headDim: SHAPE.keyDim,
    window: masking.window ?? 0,
    attentionChunk: masking.attentionChunk ?? 0,
    ...(masking.mostAhead === undefined ? {} : { mostAhead: masking.mostAhead }),
    numWorkers: 1,
    split: "fixed",
    kvChunk: 64,
    ...options,
  });
  const device = open();
  try {
    return { problem, out: runOnDevice(device, problem, planner.plan(problem.batch), "f32", masking) };
  } finally {
    device.close();
  }
}

/** Outputs of the row of a sequence. */
function rowOf(problem: AttentionCase, out: Float32Array, sequence: number): Float32Array {
  const row = problem.rows.findIndex((r) => r.sequence === sequence);
  const { qoIndptr } = problem.batch;
  return out.subarray(qoIndptr[row]! * WIDTH, qoIndptr[row + 1]! * WIDTH);
}

for (const [name, open] of Object.entries(devices)) {
  test(`${name}: rows that see ahead give the textbook's result, whole and windowed`, () => {
    for (const masking of [
      {},
      { window: 20 },
      { attentionChunk: 32 },
      { window: 1 },
      { attentionChunk: 1 },
      { window: 20, mostAhead: ALL_AHEAD },
      { mostAhead: 1 },
    ]) {
      const { problem, out } = run(open, [ENCODER, IMAGE, ...OTHERS], { numWorkers: 16 }, masking);
      const worst = maxDifference(out, Float32Array.from(problem.naive(masking).out));
      assert.ok(worst < 1e-5, `${JSON.stringify(masking)} differs by ${worst}`);
    }
  });

  test(`${name}: what they give does not depend on batch, tiles or splits`, () => {
    for (const masking of [{}, { window: 20 }, { attentionChunk: 32 }, { window: 20, mostAhead: ALL_AHEAD }]) {
      for (const row of [ENCODER, IMAGE]) {
        const alone = run(open, [row], {}, masking);
        const want = rowOf(alone.problem, alone.out, row.sequence);
        for (const options of [{ numWorkers: 64 }, { qTile: 16 }, { qTile: 1024, numWorkers: 8 }]) {
          const { problem, out } = run(open, [OTHERS[0]!, row, OTHERS[1]!], options, masking);
          assert.deepEqual(rowOf(problem, out, row.sequence), want, JSON.stringify({ options, masking }));
        }
      }
    }
  });
}

test("chunked attention reads nothing before its chunk: keys there may be gone", () => {
  const plan = new AttentionPlanner({
    ...{ groupSize: 1, headDim: 16, window: 0, attentionChunk: 64, numWorkers: 1, split: "fixed", kvChunk: 32 },
  }).plan(new AttentionCase({ ...SHAPE, groupSize: 1 }, [{ sequence: 0, start: 128, queryLen: 3 }]).batch);
  assert.deepEqual([plan.itemKvStart[0], plan.itemKvEnd[0]], [128, 131]);
});
