// PNG: all colour types and depths, transparency, interlacing. 16-bit samples are cut to 8 bits. Checksums of chunks are not checked: the
// pixels have one of their own, which inflating checks.

import { errorFor } from "../core/errors.js";
import { inflate } from "./inflate.js";
import { onWhite, type Picture } from "./picture.js";

interface Header {
  readonly width: number;
  readonly height: number;
  readonly depth: number;
  readonly colour: Colour;
  readonly isInterlaced: boolean;
}

type Colour = 0 | 2 | 3 | 4 | 6;
const SAMPLES: Readonly<Record<Colour, number>> = { 0: 1, 2: 3, 3: 1, 4: 2, 6: 4 };
const DEPTHS: Readonly<Record<Colour, readonly number[]>> = {
  0: [1, 2, 4, 8, 16],
  2: [8, 16],
  3: [1, 2, 4, 8],
  4: [8, 16],
  6: [8, 16],
};

/** Passes of an interlaced picture: first column and row, and how far apart they are. */
const ADAM7 = [
  [0, 0, 8, 8],
  [4, 0, 8, 8],
  [0, 4, 4, 8],
  [2, 0, 4, 4],
  [0, 2, 2, 4],
  [1, 0, 2, 2],
  [0, 1, 1, 2],
] as const;
const ONE_PASS = [[0, 0, 1, 1]] as const;

const corrupt = (reason: string): Error => errorFor("image_corrupt", { format: "PNG", reason });

/** Width and height, from the first chunk. */
export function pngSize(bytes: Uint8Array): { width: number; height: number } {
  const { width, height } = readHeader(bytes);
  return { width, height };
}

function readHeader(bytes: Uint8Array): Header {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < 33 || view.getUint32(8) !== 13 || chunkName(bytes, 12) !== "IHDR")
    throw corrupt("it has no header");
  const colour = bytes[25]! as Colour;
  const depth = bytes[24]!;
  if (DEPTHS[colour]?.includes(depth) !== true || bytes[26] !== 0 || bytes[27] !== 0 || bytes[28]! > 1)
    throw corrupt("its header names no known kind of pixels");
  const width = view.getUint32(16);
  const height = view.getUint32(20);
  if (width === 0 || height === 0) throw corrupt("it has no pixels");
  return { width, height, depth, colour, isInterlaced: bytes[28] === 1 };
}

const chunkName = (bytes: Uint8Array, at: number): string => String.fromCharCode(...bytes.subarray(at, at + 4));

/** The orientation that is in it, by way of `onExif`, and the pixels. */
export async function decodePng(bytes: Uint8Array, onExif: (exif: Uint8Array) => void): Promise<Picture> {
  const header = readHeader(bytes);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const data: Uint8Array[] = [];
  let palette = new Uint8Array(0);
  let transparency: Uint8Array | null = null;
  for (let at = 33; at + 12 <= bytes.length; ) {
    const length = view.getUint32(at);
    if (at + 12 + length > bytes.length) throw corrupt("it is cut off");
    const content = bytes.subarray(at + 8, at + 8 + length);
    const name = chunkName(bytes, at + 4);
    if (name === "IDAT") data.push(content);
    else if (name === "PLTE") palette = Uint8Array.from(content);
    else if (name === "tRNS") transparency = content;
    else if (name === "eXIf") onExif(content);
    else if (name === "IEND") break;
    at += 12 + length;
  }
  const bits = SAMPLES[header.colour] * header.depth;
  const passes = header.isInterlaced ? ADAM7 : ONE_PASS;
  const sizes = passes.map(([left, top, stepX, stepY]) => ({
    columns: Math.max(Math.ceil((header.width - left) / stepX), 0),
    rows: Math.max(Math.ceil((header.height - top) / stepY), 0),
  }));
  const rowBytes = (columns: number): number => Math.ceil((columns * bits) / 8);
  const needed = sizes.reduce(
    (sum, { columns, rows }) => sum + (columns === 0 ? 0 : rows * (1 + rowBytes(columns))),
    0,
  );
  const raw = await inflate(data, needed, corrupt);
  const rgba = new Uint8Array(header.width * header.height * 4);
  let at = 0;
  for (const [i, [left, top, stepX, stepY]] of passes.entries()) {
    const { columns, rows } = sizes[i]!;
    if (columns === 0) continue;
    const size = rowBytes(columns);
    let above: Uint8Array = new Uint8Array(size);
    for (let r = 0; r < rows; r++, at += 1 + size) {
      const row = raw.subarray(at + 1, at + 1 + size);
      unfilter(raw[at]!, row, above, Math.max(bits >> 3, 1));
      above = row;
      for (let c = 0; c < columns; c++) {
        const to = ((top + r * stepY) * header.width + left + c * stepX) * 4;
        putPixel(rgba, to, header, row, c, palette, transparency);
      }
    }
  }
  return onWhite(rgba, header.width, header.height);
}

