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

export function patchesOf({ width, height, pixels }: Frame, layout: PatchLayout): Patches {
  const { size, block, isChannelFirst, repeat } = layout;
  const columns = Math.floor(width / size);
  const rows = Math.floor(height / size);
  const numbers = 3 * size * size; // of a patch, once
  const values = new Float32Array(rows * columns * repeat * numbers);
  for (let i = 0; i < rows * columns; i++) {
    const { row, column } = placeOf(i, columns, block);
    const from = row * size * width + column * size;
    const at = i * repeat * numbers;
    if (isChannelFirst) putChannels(values, at, pixels, from, width, width * height, layout);
    else putPixels(values, at, pixels, from, width, width * height, size);
  }
  return { rows, columns, values };
}

function putChannels(
  values: Float32Array,
  first: number,
  pixels: Float32Array,
  corner: number,
  width: number,
  area: number,
  { size, repeat }: PatchLayout,
): void {
  let at = first;
  for (let c = 0; c < 3; c++) {
    for (let k = 0; k < repeat; k++) {
      for (let y = 0; y < size; y++) {
        const from = c * area + corner + y * width;
        for (let x = 0; x < size; x++) values[at + x] = pixels[from + x]!;
        at += size;
      }
    }
  }
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
