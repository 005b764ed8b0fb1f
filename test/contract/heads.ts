// Heads with a matrix each: against the reference, the same bits for a row whichever rows come with it, and nothing written between heads.

import assert from "node:assert/strict";
import type { TensorDtype } from "../../src/core/tensor.js";
import type { Device, Tensor } from "../../src/device/device.js";
import type { Tolerance } from "./device.js";
import { type Duel, readAll } from "./duel.js";
import { BLOCK_DTYPES, numbers, randomWeight } from "./inputs.js";

interface Shape {
  readonly dtype: TensorDtype;
  readonly numHeads: number;
  readonly rows: number;
  readonly cols: number;
  /** Columns between heads that are none of theirs. */
  readonly gap?: number;
}

const SHAPES: readonly Shape[] = [
  { dtype: "f32", numHeads: 3, rows: 5, cols: 7, gap: 2 },
  { dtype: "bf16", numHeads: 2, rows: 70, cols: 130, gap: 3 },
  { dtype: "f16", numHeads: 5, rows: 16, cols: 64 },
  { dtype: "f8_e4m3_64", numHeads: 2, rows: 33, cols: 128 },
  { dtype: "q8_0", numHeads: 2, rows: 40, cols: 96, gap: 1 },
  { dtype: "q4_0", numHeads: 2, rows: 64, cols: 64 },
  { dtype: "q4_k", numHeads: 2, rows: 9, cols: 256 },
  { dtype: "mxfp4", numHeads: 1, rows: 32, cols: 64 },
];
const MOST = 41;
const UNTOUCHED = 7;

function multiply(device: Device, shape: Shape, from: number, n: number): Tensor {
  const { dtype, numHeads, rows, cols, gap = 0 } = shape;
  const matrices = Array.from({ length: numHeads }, (_, h) =>
    device.loadWeight([randomWeight(dtype, rows, cols, 5 + h)]),
  );
  const heads = device.bindHeads(matrices);
  const width = numHeads * (cols + gap);
  const x = device.loadTensor(numbers(n * width, 3, 2, from * width), n, width);
  const outWidth = numHeads * (rows + gap);
  const out = device.loadTensor(new Float32Array(n * outWidth).fill(UNTOUCHED), n, outWidth);
  device.headMatmul(out, x, heads, rows + gap, cols + gap, n);
  return out;
}

export function headContract(duel: Duel, tolerance: Tolerance): void {
  for (const shape of SHAPES) {
    const { dtype, numHeads, rows, cols, gap = 0 } = shape;
    const what = `${numHeads} heads of ${rows} x ${cols}, ${dtype}`;
    duel.test("headMatmul", what, async () => {
      const limit = BLOCK_DTYPES.includes(dtype) ? tolerance.integer : tolerance.float;
      for (const n of [1, 8, 9, MOST])
        await duel.compare(limit, (d) => multiply(d, shape, 0, n), `${n} rows`, Math.sqrt(cols) / 2);
      const all = await readAll(duel.device, multiply(duel.device, shape, 0, 3));
      all.forEach((value, i) => {
        if (i % (rows + gap) >= rows) assert.equal(value, UNTOUCHED, `column ${i % (numHeads * (rows + gap))}`);
      });
    });
    duel.test("headMatmul", `${what}: rows do not depend on their neighbours`, () =>
      duel.compareRows(MOST, (from, n) => multiply(duel.device, shape, from, n)),
    );
  }
}
