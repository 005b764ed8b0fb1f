// A frame cut into the patches that a tower takes, one row of numbers each.

import type { Frame } from "./processor.js";

export interface PatchLayout {
  /** Edge of a patch, in pixels. */
  readonly size: number;
  /** Patches come in blocks of this edge, whose tokens are merged later; 1: row by row. */
  readonly block: number;
  /** Numbers of a patch by channel, row, column; or by row, column, channel. */
  readonly isChannelFirst: boolean;
  /** Each channel comes so many times: a still picture is a film of as many frames. */
  readonly repeat: number;
}

export interface Patches {
  readonly rows: number;
  readonly columns: number;
  readonly values: Float32Array; // [rows * columns, 3 * repeat * size * size]
}

/** Numbers of a frame's patches. */
export function patchNumbers({ width, height }: Frame, { size, repeat }: PatchLayout): number {
  return Math.floor(width / size) * Math.floor(height / size) * 3 * repeat * size * size;
}

/** `values` has room for them, if it is given. */
export function patchesOf(
  frame: Frame,
  layout: PatchLayout,
  values = new Float32Array(patchNumbers(frame, layout)),
): Patches {
  const { width, height, pixels } = frame;
  const { size, block, isChannelFirst, repeat } = layout;
  const columns = Math.floor(width / size);
  const rows = Math.floor(height / size);
  const numbers = 3 * size * size; // of a patch, once
  // Two numbers at a time where they lie so: neither is infinite or NaN, so the double that they make is no NaN, whose bits might change.
  const inPairs = (size | width) % 2 === 0 && (values.byteOffset | pixels.byteOffset) % 8 === 0;
  const to = inPairs ? doublesOf(values) : values;
  const source = inPairs ? doublesOf(pixels) : pixels;
  const step = inPairs ? 2 : 1;
  for (let i = 0; i < rows * columns; i++) {
    const { row, column } = placeOf(i, columns, block);
    const from = row * size * width + column * size;
    const at = i * repeat * numbers;
    if (isChannelFirst) putChannels(to, at / step, source, from / step, width / step, height, layout, size / step);
    else putPixels(values, at, pixels, from, width, width * height, size);
  }
  return { rows, columns, values };
}

/** Numbers, or pairs of them: `across` in a row of the patch. */
function putChannels<Numbers extends Float32Array | Float64Array>(
  values: Numbers,
  first: number,
  pixels: Numbers,
  corner: number,
  width: number,
  height: number,
  { size, repeat }: PatchLayout,
  across: number,
): void {
  let at = first;
  for (let c = 0; c < 3; c++) {
    for (let k = 0; k < repeat; k++) {
      for (let y = 0; y < size; y++) {
        const from = (c * height + y) * width + corner;
        for (let x = 0; x < across; x++) values[at + x] = pixels[from + x]!;
        at += across;
      }
    }
  }
}

function doublesOf({ buffer, byteOffset, length }: Float32Array): Float64Array {
  return new Float64Array(buffer, byteOffset, length >> 1);
}

function putPixels(
  values: Float32Array,
  first: number,
  pixels: Float32Array,
  corner: number,
  width: number,
  area: number,
  size: number,
): void {
  let at = first;
  for (let y = 0; y < size; y++) {
    for (let x = 0; x < size; x++) {
      const from = corner + y * width + x;
      for (let c = 0; c < 3; c++) values[at++] = pixels[c * area + from]!;
    }
  }
}

/** Where patch i of a grid lies. */
export function placeOf(i: number, columns: number, block: number): { row: number; column: number } {
  const unit = block * block;
  const index = Math.floor(i / unit);
  const blocks = columns / block;
  const within = i % unit;
  return {
    row: Math.floor(index / blocks) * block + Math.floor(within / block),
    column: (index % blocks) * block + (within % block),
  };
}

/** Tokens of a frame, in rows and columns. */
export interface TokenGrid {
  readonly rows: number;
  readonly columns: number;
}

/** Of a model in which blocks of `merge` x `merge` patches become one token. */
export interface TokenLayout {
  readonly patches: Pick<PatchLayout, "size">;
  readonly merge: number;
  /** Tokens beside those of the grid: 1, a token of no patch comes first; -1, the first patch is left out. Omitted: none. */
  readonly extraTokens?: 1 | -1;
}

export function tokenGrid(
  { patches, merge, extraTokens }: TokenLayout,
  { width, height }: Pick<Frame, "width" | "height">,
): TokenGrid {
  const tokens = (edge: number): number => Math.floor(Math.floor(edge / patches.size) / merge);
  const grid = { rows: tokens(height), columns: tokens(width) };
  return extraTokens === undefined ? grid : { rows: 1, columns: grid.rows * grid.columns + extraTokens };
}
