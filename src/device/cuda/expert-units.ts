// How the pairs (token, expert) of a step are listed for the kernels (native/cuda/experts.cu): in units, and by which of the products.

import type { RouterSpec } from "../device.js";
import { TILES, type TileForm } from "./matmul.js";
import { STREAM_TOKENS } from "./runtime.js";

/** Tiles of experts-tile.cuh. */
const FORMS: readonly TileForm[] = TILES.filter(({ tokens, groups }) => groups === 2 && tokens >= 64);
export const LEAST_TILE = 8;

/** How pairs are listed: each expert's from a multiple of `padding` on, in units of at most `unitTokens`. */
export interface Shape {
  readonly padding: number;
  readonly unitTokens: number;
  /** null: not tiles. */
  readonly form: TileForm | null;
}
export const STRIP_SHAPE: Shape = { padding: 8, unitTokens: LEAST_TILE, form: null };

/** Units of up to 8, 16 and 32 tokens, and of each tile. */
const STREAM_SHAPES: readonly Shape[] = [8, 16, 32].map((tokens) => ({
  padding: tokens,
  unitTokens: tokens,
  form: null,
}));
const TILE_SHAPES: readonly Shape[] = FORMS.map((form) => ({ padding: 8, unitTokens: form.tokens, form }));

/** How the pairs of so many rows are listed for the kernels of experts-grouped.cuh. */
export function groupedShape(n: number, { numExperts, topK }: RouterSpec): Shape {
  // Units of 8 tokens while hardly an expert has more: one with more reads its weights once for each unit.
  if (n <= STREAM_TOKENS) return STREAM_SHAPES[n <= 8 || n * topK <= 3 * numExperts ? 0 : n <= 16 ? 1 : 2]!;
  // An expert's tokens vary about their mean: tiles for somewhat more than that, so that most experts take one.
  const mean = (1.15 * n * topK) / numExperts;
  let shape = TILE_SHAPES[0]!;
  for (let i = 1; i < TILE_SHAPES.length; i++) {
    if (clocksOf(TILE_SHAPES[i]!.form!, mean) < clocksOf(shape.form!, mean)) shape = TILE_SHAPES[i]!;
  }
  return shape;
}

function clocksOf({ tokens, clocks }: TileForm, mean: number): number {
  return Math.ceil(mean / tokens) * clocks;
}

export function mostPlaces(pairs: number, numExperts: number, padding: number): number {
  return Math.ceil((pairs + (padding - 1) * Math.min(numExperts, pairs)) / 8) * 8;
}
