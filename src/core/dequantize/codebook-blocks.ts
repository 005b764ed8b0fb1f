// Block formats whose codes index a table of values instead of being numbers: iq4_nl, iq4_xs, mxfp4, iq2_xxs.

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

function decodeLevels(
  bytes: Uint8Array,
  at: number,
  out: Float32Array,
  to: number,
  scale: number,
  levels: Int8Array | Float32Array,
): void {
  for (let i = 0; i < 16; i++) {
    const pair = bytes[at + i]!;
    out[to + i] = scale * levels[pair & 15]!;
    out[to + 16 + i] = scale * levels[pair >> 4]!;
  }
}

/**
 * [d | 8 groups of 8 bytes]; a group of 32 elements is 4 bytes, each the number of a grid point of 8 magnitudes, and a word:
 * 7 sign bits for each of the 4 points (the 8th makes the number of minus signs even) and a 4-bit scale on top.
 * Value: d * (scale + 1/2) / 4 * +-magnitude.
 */
export function decodeIq2Xxs(bytes: Uint8Array, out: Float32Array, numBlocks: number): void {
  for (let block = 0; block < numBlocks; block++) {
    const at = block * 66;
    const d = f16At(bytes, at);
    for (let group = 0; group < 8; group++) {
      const from = at + 2 + 8 * group;
      const word = bytes[from + 4]! | (bytes[from + 5]! << 8) | (bytes[from + 6]! << 16) | (bytes[from + 7]! << 24);
      const scale = (d * ((word >>> 28) + 0.5)) / 4;
      for (let point = 0; point < 4; point++) {
        const magnitudes = bytes[from + point]! * 8;
        const signs = evenSigns((word >>> (7 * point)) & 127);
        const to = block * 256 + group * 32 + point * 8;
        for (let i = 0; i < 8; i++) {
          const magnitude = IQ2_GRID[magnitudes + i]!;
          out[to + i] = (signs >> i) & 1 ? -scale * magnitude : scale * magnitude;
        }
      }
    }
  }
}

/** 7 sign bits, plus an 8th that makes the number of ones even. */
function evenSigns(seven: number): number {
  let parity = seven ^ (seven >> 4);
  parity ^= parity >> 2;
  parity ^= parity >> 1;
  return seven | ((parity & 1) << 7);
}

/** The grid of iq2_xxs [256 points, 8 magnitudes]: each point is 8 base-4 digits, lowest first, of {8, 25, 43}. */
export const IQ2_GRID = iq2Grid();

function iq2Grid(): Uint8Array {
  const points = Buffer.from(
    "AAACAAUACAAKABEAFAAgACIAKAAqAEEARABQAFgAYQBkAIAAggCKAKIAAQEEARABFQFAAYQBmAEAAgICIgKCAgEEBAQQBCEEJARABEIE" +
      "SARgBIEEhASQBKQEAAUCBQgFIAVGBWkFgAWRBQkGEAZABoQGpAYACAUICAgUCCgIQQhECFAIUgiICAQJQAkCChQKARAEEBAQIRBAEGAQ" +
      "hBCQEJUQABEIESARUBFaEYARJBJFEgAUCBQgFCUUSRSAFBgVYhUAFhYWARgEGBAYQBiBGAAZBRmgGVEaACACIAogRCBhIIAggiApIUgh" +
      "ACICIgEkBCQQJEAkViQAJUElZCWQJggoICiUKEQqAUAEQBBAGEAhQCRAQEBIQFZAYECBQIRAkEAAQSBBYUGAQYVBAUIQQkhCVkJoQgBE" +
      "CEQgRIBEmUQSRSRFAEYBSARIEEhASEVIAElYSWFJgklFSpBKAFAIUBFQGVAgUIBQiFAEUUJRpFGRUpBUklQKVQFWVFYAWBFYGVhkWEBZ" +
      "CFoEYBBgQGBoYABhVWEYYmBiAGQFZBBlEmWEZUJoAIACgAqAQYCCgASBGIFAgRGCAYQEhBCEFYRAhGCEAIVGhZSFCYZAhmCGAogEiRGK" +
      "BJAQkCSQQJChkBaRgJFFkgCUIpRElFGVgZggmQKgUKCFoAmhAKIYpFCoBKk=",
    "base64",
  );
  const magnitudes = [8, 25, 43];
  const grid = new Uint8Array(256 * 8);
  for (let i = 0; i < grid.length; i++) {
    const point = points.readUInt16LE((i >> 3) * 2);
    grid[i] = magnitudes[(point >> (2 * (i & 7))) & 3]!;
  }
  return grid;
}
