// Attention of the cpu device against the reference device, for every KV type, head size, page size and instruction set.

import assert from "node:assert/strict";
import { test } from "node:test";
import { AttentionPlanner } from "../../src/attention/planner.js";
import { CpuDevice } from "../../src/device/cpu/cpu-device.js";
import type { KvDtype } from "../../src/device/device.js";
import { ReferenceDevice } from "../../src/device/reference/reference-device.js";
import {
  AttentionCase,
  type CaseRow,
  type CaseShape,
  type Masking,
  maxDifference,
  noise,
} from "../support/attention-case.js";
import { runOnDevice } from "../support/device-attention.js";
import { ISAS } from "../support/isas.js";

/**
 * Outputs are averages of numbers in [-1, 1). The reference rounds K and V to the same type, so only sums differ; on tiles, 16 bits of
 * q and of probabilities count.
 */
const TOLERANCE: Record<KvDtype, number> = { f32: 4e-6, f16: 4e-6, bf16: 1.6e-5, i8: 2e-3, fp8: 4e-6 };

const RAGGED: CaseRow[] = [
  { sequence: 0, start: 0, queryLen: 37 },
  { sequence: 1, start: 129, queryLen: 1 },
  { sequence: 2, start: 60, queryLen: 9 },
  { sequence: 3, start: 0, queryLen: 1 },
  { sequence: 4, start: 63, queryLen: 2 },
];

function compare(
  isa: string,
  shape: CaseShape,
  rows: CaseRow[],
  dtype: KvDtype,
  masking: Masking,
  kvChunk: number,
): void {
  const { groupSize, keyDim: headDim } = shape;
  const window = masking.window ?? 0;
  const problem = new AttentionCase(shape, rows);
  const planner = new AttentionPlanner({ groupSize, headDim, window, numWorkers: 3, split: "fixed", kvChunk });
  const plan = planner.plan(problem.batch);
  const want = runOnDevice(new ReferenceDevice(), problem, plan, dtype, masking);
  const device = new CpuDevice({ threads: 2, isa });
  try {
    const got = runOnDevice(device, problem, plan, dtype, masking);
    const worst = maxDifference(got, want);
    assert.ok(worst <= TOLERANCE[dtype], `${JSON.stringify({ shape, dtype, masking, kvChunk })} differs by ${worst}`);
  } finally {
    device.close();
  }
}

for (const isa of ISAS) {
  test(`${isa}: head dims, page sizes and KV types equal the reference`, () => {
    const dims = [
      [16, 16],
      [48, 48],
      [64, 64],
      [80, 80],
      [96, 96],
      [128, 128],
      [192, 128],
      [256, 256],
      [40, 20],
      [7, 3],
    ];
    const pageSizes = [1, 8, 16, 32];
    const dtypes: KvDtype[] = ["f32", "f16", "bf16", "i8", "fp8"];
    for (const [i, [keyDim, valueDim]] of dims.entries()) {
      for (const [j, dtype] of dtypes.entries()) {
        const pageSize = pageSizes[(i + j) % 4]!;
        const groupSize = [1, 3, 4, 8][(i + 2 * j) % 4]!;
        const shape = { seed: i, numKvHeads: 2, groupSize, keyDim: keyDim!, valueDim: valueDim!, pageSize };
        compare(isa, shape, RAGGED, dtype, {}, 64);
      }
    }
  });

  test(`${isa}: masks, caps, sinks and chunk sizes equal the reference`, () => {
    const shape = { seed: 3, numKvHeads: 2, groupSize: 3, keyDim: 32, valueDim: 24, pageSize: 16 };
    const sinks = Float32Array.from({ length: 6 }, (_, h) => 3 * noise(1, h, 0, 0));
    for (const kvChunk of [16, 20, 64, 256]) {
      for (const window of [0, 1, 5, 64, 100]) {
        compare(
          isa,
          shape,
          RAGGED,
          "f32",
          { window, softcap: window % 2 === 0 ? 0 : 2, sinks: window < 64 ? null : sinks },
          kvChunk,
        );
      }
    }
  });
}
