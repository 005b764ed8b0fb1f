// Block formats whose codes name points of a grid, several elements at once: iq1_s, iq1_m, iq2_xxs, iq2_xs, iq2_s, iq3_xxs, iq3_s.
// All are blocks of 256 elements in 8 groups of 32.

import { iq1Grid, iq2SGrid, iq2XsGrid, iq2XxsGrid, iq3SGrid, iq3XxsGrid } from "./grids.js";
import { F16_VALUES, f16At } from "./small-floats.js";

const BLOCK = 256;
/** What iq1 types move their values by, up or down. */
const IQ1_SHIFT = 0.125;

const u16At = (bytes: Uint8Array, at: number): number => bytes[at]! | (bytes[at + 1]! << 8);
const u32At = (bytes: Uint8Array, at: number): number => (u16At(bytes, at) | (u16At(bytes, at + 2) << 16)) >>> 0;

/** 7 sign bits, plus an 8th that makes the number of ones even. */
function evenSigns(seven: number): number {
  let parity = seven ^ (seven >> 4);
  parity ^= parity >> 2;
  parity ^= parity >> 1;
  return seven | ((parity & 1) << 7);
}

/** `count` coordinates of a point, times +-scale by the sign bits from `firstSign` on. */
function putPoint(
  out: Float32Array,
  to: number,
  grid: Int8Array,
  point: number,
  count: number,
  scale: number,
  signs: number,
  firstSign = 0,
): void {
  for (let i = 0; i < count; i++) {
    const value = scale * grid[point * count + i]!;
    out[to + i] = (signs >> (firstSign + i)) & 1 ? -value : value;
  }
}

/**
 * [d | 8 groups of 8 bytes]; a group is 4 bytes, each a point of 8 magnitudes, and a word: 7 sign bits for each of the 4 points and
 * a 4-bit scale on top. Value: d * (scale + 1/2) / 4 * +-magnitude.
 */
export function decodeIq2Xxs(bytes: Uint8Array, out: Float32Array, numBlocks: number): void {
  const grid = iq2XxsGrid();
  for (let block = 0; block < numBlocks; block++) {
    const at = block * 66;
    const d = f16At(bytes, at);
    for (let group = 0; group < 8; group++) {
      const from = at + 2 + 8 * group;
      const word = u32At(bytes, from + 4);
      const scale = (d * ((word >>> 28) + 0.5)) / 4;
      for (let point = 0; point < 4; point++) {
        const signs = evenSigns((word >>> (7 * point)) & 127);
        putPoint(out, block * BLOCK + group * 32 + point * 8, grid, bytes[from + point]!, 8, scale, signs);
      }
    }
  }
}

/** [d | 32 words: 9 bits of a point, 7 of signs | 8 bytes of scales, one nibble for 16 elements]. Value as iq2_xxs. */
export function decodeIq2Xs(bytes: Uint8Array, out: Float32Array, numBlocks: number): void {
  const grid = iq2XsGrid();
  for (let block = 0; block < numBlocks; block++) {
    const at = block * 74;
    const d = f16At(bytes, at);
    for (let point = 0; point < 32; point++) {
      const word = u16At(bytes, at + 2 + 2 * point);
      const nibble = (bytes[at + 66 + (point >> 2)]! >> (4 * ((point >> 1) & 1))) & 15;
      const scale = (d * (nibble + 0.5)) / 4;
      putPoint(out, block * BLOCK + point * 8, grid, word & 511, 8, scale, evenSigns(word >> 9));
    }
  }
}

/** [d | 32 low bytes of points | 32 bytes of signs | 8 bytes of 2 high bits a point | scales as iq2_xs]. Value as iq2_xxs. */
export function decodeIq2S(bytes: Uint8Array, out: Float32Array, numBlocks: number): void {
  const grid = iq2SGrid();
  for (let block = 0; block < numBlocks; block++) {
    const at = block * 82;
    const d = f16At(bytes, at);
    for (let point = 0; point < 32; point++) {
      const high = (bytes[at + 66 + (point >> 2)]! >> (2 * (point & 3))) & 3;
      const nibble = (bytes[at + 74 + (point >> 2)]! >> (4 * ((point >> 1) & 1))) & 15;
      const index = bytes[at + 2 + point]! | (high << 8);
      putPoint(out, block * BLOCK + point * 8, grid, index, 8, (d * (nibble + 0.5)) / 4, bytes[at + 34 + point]!);
    }
  }
}

