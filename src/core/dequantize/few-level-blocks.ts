// Block formats of two to four levels, and nvfp4: tq1_0, tq2_0, q1_0, q2_0.

import { decodeLevels, E2M1_VALUES } from "./codebook-blocks.js";
import { f16At } from "./small-floats.js";

/**
 * [48 bytes of 5 ternary digits | 4 bytes of 4 | d], blocks of 256. A byte holds its digits as a fraction: times 3, the whole part
 * is the next digit. Digit n of bytes 0..31 is elements 32n.., of bytes 32..47 elements 160 + 16n.., of the last four 240 + 4n...
 */
export function decodeTq1_0(bytes: Uint8Array, out: Float32Array, numBlocks: number): void {
  const runs: readonly [from: number, size: number, numDigits: number, to: number][] = [
    [0, 32, 5, 0],
    [32, 16, 5, 160],
    [48, 4, 4, 240],
  ];
  for (let block = 0; block < numBlocks; block++) {
    const at = block * 54;
    const d = f16At(bytes, at + 52);
    for (const [from, size, numDigits, to] of runs) {
      for (let i = 0; i < size; i++) {
        let fraction = bytes[at + from + i]!;
        for (let digit = 0; digit < numDigits; digit++) {
          out[block * 256 + to + digit * size + i] = d * (((fraction * 3) >> 8) - 1);
          fraction = (fraction * 3) & 255;
        }
      }
    }
  }
}

/** [64 bytes of 4 ternary digits | d], blocks of 256: digit n of bytes 32k.. is elements 128k + 32n... */
export function decodeTq2_0(bytes: Uint8Array, out: Float32Array, numBlocks: number): void {
  for (let block = 0; block < numBlocks; block++) {
    const at = block * 66;
    const d = f16At(bytes, at + 64);
    for (let i = 0; i < 256; i++) {
      const byte = bytes[at + 32 * (i >> 7) + (i & 31)]!;
      out[block * 256 + i] = d * (((byte >> (2 * ((i >> 5) & 3))) & 3) - 1);
    }
  }
}

/** [d | 16 bytes of bits], blocks of 128: -d or d. */
export function decodeQ1_0(bytes: Uint8Array, out: Float32Array, numBlocks: number): void {
  for (let block = 0; block < numBlocks; block++) {
    const at = block * 18;
    const d = f16At(bytes, at);
    for (let i = 0; i < 128; i++) out[block * 128 + i] = (bytes[at + 2 + (i >> 3)]! >> (i & 7)) & 1 ? d : -d;
  }
}

/** [d | 16 bytes of bit pairs], blocks of 64: d * (pair - 1). */
export function decodeQ2_0(bytes: Uint8Array, out: Float32Array, numBlocks: number): void {
  for (let block = 0; block < numBlocks; block++) {
    const at = block * 18;
    const d = f16At(bytes, at);
    for (let i = 0; i < 64; i++) out[block * 64 + i] = d * (((bytes[at + 2 + (i >> 2)]! >> (2 * (i & 3))) & 3) - 1);
  }
}

/** [4 scales e4m3 without sign | 32 nibble pairs], blocks of 64 in groups of 16, low nibbles first: scale * e2m1. */
export function decodeNvfp4(bytes: Uint8Array, out: Float32Array, numBlocks: number): void {
  for (let block = 0; block < numBlocks; block++) {
    const at = block * 36;
    for (let group = 0; group < 4; group++) {
      const scale = ue4m3(bytes[at + group]!);
      decodeLevels(bytes, at + 4 + 8 * group, out, block * 64 + 16 * group, scale, E2M1_VALUES, 8);
    }
  }
}

/** An e4m3 without sign: where that has its NaN, zero. */
function ue4m3(byte: number): number {
  if (byte === 0x7f) return 0;
  const exponent = (byte >> 3) & 15;
  const mantissa = byte & 7;
  return exponent === 0 ? mantissa * 2 ** -9 : (1 + mantissa / 8) * 2 ** (exponent - 7);
}
