// Seeded inputs for the contract: numbers, checkpoint tensors of every encoding, batches.

import { Batch } from "../../src/core/batch.js";
import { f32ToBf16, f32ToF16 } from "../../src/core/dequantize/small-floats.js";
import { BLOCK_OF, bytesOf, type HostTensor, type TensorDtype } from "../../src/core/tensor.js";
import type { Device, StagedBatch, Tensor } from "../../src/device/device.js";

/** The i-th number of a seeded series in [0, 1). */
export function uniform(seed: number, i: number): number {
  let h = Math.imul(seed + 1, 0x9e3779b1) ^ Math.imul(i + 1, 0x85ebca77);
  h = Math.imul(h ^ (h >>> 15), 0x2c1b3c6d);
  h = Math.imul(h ^ (h >>> 12), 0x297a2d39);
  return ((h ^ (h >>> 15)) >>> 0) / 2 ** 32;
}

/** `count` numbers in [-range, range), from the `first` of the series. */
export function numbers(count: number, seed: number, range = 2, first = 0): Float32Array {
  const found = new Float32Array(count);
  for (let i = 0; i < count; i++) found[i] = (2 * uniform(seed, first + i) - 1) * range;
  return found;
}

/** The rows [from, from + n) of a seeded matrix, as a tensor of its own. */
export function rowsOf(device: Device, from: number, n: number, cols: number, seed: number, range = 2): Tensor {
  return device.loadTensor(numbers(n * cols, seed, range, from * cols), n, cols);
}

/** The same in the middle of a wider tensor: a view whose rows are not contiguous. */
export function wideRowsOf(device: Device, from: number, n: number, cols: number, seed: number, pad = 5): Tensor {
  const narrow = numbers(n * cols, seed, 2, from * cols);
  const wide = numbers(n * (cols + 2 * pad), seed + 1);
  for (let r = 0; r < n; r++) wide.set(narrow.subarray(r * cols, (r + 1) * cols), r * (cols + 2 * pad) + pad);
  return device.loadTensor(wide, n, cols + 2 * pad).columns(pad, pad + cols);
}

/** Where the blocks of each encoding keep their f16 factors, and factors that make numbers of about one. */
const FACTORS: Partial<Record<TensorDtype, { readonly at: readonly number[]; readonly size: number }>> = {
  q8_0: { at: [0], size: 0.01 },
  q4_0: { at: [0], size: 0.1 },
  q4_1: { at: [0, 2], size: 0.1 },
  q5_0: { at: [0], size: 0.06 },
  q5_1: { at: [0, 2], size: 0.03 },
  q2_k: { at: [80, 82], size: 0.02 },
  q3_k: { at: [108], size: 0.008 },
  q4_k: { at: [0, 2], size: 0.001 },
  q5_k: { at: [0, 2], size: 0.0005 },
  q6_k: { at: [208], size: 0.0003 },
  iq4_nl: { at: [0], size: 0.008 },
  iq4_xs: { at: [0], size: 0.0003 },
  iq2_xxs: { at: [0], size: 0.006 },
  iq2_xs: { at: [0], size: 0.006 },
  iq2_s: { at: [0], size: 0.006 },
  iq3_xxs: { at: [0], size: 0.002 },
  iq3_s: { at: [0], size: 0.002 },
  iq1_s: { at: [0], size: 0.06 },
  tq1_0: { at: [52], size: 1 },
  tq2_0: { at: [64], size: 1 },
  q1_0: { at: [0], size: 1 },
  q2_0: { at: [0], size: 0.5 },
};

/** Weight encodings that a device loads. */
export const FLOAT_DTYPES: readonly TensorDtype[] = ["f32", "f16", "bf16", "f8_e4m3", "f8_e5m2"];
export const BLOCK_DTYPES = Object.keys(BLOCK_OF).filter((d) => BLOCK_OF[d as TensorDtype][0] > 1) as TensorDtype[];

export function hostTensor(name: string, dtype: TensorDtype, shape: readonly number[], bytes: Uint8Array): HostTensor {
  return { name, dtype, shape, file: null, byteLength: bytes.length, bytes: () => bytes };
}

/** A matrix [rows, cols] of random numbers that the encoding can hold, a few of them zero. */
export function randomWeight(dtype: TensorDtype, rows: number, cols: number, seed: number): HostTensor {
  const bytes = new Uint8Array(bytesOf(dtype, rows * cols));
  const view = new DataView(bytes.buffer);
  const [, blockBytes] = BLOCK_OF[dtype];
  for (let i = 0; i < bytes.length; i++) bytes[i] = uniform(seed, i) * 256;
  for (let block = 0; block * blockBytes < bytes.length; block++) {
    const at = block * blockBytes;
    const u = uniform(seed + 1, block);
    const value = u < 0.02 ? 0 : 2 * u - 1;
    if (dtype === "f32") view.setFloat32(at, value, true);
    else if (dtype === "f16") view.setUint16(at, f32ToF16(value), true);
    else if (dtype === "bf16") view.setUint16(at, f32ToBf16(value), true);
    else if (dtype === "f8_e4m3" || dtype === "f8_e5m2")
      bytes[at]! &= 0xbf; // below the exponents of large numbers, infinities and NaN
    else if (dtype === "f8_e4m3_64") {
      view.setFloat32(at, 0.005 * value, true);
      for (let i = at + 4; i < at + blockBytes; i++) if ((bytes[i]! & 0x7f) === 0x7f) bytes[i]! -= 1; // no NaN
    } else if (dtype === "mxfp4") bytes[at] = 121 + Math.floor(6 * u);
    else if (dtype === "nvfp4") for (let i = 0; i < 4; i++) bytes[at + i]! &= 0x2f;
    else if (dtype === "iq1_m") scatterHalf(bytes, at + 49, f32ToF16(0.06 * value));
    const factors = FACTORS[dtype];
    for (const offset of factors?.at ?? []) view.setUint16(at + offset, f32ToF16(factors!.size * value), true);
  }
  return hostTensor(`${dtype}-${seed}`, dtype, [rows, cols], bytes);
}

/** iq1_m keeps its factor as the upper nibbles of four words. */
function scatterHalf(bytes: Uint8Array, at: number, half: number): void {
  for (let i = 0; i < 4; i++) bytes[at + 2 * i] = (bytes[at + 2 * i]! & 15) | (((half >> (4 * i)) & 15) << 4);
}

/** A batch of fresh sequences of these lengths, staged without plans; token ids below `vocab`, the last token of each wants logits. */
export function stageTokens(
  device: Device,
  lengths: readonly number[],
  vocab: number,
  start = 0,
  second?: number,
): StagedBatch {
  const pageSize = 4;
  const total = lengths.reduce((sum, length) => sum + length, 0);
  const batch = new Batch(pageSize, total);
  let firstPage = 1;
  lengths.forEach((length, r) => {
    const numPages = Math.ceil((start + length) / pageSize);
    const pages = Int32Array.from({ length: numPages }, (_, i) => firstPage + i);
    const tokens = new Int32Array(start + length);
    for (let i = start; i < start + length; i++) tokens[i] = uniform(r, i) * vocab;
    batch.addRow(tokens, start, length, pages, start + length - 1);
    if (second !== undefined) batch.setTokenType(second - r);
    firstPage += numPages;
  });
  const staged = device.createStagedBatch(total);
  device.stage(staged, batch, []);
  return staged;
}
