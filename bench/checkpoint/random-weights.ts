// Random matrices without drawing every number: a pool of normal values is drawn and encoded once, and each row of a matrix is
// a slice of it at a drawn, block-aligned place. All encodings of one seed hold the same weights.

import { F16_VALUES, f32ToE4m3, f32ToF16 } from "../../src/core/dequantize/small-floats.js";
import { philox4x32 } from "../../src/core/random.js";
import { bytesOf } from "../../src/core/tensor.js";
import { encodeValues, type MatrixType } from "../lab/random-matrix.js";
import type { TensorSpec } from "./shapes.js";

const POOL = 2 ** 18;
const LONGEST_ROW = 2 ** 14;
const BLOCK = 32;
const STD = 0.02; // what such models are initialised with

/** FP8 codes are all under this scale: the largest draws are a little below 448 of it. */
export const FP8_SCALE = 2.5e-4;
/** Encodings of a matrix's rows. */
export type RowType = MatrixType | "f8_e4m3";

export class RandomWeights {
  readonly #seed: number;
  readonly #values: Float32Array; // [POOL + LONGEST_ROW] rounded to f16
  readonly #encoded = new Map<RowType, Uint8Array>();

  constructor(seed: number) {
    this.#seed = seed;
    this.#values = new Float32Array(POOL + LONGEST_ROW);
    const draw = new Uint32Array(4);
    for (let i = 0; i < this.#values.length; i += 2) {
      philox4x32(draw, i, 0, 0, 0, seed, 0);
      const radius = STD * Math.sqrt(-2 * Math.log((draw[0]! + 1) / 2 ** 32));
      const angle = (2 * Math.PI * draw[1]!) / 2 ** 32;
      this.#values[i] = F16_VALUES[f32ToF16(radius * Math.cos(angle))]!;
      this.#values[i + 1] = F16_VALUES[f32ToF16(radius * Math.sin(angle))]!;
    }
  }

  /** Calls `put` with the bytes of each row, in `order` (output row -> row of the matrix). Norms are ones. */
  rows(
    tensor: TensorSpec,
    index: number,
    type: RowType,
    put: (bytes: Uint8Array) => void,
    order: (row: number) => number,
  ): void {
    if (tensor.rows === 0) {
      put(encode(type, new Float32Array(tensor.cols).fill(1)));
      return;
    }
    const pool = this.#poolOf(type);
    const rowBytes = bytesOf(type, tensor.cols);
    const draw = new Uint32Array(4);
    for (let row = 0; row < tensor.rows; row++) {
      philox4x32(draw, order(row), index, 1, 0, this.#seed, 0);
      const start = bytesOf(type, (draw[0]! % (POOL / BLOCK)) * BLOCK);
      put(pool.subarray(start, start + rowBytes));
    }
  }

  #poolOf(type: RowType): Uint8Array {
    const made = this.#encoded.get(type) ?? encode(type, this.#values);
    this.#encoded.set(type, made);
    return made;
  }
}

function encode(type: RowType, values: Float32Array): Uint8Array {
  return type === "f8_e4m3" ? Uint8Array.from(values, (x) => f32ToE4m3(x / FP8_SCALE)) : encodeValues(type, values);
}
