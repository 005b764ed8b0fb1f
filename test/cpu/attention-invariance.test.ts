// A token's attention on the cpu device is the same to the last bit however its request was chunked, batched, cached, tiled or
// split, and on any number of threads: for every KV type and instruction set.

import assert from "node:assert/strict";
import { test } from "node:test";
import { AttentionPlanner, type PlannerOptions } from "../../src/attention/planner.js";
import { CpuDevice } from "../../src/device/cpu/cpu-device.js";
import type { KvDtype } from "../../src/device/device.js";
import { AttentionCase, type CaseRow, type CaseShape, type Masking, noise } from "../support/attention-case.js";
import { runOnDevice } from "../support/device-attention.js";
import { ISAS } from "../support/isas.js";

const LENGTH = 150;
const SEQUENCE = 5;

interface Way {
  /** Where the sequence is cut into chunks: each runs in its own batch. */
  readonly cuts: readonly number[];
  readonly others?: readonly CaseRow[];
  readonly threads?: number;
  readonly plan?: Partial<PlannerOptions>;
}

/** Outputs of the sequence, position by position, computed in this way. */
function outputs(isa: string, shape: CaseShape, dtype: KvDtype, masking: Masking, way: Way): Float32Array {
  const width = shape.numKvHeads * shape.groupSize * shape.valueDim;
  const all = new Float32Array(LENGTH * width);
  const device = new CpuDevice({ threads: way.threads ?? 1, isa });
  try {
    let start = 0;
    for (const end of [...way.cuts, LENGTH]) {
      const mine = { sequence: SEQUENCE, start, queryLen: end - start };
      const problem = new AttentionCase(shape, [...(way.others ?? []), mine]);
      const planner = new AttentionPlanner({
        groupSize: shape.groupSize,
        headDim: shape.keyDim,
        window: masking.window ?? 0,
        numWorkers: 1,
        split: "fixed",
        kvChunk: 64,
        ...way.plan,
      });
      const out = runOnDevice(device, problem, planner.plan(problem.batch), dtype, masking);
      all.set(out.subarray(out.length - (end - start) * width), start * width);
      start = end;
    }
  } finally {
    device.close();
  }
  return all;
}

const OTHERS: CaseRow[] = [
  { sequence: 1, start: 70, queryLen: 1 },
  { sequence: 2, start: 0, queryLen: 90 },
  { sequence: 3, start: 10, queryLen: 5 },
];

const WAYS: Record<string, Way> = {
  "chunks of 16": { cuts: [16, 32, 48, 64, 80, 96, 112, 128, 144] },
  "odd chunks": { cuts: [1, 2, 3, 50, 51, 127] },
  "ends in decodes": { cuts: [100, ...Array.from({ length: LENGTH - 101 }, (_, i) => 101 + i)] },
  "beside others, two threads": { cuts: [33, 97], others: OTHERS, threads: 2 },
  "split over many workers": { cuts: [90, 149], threads: 3, plan: { numWorkers: 50 } },
  "tiles of 5 rows": { cuts: [], plan: { qTile: 5 } },
  "tiles of 16 rows, split": { cuts: [75], threads: 2, others: OTHERS, plan: { qTile: 16, numWorkers: 1000 } },
};

const MASKINGS: readonly Masking[] = [
  {},
  { window: 40, softcap: 3, sinks: Float32Array.from({ length: 6 }, (_, h) => 3 * noise(1, h, 0, 0)) },
];

for (const isa of ISAS) {
  for (const dtype of ["f32", "f16", "bf16", "i8", "fp8"] as const) {
    test(`${isa} ${dtype}: same bits in every way to run it`, () => {
      // D = 40 is a whole number of vectors in no instruction set but the portable one.
      const shape = { seed: 9, numKvHeads: 2, groupSize: 3, keyDim: 40, valueDim: 24, pageSize: 16 };
      for (const masking of MASKINGS) {
        const whole = outputs(isa, shape, dtype, masking, { cuts: [] });
        assert.ok(whole.every(Number.isFinite));
        for (const [name, way] of Object.entries(WAYS)) {
          assert.deepEqual(bits(outputs(isa, shape, dtype, masking, way)), bits(whole), name);
        }
      }
    });
  }
}

function bits(values: Float32Array): Uint8Array {
  return new Uint8Array(values.buffer);
}
