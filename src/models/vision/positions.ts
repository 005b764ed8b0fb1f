// The places of patches as rows to add: learned ones, resampled where the grid is another, and as angles.

import { placeOf } from "../../vision/patches.js";
import type { Angle } from "./tower.js";

/** Rows [first, ...) of a table, row by row. */
export function rasterPositions(table: Float32Array, hiddenSize: number, first: number) {
  return (rows: number, columns: number): Float32Array =>
    table.subarray(first * hiddenSize, (first + rows * columns) * hiddenSize);
}

/**
 * The place along one edge of `count` patches that the rows of a table are read at, as Idefics finds it: by the part of the edge before a patch, in
 * f32, among equal parts of the edge. For some counts a patch falls into the part before its own.
 */
export function bucketPlaces(count: number): Int32Array {
  const f = Math.fround;
  const step = f(1 / count);
  const bounds: number[] = [];
  for (let i = 0; i < Math.ceil((1 - 1 / count) / (1 / count)); i++) bounds.push(f(1 / count + i * (1 / count)));
  return Int32Array.from({ length: count }, (_, i) => {
    const place = Math.min(f(i * step), f(1 - 1e-6));
    return Math.min(bounds.filter((bound) => bound <= place).length, count - 1);
  });
}

/** A square table laid over the grid of patches: each gets the mean of the four rows around its place, by their nearness; corners meet. */
export function bilinearPositions(table: Float32Array, hiddenSize: number, block: number) {
  const side = Math.floor(Math.sqrt(table.length / hiddenSize));
  const f = Math.fround;
  return (rows: number, columns: number): Float32Array => {
    const out = new Float32Array(rows * columns * hiddenSize);
    for (let i = 0; i < rows * columns; i++) {
      const { row, column } = placeOf(i, columns, block);
      const y = f(f(row * (side - 1)) / Math.max(rows - 1, 1));
      const x = f(f(column * (side - 1)) / Math.max(columns - 1, 1));
      for (const dy of [0, 1]) {
        for (const dx of [0, 1]) {
          const fromY = Math.min(Math.floor(y) + dy, side - 1);
          const fromX = Math.min(Math.floor(x) + dx, side - 1);
          const nearY = f(1 - Math.abs(f(y - Math.floor(y)) - dy));
          const nearX = f(1 - Math.abs(f(x - Math.floor(x)) - dx));
          const weight = f(nearY * nearX);
          const from = (fromY * side + fromX) * hiddenSize;
          for (let c = 0; c < hiddenSize; c++) out[i * hiddenSize + c]! += f(table[from + c]! * weight);
        }
      }
    }
    return out;
  };
}

/** A square table brought to the grid of patches as a picture is: bilinear, with a filter that grows where the grid is the smaller one. */
export function resizedPositions(table: Float32Array, hiddenSize: number) {
  const side = Math.floor(Math.sqrt(table.length / hiddenSize));
  return (rows: number, columns: number): Float32Array => {
    const across = triangles(side, columns);
    const down = triangles(side, rows);
    const wide = new Float32Array(side * columns * hiddenSize);
    for (let y = 0; y < side; y++) {
      for (let x = 0; x < columns; x++)
        blend(wide, y * columns + x, table, across[x]!, (from) => y * side + from, hiddenSize);
    }
    const out = new Float32Array(rows * columns * hiddenSize);
    for (let y = 0; y < rows; y++) {
      for (let x = 0; x < columns; x++)
        blend(out, y * columns + x, wide, down[y]!, (from) => from * columns + x, hiddenSize);
    }
    return out;
  };
}

interface Blend {
  readonly first: number;
  readonly weights: readonly number[];
}

/** Which of `from` places each of `to` is made of. */
function triangles(from: number, to: number): Blend[] {
  const scale = from / to;
  const support = Math.max(scale, 1);
  return Array.from({ length: to }, (_, i) => {
    const center = scale * (i + 0.5);
    const first = Math.max(Math.trunc(center - support + 0.5), 0);
    const end = Math.min(Math.trunc(center + support + 0.5), from);
    const near = Array.from({ length: end - first }, (_, j) =>
      Math.max(0, 1 - Math.abs((j + first - center + 0.5) / support)),
    );
    const sum = near.reduce((total, weight) => total + weight, 0);
    return { first, weights: near.map((weight) => weight / sum) };
  });
}

/** Row `to` of `out` is the sum of rows of `rows`, each times its weight. */
function blend(
  out: Float32Array,
  to: number,
  rows: Float32Array,
  { first, weights }: Blend,
  rowAt: (place: number) => number,
  cols: number,
): void {
  for (const [j, weight] of weights.entries()) {
    const from = rowAt(first + j) * cols;
    for (let c = 0; c < cols; c++) out[to * cols + c]! += weight * rows[from + c]!;
  }
}

/** The first half of a head's pairs turns with the row, the second with the column, both by the same frequencies. */
export function halvedAngles(headDim: number, theta: number): Angle[] {
  const f = Math.fround;
  const dim = headDim / 2;
  return (["row", "column"] as const).flatMap((axis) =>
    Array.from({ length: dim / 2 }, (_, i) => ({ axis, frequency: f(1 / f(theta ** f((2 * i) / dim))) })),
  );
}
