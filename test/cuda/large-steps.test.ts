// Steps of more tokens than a grid's second dimension has blocks (65,535), on the GPU or its emulator: their kernels can be launched. With
// EMULATED_IDLE=1 the emulator looks at grids and computes nothing.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Batch } from "../../src/core/batch.js";
import { madeTensor } from "../../src/formats/tensor-views.js";
import { openCuda } from "../support/cuda.js";
import { mapOnce } from "../support/map.js";

const { device, reason } = await openCuda();
const n = 65_536 + 8;
const HEADS = 2;
const DIM = 16;

test("row kernels, appends, convolutions and mixtures of 65,544 tokens", { skip: reason }, () => {
  assert.ok(device !== null);
  const batch = new Batch(16, n);
  const pages = Int32Array.from({ length: n / 8 }, (_, i) => i);
  batch.addRow(new Int32Array(n), 0, n, pages, Number.POSITIVE_INFINITY, 1);
  const staged = device.createStagedBatch(n);
  device.stage(staged, batch, []);
  const x = device.allocTensor(n, HEADS * DIM);
  const y = device.allocTensor(n, HEADS * DIM);
  const ones = device.loadTensor(new Float32Array(HEADS * DIM).fill(1), 1, HEADS * DIM);
  device.rmsNorm(y, x, ones, 1e-6, n);
  device.rmsNorm(y, x, ones.columns(0, DIM), 1e-6, n, DIM);
  mapOnce(device, { kind: "add", scale: 1 }, y, x, y, n);
  mapOnce(device, { kind: "activation", activation: "silu" }, y, x, null, n);
  device.copyHeads(y, x, { numHeads: HEADS, width: 4, outHead: DIM, outOffset: 0, inHead: DIM, inOffset: 4 }, n);
  const rotary = device.createRotary({ invFreq: new Float32Array(DIM / 2), scale: 1, interleaved: false }, n);
  device.rotaryTable(rotary, staged);
  const spec = { numPages: 4, numLayers: 1, numKvHeads: HEADS, keyDim: DIM, valueDim: DIM, pageSize: 16 };
  device.rotaryAppend(x, y, y, rotary, device.allocKvPool({ ...spec, dtype: "bf16" }), 0, staged);
  const states = device.allocStatePool({ numSlots: 2, floats: 4096 });
  const taps = device.allocTensor(4, HEADS * DIM);
  device.shortConv(y, x, taps, null, "silu", states, 0, staged);
  const bf16 = (rows: number, cols: number) =>
    device.loadWeight([madeTensor("w", "bf16", [rows, cols], () => new Uint8Array(2 * rows * cols))]);
  device.matmul(y, x, bf16(HEADS * DIM, HEADS * DIM), n);
  const experts = [0, 1, 2, 3];
  device.mixtureOfExperts(
    y,
    x,
    device.allocTensor(n, 4),
    {
      numExperts: 4,
      topK: 2,
      score: "softmax",
      normalize: true,
      scale: 1,
      bias: null,
      numGroups: 1,
      topkGroup: 1,
    },
    {
      gateUp: experts.map(() => bf16(128, HEADS * DIM)),
      down: experts.map(() => bf16(HEADS * DIM, 64)),
      gateUpBias: null,
      downBias: null,
      inner: 64,
      activation: "silu",
    },
    n,
  );
  device.synchronize();
  device.close();
});
