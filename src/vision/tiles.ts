// Pictures cut into tiles of a tower's size, in the grids that their processors choose.

import { crop, type Picture } from "./picture.js";
import type { Settings } from "./processor-settings.js";

/** The pictures that become frames, in order. */
export interface Cut {
  readonly pictures: Picture[];
  readonly tileRows?: number;
  readonly tileColumns?: number;
  readonly numCrops?: number;
}

/** Python's round(): half to even. */
export function round(x: number): number {
  const floor = Math.floor(x);
  if (x - floor !== 0.5) return Math.round(x);
  return floor % 2 === 0 ? floor : floor + 1;
}

export function tiles(picture: Picture, width: number, height: number): Picture[] {
  const parts: Picture[] = [];
  for (let top = 0; top < picture.height; top += height)
    for (let left = 0; left < picture.width; left += width) parts.push(crop(picture, left, top, width, height));
  return parts;
}

/** Columns and rows. Among grids that are equally near the larger one, unless it has twice the picture's pixels. */
export function nearestGrid(
  picture: Picture,
  width: number,
  height: number,
  least: number,
  most: number,
): [number, number] {
  const grids: [number, number][] = [];
  for (let columns = 1; columns <= most; columns++)
    for (let rows = 1; rows <= most; rows++)
      if (columns * rows <= most && columns * rows >= least) grids.push([columns, rows]);
  grids.sort((a, b) => a[0] * a[1] - b[0] * b[1]);
  const aspect = picture.width / picture.height;
  let best: [number, number] = [1, 1];
  let smallest = Number.POSITIVE_INFINITY;
  for (const [columns, rows] of grids) {
    const difference = Math.abs(aspect - columns / rows);
    const isWorthIt = picture.width * picture.height > 0.5 * width * height * columns * rows;
    if (difference > smallest || (difference === smallest && !isWorthIt)) continue;
    smallest = difference;
    best = [columns, rows];
  }
  return best;
}

/** As few tokens as a range asks for, in whole tokens; a much larger picture in tiles, and then as a whole. */
export function cutLfm2(s: Settings, picture: Picture): Cut {
  const unit = s.int("encoder_patch_size") * s.int("downsample_factor");
  const most = s.int("max_image_tokens") * unit ** 2;
  const [width, height] = lfm2Size(s, picture, unit, most);
  const whole = (): Picture => s.resize(picture, width, height);
  const near = (edge: number): number => Math.max(s.int("encoder_patch_size"), round(edge / unit) * unit);
  const isLarge = near(picture.width) * near(picture.height) > most * s.number("max_pixels_tolerance");
  const [fewest, largest] = [s.int("min_tiles"), s.int("max_tiles")];
  const isCut = s.bool("do_image_splitting") && !(fewest === 1 && largest === 1);
  if (!isLarge || !isCut) return { pictures: [whole()] };
  const tile = s.int("tile_size");
  const [tileColumns, tileRows] = nearestGrid(picture, tile, tile, fewest, largest);
  const parts = tiles(s.resize(picture, tile * tileColumns, tile * tileRows), tile, tile);
  if (tileColumns * tileRows === 1) return { pictures: parts };
  return { pictures: s.bool("use_thumbnail") ? [...parts, whole()] : parts, tileRows, tileColumns };
}

function lfm2Size(s: Settings, { width, height }: Picture, unit: number, most: number): [number, number] {
  const least = s.int("min_image_tokens") * unit ** 2;
  const whole = (edge: number): number => Math.max(unit, round(edge / unit) * unit);
  const [w, h] = [whole(width), whole(height)];
  if (w * h > most) {
    const beta = Math.sqrt((height * width) / most);
    const fitted = (edge: number): number => Math.max(unit, Math.floor(edge / beta / unit) * unit);
    return [fitted(width), fitted(height)];
  }
  if (w * h >= least) return [w, h];
  const beta = Math.sqrt(least / (height * width));
  const grown = (edge: number): number => Math.ceil((edge * beta) / unit) * unit;
  return [grown(width), grown(height)];
}

/** On the canvas of tiles that shrinks it least, in its corner, black beside it; several tiles are followed by the whole. */
export function cutLlama4(s: Settings, picture: Picture): Cut {
  const tile = s.edge("size", "height");
  if (s.edge("size", "width") !== tile)
    throw s.refuse("size", `${s.edge("size", "width")} x ${tile}`, "two equal edges");
  const isLargest = s.bool("resize_to_max_canvas");
  const [tileRows, tileColumns] = bestCanvas(picture, tile, s.int("max_patches"), isLargest);
  const canvas = { width: tileColumns * tile, height: tileRows * tile };
  const bound = (edge: "width" | "height"): number =>
    isLargest ? canvas[edge] : Math.min(Math.max(picture[edge], tile), canvas[edge]);
  const [width, height] = inside(picture, bound("width"), bound("height"));
  const padded = crop(s.resize(picture, width, height), 0, 0, canvas.width, canvas.height);
  if (tileRows * tileColumns === 1) return { pictures: [padded] };
  return { pictures: [...tiles(padded, tile, tile), s.resize(picture, tile, tile)], tileRows, tileColumns };
}

/** Rows and columns of tiles. Sizes are compared as quotients in f32. */
function bestCanvas({ width, height }: Picture, tile: number, most: number, isLargest: boolean): [number, number] {
  const f = Math.fround;
  const canvases: { rows: number; columns: number; scale: number }[] = [];
  for (let rows = 1; rows <= most; rows++) {
    for (let columns = 1; rows * columns <= most; columns++) {
      const scale = Math.min(f((columns * tile) / width), f((rows * tile) / height));
      canvases.push({ rows, columns, scale });
    }
  }
  const scales = canvases.map(({ scale }) => scale);
  const larger = scales.filter((scale) => scale >= 1);
  const wanted = larger.length === 0 || isLargest ? Math.max(...scales) : Math.min(...larger);
  const fitting = canvases.filter(({ scale }) => scale === wanted);
  const area = ({ rows, columns }: { rows: number; columns: number }): number => rows * columns;
  const { rows, columns } = fitting.reduce((best, canvas) => (area(canvas) < area(best) ? canvas : best));
  return [rows, columns];
}

/** The largest width and height of the picture's shape within these. */
function inside(picture: Picture, width: number, height: number): [number, number] {
  const across = width / picture.width;
  const down = height / picture.height;
  if (across < down) return [width, Math.max(Math.min(Math.floor(picture.height * across), height), 1)];
  return [Math.max(Math.min(Math.floor(picture.width * down), width), 1), height];
}
