// The 32-element block formats with one linear scale: q8_0, q4_0, q4_1, q5_0, q5_1. d and m are f16.
// Nibble formats hold elements 0..15 in the low nibbles of their 16 bytes and 16..31 in the high ones.

import { f16At } from "./small-floats.js";

/** [d | 32 x i8]: d * q. */
export function decodeQ8_0(bytes: Uint8Array, out: Float32Array, numBlocks: number): void {
  for (let block = 0; block < numBlocks; block++) {
    const at = block * 34;
    const d = f16At(bytes, at);
    for (let i = 0; i < 32; i++) out[block * 32 + i] = d * ((bytes[at + 2 + i]! << 24) >> 24);
  }
}

/** [d | 16 nibble pairs]: d * (q - 8). */
export function decodeQ4_0(bytes: Uint8Array, out: Float32Array, numBlocks: number): void {
  for (let block = 0; block < numBlocks; block++) {
    const at = block * 18;
    const to = block * 32;
    const d = f16At(bytes, at);
    for (let i = 0; i < 16; i++) {
      const pair = bytes[at + 2 + i]!;
      out[to + i] = d * ((pair & 15) - 8);
      out[to + 16 + i] = d * ((pair >> 4) - 8);
    }
  }
}

/** [d | m | 16 nibble pairs]: d * q + m. */
export function decodeQ4_1(bytes: Uint8Array, out: Float32Array, numBlocks: number): void {
  for (let block = 0; block < numBlocks; block++) {
    const at = block * 20;
    const to = block * 32;
    const d = f16At(bytes, at);
    const m = f16At(bytes, at + 2);
    for (let i = 0; i < 16; i++) {
      const pair = bytes[at + 4 + i]!;
      out[to + i] = d * (pair & 15) + m;
      out[to + 16 + i] = d * (pair >> 4) + m;
    }
  }
}

/** [d | 32 fifth bits | 16 nibble pairs]: d * (q - 16). */
export function decodeQ5_0(bytes: Uint8Array, out: Float32Array, numBlocks: number): void {
  for (let block = 0; block < numBlocks; block++) {
    const at = block * 22;
    const to = block * 32;
    const d = f16At(bytes, at);
    const high = word(bytes, at + 2);
    for (let i = 0; i < 16; i++) {
      const pair = bytes[at + 6 + i]!;
      out[to + i] = d * (((pair & 15) | (((high >>> i) & 1) << 4)) - 16);
      out[to + 16 + i] = d * (((pair >> 4) | (((high >>> (i + 16)) & 1) << 4)) - 16);
    }
  }
}

/** [d | m | 32 fifth bits | 16 nibble pairs]: d * q + m. */
export function decodeQ5_1(bytes: Uint8Array, out: Float32Array, numBlocks: number): void {
  for (let block = 0; block < numBlocks; block++) {
    const at = block * 24;
    const to = block * 32;
    const d = f16At(bytes, at);
    const m = f16At(bytes, at + 2);
    const high = word(bytes, at + 4);
    for (let i = 0; i < 16; i++) {
      const pair = bytes[at + 8 + i]!;
      out[to + i] = d * ((pair & 15) | (((high >>> i) & 1) << 4)) + m;
      out[to + 16 + i] = d * ((pair >> 4) | (((high >>> (i + 16)) & 1) << 4)) + m;
    }
  }
}

function word(bytes: Uint8Array, at: number): number {
  return bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24);
}
