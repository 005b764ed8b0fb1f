// Kernels for many rows, where there is a GPU or its emulator: the bits of those for few.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import type { Tensor } from "../../src/device/device.js";
import { numbers } from "../contract/inputs.js";
import { openCuda } from "../support/cuda.js";

const { device, reason } = await openCuda();
after(() => device?.close());

const ROWS = 260;
const COLS = 72;

function valuesOf(x: Tensor, n: number): Float32Array {
  const out = new Float32Array(n * x.cols);
  device!.read(out, x, 0, n);
  return out;
}

for (const activation of ["gelu", "gelu_tanh", "silu"] as const) {
  test(`${activation} of many rows has the bits of few`, { skip: reason }, () => {
    const x = device!.loadTensor(numbers(ROWS * COLS, 3, 4), ROWS, COLS);
    const [many, few] = [device!.allocTensor(ROWS, COLS), device!.allocTensor(ROWS, COLS)];
    const op = device!.createMap({ kind: "activation", activation });
    device!.map(many, op, x, null, ROWS);
    device!.map(few, op, x, null, ROWS / 2);
    assert.deepEqual(valuesOf(many, ROWS / 2), valuesOf(few, ROWS / 2));
  });
}

test("layer norms of aligned rows and of others agree", { skip: reason }, () => {
  const values = numbers(8 * 70, 5, 2).map((value) => value + 3);
  const [weights, biases] = [numbers(70, 6), numbers(70, 7)];
  const [weight, bias] = [device!.loadTensor(weights, 1, 70), device!.loadTensor(biases, 1, 70)];
  const short = device!.allocTensor(8, 68);
  device!.layerNorm(
    short,
    device!.loadTensor(values, 8, 70).columns(0, 68),
    weight.columns(0, 68),
    bias.columns(0, 68),
    1e-6,
    8,
  );
  const own = valuesOf(short, 8);
  for (let r = 0; r < 8; r++) {
    const row = Array.from(values.subarray(r * 70, r * 70 + 68));
    const mean = row.reduce((sum, value) => sum + value, 0) / 68;
    const variance = row.reduce((sum, value) => sum + (value - mean) ** 2, 0) / 68;
    for (let c = 0; c < 68; c++) {
      const expected = ((row[c]! - mean) / Math.sqrt(variance + 1e-6)) * weights[c]! + biases[c]!;
      assert.ok(Math.abs(own[r * 68 + c]! - expected) < 1e-5, `row ${r}, column ${c}`);
    }
  }
});
