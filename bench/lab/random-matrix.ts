// Matrices of noise in the encodings that benchmarks use. Speed does not depend on the values.

import { quantizeQ4, quantizeQ8 } from "../../src/core/dequantize/quantize.js";
import { f32ToBf16, f32ToF16 } from "../../src/core/dequantize/small-floats.js";
import { uniformAt } from "../../src/core/random.js";
import { bytesOf, type HostTensor } from "../../src/core/tensor.js";

export const MATRIX_TYPES = ["f32", "f16", "bf16", "q8_0", "q4_0"] as const;
export type MatrixType = (typeof MATRIX_TYPES)[number];

/** Blocks of q8_0 and q4_0 are 32 values. */
export function encodeValues(type: MatrixType, values: Float32Array): Uint8Array {
  switch (type) {
    case "f32":
      return new Uint8Array(values.buffer);
    case "f16":
      return new Uint8Array(Uint16Array.from(values, f32ToF16).buffer);
    case "bf16":
      return new Uint8Array(Uint16Array.from(values, f32ToBf16).buffer);
    case "q8_0":
      return quantizeQ8(values, 1, values.length);
    case "q4_0":
      return quantizeQ4(values, 1, values.length);
  }
}

export function noise(count: number, seed: number): Float32Array {
  return Float32Array.from({ length: count }, (_, i) => uniformAt(seed, 0, i) - 0.5);
}

const DISTINCT_ROWS = 16;

/** A matrix [rows, cols] whose rows repeat after sixteen. */
export function randomMatrix(type: MatrixType, rows: number, cols: number): HostTensor {
  const some = encodeValues(type, noise(DISTINCT_ROWS * cols, 1));
  const rowBytes = bytesOf(type, cols);
  const bytes = new Uint8Array(rows * rowBytes);
  for (let r = 0; r < rows; r++) {
    const from = (r % DISTINCT_ROWS) * rowBytes;
    bytes.set(some.subarray(from, from + rowBytes), r * rowBytes);
  }
  return { name: type, dtype: type, shape: [rows, cols], file: null, byteLength: bytes.length, bytes: () => bytes };
}
