// A matrix of small integers with a scale and a zero point per group, w = scale * (code - zero), as a tensor a device can load.
//
// Blocks of 32 codes along a row become, keeping 4-bit weights 4-bit and 8-bit weights 8-bit,
//   q4_0   d * (q - 8)    zero is 8 everywhere: nothing is lost
//   q4_1   d * q + m      any other zero: m = -scale * zero is rounded to f16, by less than 0.4 % of a step
//   q8_0   d * q          zero is 128 everywhere: nothing is lost
// Groups that are not whole blocks in the order of the columns become f16 values. Scales are f16 in nearly all checkpoints; wider
// ones are rounded to it, by at most 2^-12 of the matrix's largest, and where f16 cannot do that the values become f32.

import { f16ToF32, f32ToF16 } from "../../core/dequantize/small-floats.js";
import { bytesOf, type HostTensor, type TensorDtype } from "../../core/tensor.js";

const BLOCK = 32;

export interface IntMatrix {
  readonly rows: number; // outputs
  readonly cols: number; // inputs
  readonly bits: 4 | 8;
  /** Columns of a group, when groups follow each other; null: see groupOf. */
  readonly groupSize: number | null;
  /** Reads scales and zeros; the codes when they are asked for. */
  open(): IntValues;
}

export interface IntValues {
  /** Writes the codes of 32 columns of a row, from 32 * block on. What is behind its end is anything. */
  readCodes(codes: Uint8Array, row: number, block: number): void;
  /** Scale and zero by row and group: [row * rowStride + group * groupStride]. */
  readonly scales: Float32Array;
  readonly zeros: Uint8Array | null; // null: all in the middle, 8 or 128
  readonly rowStride: number;
  readonly groupStride: number;
  /** Group of each column. */
  readonly groupOf: (col: number) => number;
}

export function intTensor(name: string, matrix: IntMatrix): HostTensor {
  return new IntTensor(name, matrix);
}

/** Which encoding fits is known once scales and zeros have been read; they are a hundredth of the matrix. */
class IntTensor implements HostTensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly file = null;
  readonly #matrix: IntMatrix;
  #dtype: TensorDtype | null = null;

  constructor(name: string, matrix: IntMatrix) {
    this.name = name;
    this.shape = [matrix.rows, matrix.cols];
    this.#matrix = matrix;
  }

  get dtype(): TensorDtype {
    this.#dtype ??= encodingOf(this.#matrix, this.#matrix.open());
    return this.#dtype;
  }

  get byteLength(): number {
    return bytesOf(this.dtype, this.#matrix.rows * this.#matrix.cols);
  }

  bytes(): Uint8Array {
    const values = this.#matrix.open();
    this.#dtype ??= encodingOf(this.#matrix, values);
    if (this.#dtype !== "f16" && this.#dtype !== "f32") return toBlocks(this.#matrix, values, this.#dtype);
    const decoded = toValues(this.#matrix, values);
    return new Uint8Array((this.#dtype === "f32" ? decoded : Uint16Array.from(decoded, f32ToF16)).buffer);
  }
}

function encodingOf({ cols, bits, groupSize }: IntMatrix, { scales, zeros }: IntValues): TensorDtype {
  const tolerance = scales.reduce((max, scale) => Math.max(max, Math.abs(scale)), 0) * 2 ** -12;
  if (!scales.every((scale) => Math.abs(f16ToF32(f32ToF16(scale)) - scale) <= tolerance)) return "f32";
  if (groupSize === null || cols % BLOCK !== 0 || (groupSize % BLOCK !== 0 && groupSize < cols)) return "f16";
  const middle = 1 << (bits - 1);
  const isCentered = zeros === null || zeros.every((zero) => zero === middle);
  if (bits === 8) return isCentered ? "q8_0" : "f16";
  return isCentered ? "q4_0" : "q4_1";
}

function toBlocks({ rows, cols }: IntMatrix, values: IntValues, dtype: TensorDtype): Uint8Array {
  const { scales, zeros, rowStride, groupStride } = values;
  const blockBytes = bytesOf(dtype, BLOCK);
  const numBlocks = cols / BLOCK;
  const out = new Uint8Array(rows * numBlocks * blockBytes);
  const codes = new Uint8Array(BLOCK);
  let at = 0;
  for (let row = 0; row < rows; row++) {
    for (let block = 0; block < numBlocks; block++) {
      const group = row * rowStride + values.groupOf(block * BLOCK) * groupStride;
      const scale = scales[group]!;
      values.readCodes(codes, row, block);
      at = putHalf(out, at, scale);
      if (dtype === "q8_0") {
        for (let i = 0; i < BLOCK; i++) out[at++] = codes[i]! ^ 128; // less 128, as a byte
        continue;
      }
      if (dtype === "q4_1") at = putHalf(out, at, -scale * zeros![group]!);
      for (let i = 0; i < 16; i++) out[at++] = codes[i]! | (codes[i + 16]! << 4);
    }
  }
  return out;
}

function toValues({ rows, cols, bits }: IntMatrix, values: IntValues): Float32Array {
  const { scales, zeros, rowStride, groupStride, groupOf } = values;
  const middle = 1 << (bits - 1);
  const out = new Float32Array(rows * cols);
  const codes = new Uint8Array(BLOCK);
  for (let row = 0; row < rows; row++) {
    for (let col = 0; col < cols; col++) {
      if (col % BLOCK === 0) values.readCodes(codes, row, col / BLOCK);
      const group = row * rowStride + groupOf(col) * groupStride;
      out[row * cols + col] = scales[group]! * (codes[col % BLOCK]! - (zeros?.[group] ?? middle));
    }
  }
  return out;
}

function putHalf(out: Uint8Array, at: number, value: number): number {
  const code = f32ToF16(value);
  out[at] = code & 255;
  out[at + 1] = code >> 8;
  return at + 2;
}
