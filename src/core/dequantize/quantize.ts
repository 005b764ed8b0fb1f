// f32 matrices to q8_0 and q4_0 blocks: what --quantize means, and the oracle of the native quantiser. Arithmetic is f32 step
// by step, as in the reference quantiser of these formats, so that a native one can agree to the bit.

import { f32ToF16 } from "./small-floats.js";

const fround = Math.fround;
const BLOCK = 32;

/** values [rows, cols] -> q8_0 blocks; cols must be a multiple of 32. d = absmax / 127, q = round(x / d). */
export function quantizeQ8(values: Float32Array, rows: number, cols: number): Uint8Array {
  const numBlocks = blocksOf(values, rows, cols);
  const out = new Uint8Array(numBlocks * 34);
  for (let block = 0; block < numBlocks; block++) {
    const from = block * BLOCK;
    let max = 0;
    for (let i = 0; i < BLOCK; i++) max = Math.max(max, Math.abs(values[from + i]!));
    const d = fround(max / 127);
    const inverse = d === 0 ? 0 : fround(1 / d);
    putHalf(out, block * 34, d);
    for (let i = 0; i < BLOCK; i++) out[block * 34 + 2 + i] = roundAway(fround(values[from + i]! * inverse));
  }
  return out;
}

/** values [rows, cols] -> q4_0 blocks; cols must be a multiple of 32. The largest value becomes code 0 (-8): d = it / -8. */
export function quantizeQ4(values: Float32Array, rows: number, cols: number): Uint8Array {
  const numBlocks = blocksOf(values, rows, cols);
  const out = new Uint8Array(numBlocks * 18);
  for (let block = 0; block < numBlocks; block++) {
    const from = block * BLOCK;
    let largest = 0; // with its sign
    for (let i = 0; i < BLOCK; i++) if (Math.abs(values[from + i]!) > Math.abs(largest)) largest = values[from + i]!;
    const d = fround(largest / -8);
    const inverse = d === 0 ? 0 : fround(1 / d);
    putHalf(out, block * 18, d);
    for (let i = 0; i < 16; i++) {
      const low = code4(values[from + i]!, inverse);
      const high = code4(values[from + 16 + i]!, inverse);
      out[block * 18 + 2 + i] = low | (high << 4);
    }
  }
  return out;
}

function code4(x: number, inverse: number): number {
  return Math.min(15, Math.trunc(fround(fround(x * inverse) + 8.5)));
}

/** To the nearest integer, halves away from zero. */
function roundAway(x: number): number {
  return x < 0 ? -Math.floor(0.5 - x) : Math.floor(x + 0.5);
}

function blocksOf(values: Float32Array, rows: number, cols: number): number {
  if (cols % BLOCK !== 0) throw new RangeError(`${cols} columns are not whole blocks of ${BLOCK}`);
  if (values.length < rows * cols) throw new RangeError(`${values.length} values are fewer than ${rows} x ${cols}`);
  return (rows * cols) / BLOCK;
}

function putHalf(out: Uint8Array, at: number, value: number): void {
  const code = f32ToF16(value);
  out[at] = code & 255;
  out[at + 1] = code >> 8;
}
