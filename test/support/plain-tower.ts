// Towers as their papers write them, number by number in f64: no batches, pages, tiles or stacked matrices. What the devices' towers are held against.

import { toFloat32 } from "../../src/core/dequantize/dequantize.js";
import type { TensorSource } from "../../src/core/tensor.js";

export type Rows = number[][];

/** Numbers of a tensor that the tower under test has asked for. */
export function valuesOf(source: TensorSource, name: string): number[] {
  return Array.from(toFloat32(source.get(name)));
}

/** x W^T + b. */
export function linear(x: Rows, weight: readonly number[], bias: readonly number[] | null = null): Rows {
  const inputs = x[0]!.length;
  const outputs = weight.length / inputs;
  return x.map((row) =>
    Array.from({ length: outputs }, (_, o) =>
      row.reduce((sum, value, i) => sum + value * weight[o * inputs + i]!, bias === null ? 0 : bias[o]!),
    ),
  );
}

export function layerNorm(x: Rows, weight: readonly number[], bias: readonly number[], eps: number): Rows {
  return x.map((row) => {
    const mean = row.reduce((a, b) => a + b, 0) / row.length;
    const variance = row.reduce((a, b) => a + (b - mean) ** 2, 0) / row.length;
    return row.map((v, i) => ((v - mean) / Math.sqrt(variance + eps)) * weight[i]! + bias[i]!);
  });
}

export function rmsNorm(x: Rows, weight: readonly number[] | null, eps: number): Rows {
  return x.map((row) => {
    const square = row.reduce((a, b) => a + b * b, 0) / row.length;
    return row.map((v, i) => (v / Math.sqrt(square + eps)) * (weight?.[i] ?? 1));
  });
}

export const plus = (a: Rows, b: Rows): Rows => a.map((row, t) => row.map((v, i) => v + b[t]![i]!));
export const clamped = (x: Rows, low: number, high: number): Rows =>
  x.map((row) => row.map((v) => Math.min(Math.max(v, low), high)));
export const quickGelu = (v: number): number => v / (1 + Math.exp(-1.702 * v));
export const tanhGelu = (v: number): number =>
  0.5 * v * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (v + 0.044715 * v ** 3)));

export const gelu = (v: number): number => 0.5 * v * (1 + erf(v / Math.SQRT2));

/** The error function by its series. */
function erf(x: number): number {
  if (Math.abs(x) > 4) return Math.sign(x);
  let sum = x;
  let term = x;
  for (let n = 1; n < 80; n++) {
    term *= (-x * x) / n;
    sum += term / (2 * n + 1);
  }
  return (2 / Math.sqrt(Math.PI)) * sum;
}

/** Blocks of `merge` x `merge` patches of a grid as one row each, row by row of the block. */
export function blocksOf(x: Rows, columns: number, merge: number): Rows {
  const rows = x.length / columns;
  const tokens: Rows = [];
  for (let top = 0; top < rows; top += merge) {
    for (let left = 0; left < columns; left += merge) {
      const parts: Rows = [];
      for (let dy = 0; dy < merge; dy++)
        for (let dx = 0; dx < merge; dx++) parts.push(x[(top + dy) * columns + left + dx]!);
      tokens.push(parts.flat());
    }
  }
  return tokens;
}

/** All see all. q [n][H*D], k and v [n][K*D]. */
export function attend(q: Rows, k: Rows, v: Rows, headDim: number, scale: number): Rows {
  const numHeads = q[0]!.length / headDim;
  const group = numHeads / (k[0]!.length / headDim);
  return q.map((query) =>
    Array.from({ length: numHeads }, (_, h) => {
      const at = Math.floor(h / group) * headDim;
      const scores = k.map((key) => {
        let dot = 0;
        for (let i = 0; i < headDim; i++) dot += query[h * headDim + i]! * key[at + i]!;
        return dot * scale;
      });
      const most = Math.max(...scores);
      const shares = scores.map((score) => Math.exp(score - most));
      const sum = shares.reduce((a, b) => a + b, 0);
      return Array.from({ length: headDim }, (_, i) =>
        shares.reduce((out, share, t) => out + (share / sum) * v[t]![at + i]!, 0),
      );
    }).flat(),
  );
}
