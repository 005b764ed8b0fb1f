// The CUDA device under the contract, where there is a GPU.

import assert from "node:assert/strict";
import { test } from "node:test";
import { toFloat32 } from "../../src/core/dequantize/dequantize.js";
import { bf16ToF32, f32ToBf16 } from "../../src/core/dequantize/small-floats.js";
import { canPart, TILES, tiles } from "../../src/device/cuda/matmul.js";
import type { CudaRuntime } from "../../src/device/cuda/runtime.js";
import type { CudaTensor, CudaWeight } from "../../src/device/cuda/tensor.js";
import { CUDA_TOLERANCE, openCuda } from "../support/cuda.js";
import { runDeviceContract } from "./device.js";
import { assertSameBits, readAll } from "./duel.js";
import { randomWeight, rowsOf, stageTokens, uniform } from "./inputs.js";

const { device, reason } = await openCuda();
device?.close();
if (device === null) test("device contract: cuda", { skip: reason });
else
  runDeviceContract({
    name: "cuda",
    make: async () => (await openCuda()).device!,
    tolerance: CUDA_TOLERANCE,
  });

test("every form of the tile kernel gives the bits that few rows at a time have", { skip: reason }, async () => {
  const { device } = await openCuda();
  const runtime = (device as unknown as { runtime: CudaRuntime }).runtime;
  const [rows, cols, n] = [150, 704, 250];
  try {
    for (const dtype of runtime.isHopper ? (["bf16", "q4_0", "f8_e4m3_64"] as const) : []) {
      const weight = device!.loadWeight([randomWeight(dtype, rows, cols, 1)]) as CudaWeight;
      const x = rowsOf(device!, 0, n, cols, 2);
      const few = new Float32Array(n * rows);
      for (let first = 0; first < n; first += 25) {
        const out = device!.allocTensor(25, rows);
        device!.matmul(out, rowsOf(device!, first, 25, cols, 2), weight, 25);
        few.set(await readAll(device!, out), first * rows);
      }
      const choices = TILES.filter(({ tokens }) => tokens < 256).flatMap((form) =>
        [false, true].map((isSideBySide) => ({ form, isSideBySide })),
      );
      for (const choice of choices.filter(({ form, isSideBySide }) => !isSideBySide || canPart(form, weight, n))) {
        const { form, isSideBySide } = choice;
        const out = device!.allocTensor(n, rows) as CudaTensor;
        const operand = runtime.operandOf(x as CudaTensor, n, weight.kind);
        tiles(runtime, out, operand, weight, n, { bias: 0, scale: 1, accumulate: false, gate: -1 }, choice);
        const name = `${dtype}, ${form.tokens} tokens, ${form.groups} groups, chains side by side: ${isSideBySide}`;
        assertSameBits(await readAll(device!, out), few, name);
      }
    }
  } finally {
    device!.close();
  }
});

test("FP8 weights are the products rounded to bf16: exactly where scales are bf16, else all but a few", {
  skip: reason,
}, async () => {
  const device = (await openCuda()).device!;
  const [rows, cols, n] = [48, 256, 40];
  try {
    for (const isRounded of [true, false]) {
      const table = randomWeight("f8_e4m3_64", rows, cols, 5);
      const view = new DataView(table.bytes().buffer);
      for (let at = 0; isRounded && at < view.byteLength; at += 68)
        view.setFloat32(at, bf16ToF32(f32ToBf16(view.getFloat32(at, true))), true);
      const out = device.allocTensor(n, cols);
      device.embed(out, device.loadWeight([table]), stageTokens(device, [n], rows), 1);
      const found = await readAll(device, out);
      const values = toFloat32(table);
      let others = 0;
      for (let i = 0; i < n; i++) {
        const row = Math.floor(uniform(0, i) * rows);
        for (let c = 0; c < cols; c++) {
          const [value, expected] = [found[i * cols + c]!, values[row * cols + c]!];
          if (value !== expected) others++;
          assert.ok(Math.abs(value - expected) <= Math.abs(expected) / 128, `[${row}, ${c}]: ${value} for ${expected}`);
        }
      }
      assert.ok(isRounded ? others === 0 : others < (n * cols) / 200, `${others} of ${n * cols} differ`);
    }
    const large = randomWeight("f8_e4m3_64", 1, 64, 5);
    new DataView(large.bytes().buffer).setFloat32(0, 300, true);
    assert.throws(() => device.loadWeight([large]), /expected scales below 256, found 300/);
  } finally {
    device.close();
  }
});
