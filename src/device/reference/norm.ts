// Norms, row by row, sums in f64 ascending.

import type { ReferenceTensor } from "./tensor.js";

/** out = x / rms(x) * weight over each run of groupCols columns; out may be x. weight [1, groupCols] or [1, cols]. */
export function rmsNorm(
  out: ReferenceTensor,
  x: ReferenceTensor,
  weight: ReferenceTensor,
  eps: number,
  n: number,
  groupCols: number,
): void {
  const isShared = weight.cols === groupCols;
  for (let r = 0; r < n; r++) {
    for (let g = 0; g < x.cols; g += groupCols) {
      const w = weight.offset + (isShared ? 0 : g);
      const from = x.offset + r * x.stride + g;
      const to = out.offset + r * out.stride + g;
      let sum = 0;
      for (let c = 0; c < groupCols; c++) sum += x.data[from + c]! * x.data[from + c]!;
      const factor = 1 / Math.sqrt(sum / groupCols + eps);
      for (let c = 0; c < groupCols; c++) out.data[to + c] = x.data[from + c]! * factor * weight.data[w + c]!;
    }
  }
}

/** out = (x - mean) / sqrt(variance + eps) * weight + bias, over runs of columns as above; out may be x. */
export function layerNorm(
  out: ReferenceTensor,
  x: ReferenceTensor,
  weight: ReferenceTensor,
  bias: ReferenceTensor,
  eps: number,
  n: number,
  groupCols: number,
): void {
  const isShared = weight.cols === groupCols;
  for (let r = 0; r < n; r++) {
    for (let g = 0; g < x.cols; g += groupCols) {
      const from = x.offset + r * x.stride + g;
      const to = out.offset + r * out.stride + g;
      const at = isShared ? 0 : g;
      let sum = 0;
      for (let c = 0; c < groupCols; c++) sum += x.data[from + c]!;
      const mean = sum / groupCols;
      let squares = 0;
      for (let c = 0; c < groupCols; c++) squares += (x.data[from + c]! - mean) ** 2;
      const factor = 1 / Math.sqrt(squares / groupCols + eps);
      for (let c = 0; c < groupCols; c++) {
        const normed = (x.data[from + c]! - mean) * factor;
        out.data[to + c] = normed * weight.data[weight.offset + at + c]! + bias.data[bias.offset + at + c]!;
      }
    }
  }
}
