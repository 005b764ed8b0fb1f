// Any checkpoint encoding to f32: plain, obvious decoders, the oracle of the native ones. Not on the step path.

import { BLOCK_OF, bytesOf, type HostTensor, type TensorDtype } from "../tensor.js";
import { decodeIq4Nl, decodeIq4Xs, decodeMxfp4 } from "./codebook-blocks.js";
import { decodeNvfp4, decodeQ1_0, decodeQ2_0, decodeTq1_0, decodeTq2_0 } from "./few-level-blocks.js";
import {
  decodeIq1M,
  decodeIq1S,
  decodeIq2S,
  decodeIq2Xs,
  decodeIq2Xxs,
  decodeIq3S,
  decodeIq3Xxs,
} from "./grid-blocks.js";
import { decodeQ2_K, decodeQ3_K, decodeQ4_K, decodeQ5_K, decodeQ6_K } from "./k-blocks.js";
import { decodeQ4_0, decodeQ4_1, decodeQ5_0, decodeQ5_1, decodeQ8_0 } from "./plain-blocks.js";
import { bf16ToF32, F8_E4M3_VALUES, F8_E5M2_VALUES, F16_VALUES, f32ToBf16 } from "./small-floats.js";

/** Decodes `numBlocks` whole blocks from the start of `bytes` to the start of `out`. */
type Decoder = (bytes: Uint8Array, out: Float32Array, numBlocks: number) => void;

const DECODERS: Readonly<Record<TensorDtype, Decoder>> = {
  f32: (bytes, out, n) => new Uint8Array(out.buffer, out.byteOffset, n * 4).set(bytes.subarray(0, n * 4)),
  f16: (bytes, out, n) => {
    for (let i = 0; i < n; i++) out[i] = F16_VALUES[bytes[2 * i]! | (bytes[2 * i + 1]! << 8)]!;
  },
  bf16: (bytes, out, n) => {
    const bits = new Uint32Array(out.buffer, out.byteOffset, n); // bf16 is the upper half of f32
    for (let i = 0; i < n; i++) bits[i] = (bytes[2 * i]! << 16) | (bytes[2 * i + 1]! << 24);
  },
  f8_e4m3: (bytes, out, n) => {
    for (let i = 0; i < n; i++) out[i] = F8_E4M3_VALUES[bytes[i]!]!;
  },
  f8_e5m2: (bytes, out, n) => {
    for (let i = 0; i < n; i++) out[i] = F8_E5M2_VALUES[bytes[i]!]!;
  },
  f8_e4m3_64: (bytes, out, n) => {
    const view = viewOf(bytes);
    for (let block = 0; block < n; block++) {
      const scale = view.getFloat32(68 * block, true);
      for (let i = 0; i < 64; i++) {
        const product = Math.fround(scale * F8_E4M3_VALUES[bytes[68 * block + 4 + i]!]!);
        out[64 * block + i] = bf16ToF32(f32ToBf16(product));
      }
    }
  },
  u8: (bytes, out, n) => {
    for (let i = 0; i < n; i++) out[i] = bytes[i]!;
  },
  i8: (bytes, out, n) => {
    for (let i = 0; i < n; i++) out[i] = (bytes[i]! << 24) >> 24;
  },
  i32: (bytes, out, n) => {
    const view = viewOf(bytes);
    for (let i = 0; i < n; i++) out[i] = view.getInt32(4 * i, true);
  },
  i64: (bytes, out, n) => {
    const view = viewOf(bytes);
    for (let i = 0; i < n; i++) out[i] = view.getInt32(8 * i + 4, true) * 2 ** 32 + view.getUint32(8 * i, true);
  },
  q8_0: decodeQ8_0,
  q4_0: decodeQ4_0,
  q4_1: decodeQ4_1,
  q5_0: decodeQ5_0,
  q5_1: decodeQ5_1,
  q2_k: decodeQ2_K,
  q3_k: decodeQ3_K,
  q4_k: decodeQ4_K,
  q5_k: decodeQ5_K,
  q6_k: decodeQ6_K,
  iq4_nl: decodeIq4Nl,
  iq4_xs: decodeIq4Xs,
  iq1_s: decodeIq1S,
  iq1_m: decodeIq1M,
  iq2_xxs: decodeIq2Xxs,
  iq2_xs: decodeIq2Xs,
  iq2_s: decodeIq2S,
  iq3_xxs: decodeIq3Xxs,
  iq3_s: decodeIq3S,
  tq1_0: decodeTq1_0,
  tq2_0: decodeTq2_0,
  q1_0: decodeQ1_0,
  q2_0: decodeQ2_0,
  mxfp4: decodeMxfp4,
  nvfp4: decodeNvfp4,
};

/** Decodes `count` elements (a whole number of blocks) from the start of `bytes` to the start of `out`. */
export function dequantize(dtype: TensorDtype, bytes: Uint8Array, out: Float32Array, count: number): void {
  const [elements] = BLOCK_OF[dtype];
  if (count % elements !== 0) throw new RangeError(`${count} elements are not whole blocks of ${elements} (${dtype})`);
  if (bytes.length < bytesOf(dtype, count) || out.length < count) {
    throw new RangeError(`${count} elements of ${dtype} do not fit in ${bytes.length} bytes and ${out.length} outputs`);
  }
  DECODERS[dtype](bytes, out, count / elements);
}

/** All values of a tensor, row-major, in a new array. */
export function toFloat32(tensor: HostTensor): Float32Array {
  const count = tensor.shape.reduce((product, dim) => product * dim, 1);
  const out = new Float32Array(count);
  dequantize(tensor.dtype, tensor.bytes(), out, count);
  return out;
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
