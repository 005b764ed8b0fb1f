// The 256-element "K" formats: a super-block carries f16 scales, and each group of 16 or 32 elements a small integer scale
// (and minimum) that multiplies them. Elements of one byte are 32 (or 64) apart, so that a vector load covers a group.

import { f16At } from "./small-floats.js";

/** [16 x (scale | min << 4) | 64 bytes of 2-bit q | d | dmin]; groups of 16: d * scale * q - dmin * min. */
export function decodeQ2_K(bytes: Uint8Array, out: Float32Array, numBlocks: number): void {
  for (let block = 0; block < numBlocks; block++) {
    const at = block * 84;
    const to = block * 256;
    const d = f16At(bytes, at + 80);
    const dmin = f16At(bytes, at + 82);
    for (let group = 0; group < 16; group++) {
      const scales = bytes[at + group]!;
      const scale = d * (scales & 15);
      const min = dmin * (scales >> 4);
      const from = at + 16 + 32 * (group >> 3) + 16 * (group & 1);
      const shift = 2 * ((group >> 1) & 3);
      for (let i = 0; i < 16; i++) out[to + group * 16 + i] = scale * ((bytes[from + i]! >> shift) & 3) - min;
    }
  }
}

/** [32 bytes of third bits | 64 bytes of 2-bit q | 12 bytes of 6-bit scales | d]; groups of 16: d * (scale - 32) * (q - 4). */
export function decodeQ3_K(bytes: Uint8Array, out: Float32Array, numBlocks: number): void {
  for (let block = 0; block < numBlocks; block++) {
    const at = block * 110;
    const to = block * 256;
    const d = f16At(bytes, at + 108);
    for (let group = 0; group < 16; group++) {
      // Low 4 bits of scale g: nibble (g >> 3) of byte g & 7; high 2 bits: pair (g >> 2) of byte 8 + (g & 3).
      const low = (bytes[at + 96 + (group & 7)]! >> (4 * (group >> 3))) & 15;
      const high = (bytes[at + 104 + (group & 3)]! >> (2 * (group >> 2))) & 3;
      const scale = d * ((low | (high << 4)) - 32);
      const from = at + 32 + 32 * (group >> 3) + 16 * (group & 1);
      const shift = 2 * ((group >> 1) & 3);
      const third = at + 16 * (group & 1);
      for (let i = 0; i < 16; i++) {
        const q = ((bytes[from + i]! >> shift) & 3) | (((bytes[third + i]! >> (group >> 1)) & 1) << 2);
        out[to + group * 16 + i] = scale * (q - 4);
      }
    }
  }
}

/** [d | dmin | 12 bytes of 6-bit scales and mins | 128 bytes of nibbles]; groups of 32: d * scale * q - dmin * min. */
export function decodeQ4_K(bytes: Uint8Array, out: Float32Array, numBlocks: number): void {
  for (let block = 0; block < numBlocks; block++) {
    const at = block * 144;
    const d = f16At(bytes, at);
    const dmin = f16At(bytes, at + 2);
    for (let group = 0; group < 8; group++) {
      const scale = d * packedScale(bytes, at + 4, group);
      const min = dmin * packedMin(bytes, at + 4, group);
      const from = at + 16 + 32 * (group >> 1);
      const shift = 4 * (group & 1);
      const to = block * 256 + group * 32;
      for (let i = 0; i < 32; i++) out[to + i] = scale * ((bytes[from + i]! >> shift) & 15) - min;
    }
  }
}

/** As q4_k, with 32 bytes of fifth bits before the nibbles: bit g of byte i belongs to element i of group g. */
export function decodeQ5_K(bytes: Uint8Array, out: Float32Array, numBlocks: number): void {
  for (let block = 0; block < numBlocks; block++) {
    const at = block * 176;
    const d = f16At(bytes, at);
    const dmin = f16At(bytes, at + 2);
    for (let group = 0; group < 8; group++) {
      const scale = d * packedScale(bytes, at + 4, group);
      const min = dmin * packedMin(bytes, at + 4, group);
      const fifth = at + 16;
      const from = at + 48 + 32 * (group >> 1);
      const shift = 4 * (group & 1);
      const to = block * 256 + group * 32;
      for (let i = 0; i < 32; i++) {
        const q = ((bytes[from + i]! >> shift) & 15) | (((bytes[fifth + i]! >> group) & 1) << 4);
        out[to + i] = scale * q - min;
      }
    }
  }
}

/** [128 bytes of low nibbles | 64 bytes of high pairs | 16 x i8 scale | d]; groups of 16: d * scale * (q - 32). */
export function decodeQ6_K(bytes: Uint8Array, out: Float32Array, numBlocks: number): void {
  for (let block = 0; block < numBlocks; block++) {
    const at = block * 210;
    const d = f16At(bytes, at + 208);
    for (let group = 0; group < 16; group++) {
      const scale = d * ((bytes[at + 192 + group]! << 24) >> 24);
      // Each half of 128 elements: 64 bytes of nibbles (low for its first 64), 32 bytes of pairs (one pair per 32).
      const part = group >> 3;
      const run = (group >> 1) & 3;
      const low = at + 64 * part + 32 * (run & 1) + 16 * (group & 1);
      const lowShift = 4 * (run >> 1);
      const high = at + 128 + 32 * part + 16 * (group & 1);
      const to = block * 256 + group * 16;
      for (let i = 0; i < 16; i++) {
        const q = ((bytes[low + i]! >> lowShift) & 15) | (((bytes[high + i]! >> (2 * run)) & 3) << 4);
        out[to + i] = scale * (q - 32);
      }
    }
  }
}

// The 12 bytes of q4_k and q5_k hold 8 scales and 8 mins of 6 bits: bytes 0..3 and 4..7 have those of groups 0..3 in their
// low 6 bits and, in their top 2 bits, the top 2 bits of those of groups 4..7, whose low nibbles are bytes 8..11.
function packedScale(bytes: Uint8Array, at: number, group: number): number {
  if (group < 4) return bytes[at + group]! & 63;
  return (bytes[at + group + 4]! & 15) | ((bytes[at + group - 4]! >> 6) << 4);
}

function packedMin(bytes: Uint8Array, at: number, group: number): number {
  if (group < 4) return bytes[at + group + 4]! & 63;
  return (bytes[at + group + 4]! >> 4) | ((bytes[at + group]! >> 6) << 4);
}