/** Takes back what was done to a row to make it compress: each byte was stored as the difference from a guess. */
function unfilter(kind: number, row: Uint8Array, above: Uint8Array, pixel: number): void {
  if (kind > 4) throw corrupt(`a row has the unknown filter ${kind}`);
  for (let i = 0; i < row.length; i++) {
    const left = i < pixel ? 0 : row[i - pixel]!;
    const up = above[i]!;
    if (kind === 1) row[i]! += left;
    else if (kind === 2) row[i]! += up;
    else if (kind === 3) row[i]! += (left + up) >> 1;
    else if (kind === 4) row[i]! += paeth(left, up, i < pixel ? 0 : above[i - pixel]!);
  }
}

function paeth(left: number, up: number, corner: number): number {
  const byLeft = Math.abs(up - corner);
  const byUp = Math.abs(left - corner);
  const byCorner = Math.abs(left + up - 2 * corner);
  if (byLeft <= byUp && byLeft <= byCorner) return left;
  return byUp <= byCorner ? up : corner;
}

function putPixel(
  out: Uint8Array,
  to: number,
  { depth, colour }: Header,
  row: Uint8Array,
  column: number,
  palette: Uint8Array,
  transparency: Uint8Array | null,
): void {
  const numSamples = SAMPLES[colour];
  const first = column * numSamples;
  if (colour === 3) {
    const index = sampleOf(row, first, depth);
    if (3 * index + 3 > palette.length) throw corrupt(`its palette has no colour ${index}`);
    for (let c = 0; c < 3; c++) out[to + c] = palette[3 * index + c]!;
    out[to + 3] = transparency?.[index] ?? 255;
    return;
  }
  const isGrey = colour === 0 || colour === 4;
  for (let c = 0; c < 3; c++) out[to + c] = eightBits(sampleOf(row, first + (isGrey ? 0 : c), depth), depth);
  const hasAlpha = colour === 4 || colour === 6;
  out[to + 3] = hasAlpha ? eightBits(sampleOf(row, first + numSamples - 1, depth), depth) : 255;
  if (hasAlpha || transparency === null || transparency.length < 2 * numSamples) return;
  let isKey = true; // the one colour that is transparent
  for (let c = 0; c < numSamples; c++)
    isKey &&= sampleOf(row, first + c, depth) === ((transparency[2 * c]! << 8) | transparency[2 * c + 1]!);
  if (isKey) out[to + 3] = 0;
}

function sampleOf(row: Uint8Array, i: number, depth: number): number {
  if (depth === 8) return row[i]!;
  if (depth === 16) return (row[2 * i]! << 8) | row[2 * i + 1]!;
  return (row[(i * depth) >> 3]! >> (8 - depth - ((i * depth) & 7))) & ((1 << depth) - 1);
}

function eightBits(sample: number, depth: number): number {
  return depth === 16 ? sample >> 8 : depth === 8 ? sample : (sample * 255) / ((1 << depth) - 1);
}