/**
 * [d | 64 bytes, each a point of 4 magnitudes | 8 words: 7 sign bits for each 8 elements, a 4-bit scale on top].
 * Value: d * (scale + 1/2) / 2 * +-magnitude.
 */
export function decodeIq3Xxs(bytes: Uint8Array, out: Float32Array, numBlocks: number): void {
  const grid = iq3XxsGrid();
  for (let block = 0; block < numBlocks; block++) {
    const at = block * 98;
    const d = f16At(bytes, at);
    for (let point = 0; point < 64; point++) {
      const word = u32At(bytes, at + 66 + 4 * (point >> 3));
      const signs = evenSigns((word >>> (7 * ((point >> 1) & 3))) & 127);
      const scale = (d * ((word >>> 28) + 0.5)) / 2;
      putPoint(out, block * BLOCK + point * 4, grid, bytes[at + 2 + point]!, 4, scale, signs, 4 * (point & 1));
    }
  }
}

/**
 * [d | 64 low bytes of points of 4 magnitudes | 8 bytes of 1 high bit a point | 32 bytes of signs | 4 bytes of scales, a nibble for
 * each group]. Value: d * (2 * scale + 1) * +-magnitude.
 */
export function decodeIq3S(bytes: Uint8Array, out: Float32Array, numBlocks: number): void {
  const grid = iq3SGrid();
  for (let block = 0; block < numBlocks; block++) {
    const at = block * 110;
    const d = f16At(bytes, at);
    for (let point = 0; point < 64; point++) {
      const high = (bytes[at + 66 + (point >> 3)]! >> (point & 7)) & 1;
      const scale = d * (2 * ((bytes[at + 106 + (point >> 4)]! >> (4 * ((point >> 3) & 1))) & 15) + 1);
      const index = bytes[at + 2 + point]! | (high << 8);
      putPoint(out, block * BLOCK + point * 4, grid, index, 4, scale, bytes[at + 74 + (point >> 1)]!, 4 * (point & 1));
    }
  }
}

/**
 * [d | 32 low bytes of points of 8 values | 8 words: 3 high bits for each of 4 points, a 3-bit scale, a sign for the shift].
 * Value: d * (2 * scale + 1) * (value +- 1/8).
 */
export function decodeIq1S(bytes: Uint8Array, out: Float32Array, numBlocks: number): void {
  const grid = iq1Grid();
  for (let block = 0; block < numBlocks; block++) {
    const at = block * 50;
    const d = f16At(bytes, at);
    for (let point = 0; point < 32; point++) {
      const word = u16At(bytes, at + 34 + 2 * (point >> 2));
      const index = bytes[at + 2 + point]! | (((word >> (3 * (point & 3))) & 7) << 8);
      const scale = d * (2 * ((word >> 12) & 7) + 1);
      putShifted(out, block * BLOCK + point * 8, grid, index, scale, (word & 0x8000) !== 0);
    }
  }
}

/**
 * [32 low bytes of points of 8 values | 16 bytes, a nibble for each point: 3 high bits and a sign for its shift | 4 words: four
 * 3-bit scales for 16 elements each, and 4 bits of d on top]. Value as iq1_s.
 */
export function decodeIq1M(bytes: Uint8Array, out: Float32Array, numBlocks: number): void {
  const grid = iq1Grid();
  for (let block = 0; block < numBlocks; block++) {
    const at = block * 56;
    const words = [0, 1, 2, 3].map((i) => u16At(bytes, at + 48 + 2 * i));
    const d = F16_VALUES[words.reduce((half, word, i) => half | ((word >> 12) << (4 * i)), 0)]!;
    for (let point = 0; point < 32; point++) {
      const nibble = (bytes[at + 32 + (point >> 1)]! >> (4 * (point & 1))) & 15;
      const index = bytes[at + point]! | ((nibble & 7) << 8);
      const scale = d * (2 * ((words[point >> 3]! >> (3 * ((point >> 1) & 3))) & 7) + 1);
      putShifted(out, block * BLOCK + point * 8, grid, index, scale, nibble >= 8);
    }
  }
}

function putShifted(
  out: Float32Array,
  to: number,
  grid: Int8Array,
  point: number,
  scale: number,
  isDown: boolean,
): void {
  const shift = isDown ? -IQ1_SHIFT : IQ1_SHIFT;
  for (let i = 0; i < 8; i++) out[to + i] = scale * (grid[point * 8 + i]! + shift);
}
