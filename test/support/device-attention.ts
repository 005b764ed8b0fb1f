// Runs an AttentionCase on any device through the Device interface: appends its keys and values, then attends. Slots that no
// token owns are filled with NaN first, so that a stray read shows in the output.

import type { AttentionPlan } from "../../src/core/attention-plan.js";
import { Batch } from "../../src/core/batch.js";
import type { Device, KvDtype, KvPool, Tensor } from "../../src/device/device.js";
import type { AttentionCase, Masking } from "./attention-case.js";

const LAYERS = 2;
const LAYER = 1;

/** out [T, H*Dv]. Memory stays with the device until it is closed. */
export function runOnDevice(
  device: Device,
  problem: AttentionCase,
  plan: AttentionPlan,
  dtype: KvDtype,
  masking: Masking = {},
): Float32Array {
  const { batch, numHeads } = problem;
  const { keyDim, valueDim } = problem.shape;
  const pool = device.allocKvPool({ ...problem.spec, numLayers: LAYERS, dtype });
  appendAll(device, pool, problem, true);
  appendAll(device, pool, problem, false);

  const q = device.loadTensor(problem.q, batch.numTokens, numHeads * keyDim);
  const out = device.allocTensor(batch.numTokens, numHeads * valueDim);
  const staged = device.createStagedBatch(batch.maxTokens);
  device.stage(staged, batch, [plan]);
  const { sinks = null, softcap = 0 } = masking;
  device.attention(out, q, pool, LAYER, staged, 0, {
    numHeads,
    scale: 1 / Math.sqrt(keyDim),
    softcap,
    sinks: sinks === null ? null : device.loadTensor(sinks, 1, sinks.length),
  });
  const result = new Float32Array(batch.numTokens * numHeads * valueDim);
  device.read(result, out, 0, batch.numTokens);
  return result;
}

/** Writes the keys and values of every token of every row, or NaN to every slot of the pool. */
function appendAll(device: Device, pool: KvPool, problem: AttentionCase, isNoise: boolean): void {
  const { pageSize, numPages, numKvHeads, keyDim, valueDim } = problem.spec;
  const slots: number[] = [];
  const k: number[] = [];
  const v: number[] = [];
  if (isNoise) {
    for (let slot = 0; slot < numPages * pageSize; slot++) slots.push(slot);
  } else {
    for (const [r, row] of problem.rows.entries()) {
      for (let pos = 0; pos < row.start + row.queryLen; pos++) {
        const page =
          problem.batch.groups[0]!.kvIndices[problem.batch.groups[0]!.kvIndptr[r]! + Math.floor(pos / pageSize)]!;
        slots.push(page * pageSize + (pos % pageSize));
        for (let head = 0; head < numKvHeads; head++) {
          for (let i = 0; i < keyDim; i++) k.push(problem.key(row.sequence, pos, head, i));
          for (let i = 0; i < valueDim; i++) v.push(problem.value(row.sequence, pos, head, i));
        }
      }
    }
  }
  const fill = (cols: number) => new Float32Array(slots.length * cols).fill(NaN);
  const keys = isNoise ? fill(numKvHeads * keyDim) : Float32Array.from(k);
  const values = isNoise ? fill(numKvHeads * valueDim) : Float32Array.from(v);
  const batch = new Batch(pageSize, slots.length);
  batch.numTokens = slots.length;
  batch.groups[0]!.slots.set(slots);
  const staged = device.createStagedBatch(slots.length);
  device.stage(staged, batch, []);
  const unusedQ: Tensor = device.allocTensor(slots.length, problem.numHeads * keyDim);
  device.rotaryAppend(
    unusedQ,
    device.loadTensor(keys, slots.length, numKvHeads * keyDim),
    device.loadTensor(values, slots.length, numKvHeads * valueDim),
    null,
    pool,
    LAYER,
    staged,
  );
}
