// Row ops on enough rows for the workers to share them (the contract suite's are too small for that), and every size of tail:
// the same bits on 1, 2 and 3 threads, and close to the reference.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Batch } from "../../src/core/batch.js";
import { CpuDevice } from "../../src/device/cpu/cpu-device.js";
import type { Device, KvDtype, Tensor } from "../../src/device/device.js";
import { ReferenceDevice } from "../../src/device/reference/reference-device.js";
import { maxDifference, noise } from "../support/attention-case.js";
import { ISAS, whyNoCpu } from "../support/isas.js";
import { mapOnce } from "../support/map.js";

const N = 150;
const COLS = 236; // four heads of 59: a tail in every instruction set

const values = (count: number, seed: number) =>
  Float32Array.from({ length: count }, (_, i) => 3 * noise(seed, i, 0, 0));

/** Writes `out`, or changes x where it says so. */
interface Op {
  readonly inPlace?: true;
  run(device: Device, x: Tensor, y: Tensor, out: Tensor, weight: Tensor): void;
}

const OPS: Record<string, Op> = {
  rmsNorm: { run: (d, x, _y, out, w) => d.rmsNorm(out, x, w, 1e-6, N) },
  "rmsNorm by head": { run: (d, x, _y, out, w) => d.rmsNorm(out, x, w, 1e-6, N, 59) },
  addRmsNorm: { run: (d, x, y, out, w) => d.addRmsNorm(out, x, y, w, 1e-6, N) },
  "addRmsNorm, the residual": { inPlace: true, run: (d, x, y, out, w) => d.addRmsNorm(out, x, y, w, 1e-6, N) },
  layerNorm: { run: (d, x, _y, out, w) => d.layerNorm(out, x, w, w, 1e-6, N) },
  add: { run: (d, x, y, out) => mapOnce(d, { kind: "add", scale: 0.3 }, out, x, y, N) },
  softcap: { inPlace: true, run: (d, x) => mapOnce(d, { kind: "softcap", cap: 2 }, x, x, null, N) },
  silu: { run: (d, x, y, out) => mapOnce(d, { kind: "gate", activation: "silu" }, out, x, y, N) },
  gelu: { run: (d, x, _y, out) => mapOnce(d, { kind: "activation", activation: "gelu" }, out, x, null, N) },
  gelu_tanh: { run: (d, x, _y, out) => mapOnce(d, { kind: "activation", activation: "gelu_tanh" }, out, x, null, N) },
  "rotary, halves": { inPlace: true, run: (d, x) => rotate(d, x, false) },
  "rotary, interleaved": { inPlace: true, run: (d, x) => rotate(d, x, true) },
};

function rotate(device: Device, x: Tensor, interleaved: boolean): void {
  const invFreq = Float32Array.from({ length: 25 }, (_, i) => 10000 ** (-i / 25));
  const table = device.createRotary({ invFreq, scale: 1.3, interleaved }, N);
  const batch = new Batch(16, N);
  batch.addRow(new Int32Array(4000 + N), 4000, N, new Int32Array(260), Infinity);
  const staged = device.createStagedBatch(N);
  device.stage(staged, batch, []);
  device.rotaryTable(table, staged);
  device.rotary(x, table, 59, 3, staged);
}

function runOp(device: Device, op: Op): Float32Array {
  const x = device.loadTensor(values(N * COLS, 1), N, COLS);
  const y = device.loadTensor(values(N * COLS, 2), N, COLS);
  const weight = device.loadTensor(values(COLS, 3), 1, COLS);
  const out = device.allocTensor(N, COLS);
  op.run(device, x, y, out, weight);
  const result = new Float32Array(N * COLS);
  device.read(result, op.inPlace ? x : out, 0, N);
  return result;
}

for (const isa of ISAS) {
  test(`${isa}: row ops give the same bits on any number of threads, close to the reference`, () => {
    for (const [name, op] of Object.entries(OPS)) {
      const want = runOp(new ReferenceDevice(), op);
      const got = [1, 2, 3].map((threads) => {
        const device = new CpuDevice({ threads, isa });
        const result = runOp(device, op);
        device.close();
        return result;
      });
      assert.ok(maxDifference(got[0]!, want) < 2e-5, `${name} differs by ${maxDifference(got[0]!, want)}`);
      assert.deepEqual(got[1], got[0], name);
      assert.deepEqual(got[2], got[0], name);
    }
  });
}

test("a page is as large as its elements and, for i8 and fp8, its scales", { skip: whyNoCpu }, () => {
  const device = new CpuDevice({ threads: 1 });
  const spec = { pageSize: 16, numLayers: 32, numKvHeads: 8, keyDim: 128, valueDim: 128 };
  const bytes = (dtype: KvDtype) => device.kvPageBytes({ ...spec, dtype });
  assert.equal(bytes("f32"), 4 * 1_048_576);
  assert.equal(bytes("f16"), 2 * 1_048_576);
  assert.equal(bytes("bf16"), 2 * 1_048_576);
  assert.equal(bytes("i8"), 1_048_576 + 32 * 2 * 8 * 16 * 4);
  assert.equal(bytes("fp8"), bytes("i8"));
  device.close();
});

test("a slot outside the pool is refused", { skip: whyNoCpu }, () => {
  const device = new CpuDevice({ threads: 1 });
  const pool = device.allocKvPool({
    ...{ numPages: 2, pageSize: 4, numLayers: 1, numKvHeads: 1, keyDim: 8, valueDim: 8 },
    dtype: "f16",
  });
  const batch = new Batch(4, 1);
  batch.addRow(new Int32Array(1), 0, 1, Int32Array.of(2), Infinity);
  const staged = device.createStagedBatch(1);
  device.stage(staged, batch, []);
  const x = device.allocTensor(1, 8);
  assert.throws(() => device.rotaryAppend(x, x, x, null, pool, 0, staged), /page 2 of 4 slots, the pool has 2 of 4/);
  assert.throws(() => device.copyPage(pool, 0, 2), /page 0 to 2 of 2/);
  device.close();
});
