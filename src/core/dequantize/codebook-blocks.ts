// Block formats whose codes index a table of values instead of being numbers: iq4_nl, iq4_xs, mxfp4.

import { f16At } from "./small-floats.js";

/** The 16 levels of iq4_nl and iq4_xs. */
export const IQ4_LEVELS = Int8Array.of(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);

/** The 16 values of a 4-bit float e2m1: sign, 2 exponent bits, 1 mantissa bit. */
export const E2M1_VALUES = Float32Array.of(0, 0.5, 1, 1.5, 2, 3, 4, 6, -0, -0.5, -1, -1.5, -2, -3, -4, -6);

/** [d | 16 nibble pairs, low nibbles first]: d * level. */
export function decodeIq4Nl(bytes: Uint8Array, out: Float32Array, numBlocks: number): void {
  for (let block = 0; block < numBlocks; block++) {
    const at = block * 18;
    decodeLevels(bytes, at + 2, out, block * 32, f16At(bytes, at), IQ4_LEVELS);
  }
}

/** [d | u16 of high scale pairs | 4 bytes of low scale nibbles | 8 x 16 nibble pairs]; groups of 32: d * (scale - 32) * level. */
export function decodeIq4Xs(bytes: Uint8Array, out: Float32Array, numBlocks: number): void {
  for (let block = 0; block < numBlocks; block++) {
    const at = block * 136;
    const d = f16At(bytes, at);
    const high = bytes[at + 2]! | (bytes[at + 3]! << 8);
    for (let group = 0; group < 8; group++) {
      const low = (bytes[at + 4 + (group >> 1)]! >> (4 * (group & 1))) & 15;
      const scale = (low | (((high >> (2 * group)) & 3) << 4)) - 32;
      decodeLevels(bytes, at + 8 + 16 * group, out, block * 256 + 32 * group, d * scale, IQ4_LEVELS);
    }
  }
}

/** [power-of-two scale e | 16 nibble pairs, low nibbles first]: 2^(e - 127) * e2m1. */
export function decodeMxfp4(bytes: Uint8Array, out: Float32Array, numBlocks: number): void {
  for (let block = 0; block < numBlocks; block++) {
    const at = block * 17;
    decodeLevels(bytes, at + 1, out, block * 32, 2 ** (bytes[at]! - 127), E2M1_VALUES);
  }
}

/** `half` nibble pairs: the low nibbles, then the high ones. */
export function decodeLevels(
  bytes: Uint8Array,
  at: number,
  out: Float32Array,
  to: number,
  scale: number,
  levels: Int8Array | Float32Array,
  half = 16,
): void {
  for (let i = 0; i < half; i++) {
    const pair = bytes[at + i]!;
    out[to + i] = scale * levels[pair & 15]!;
    out[to + half + i] = scale * levels[pair >> 4]!;
  }
}
