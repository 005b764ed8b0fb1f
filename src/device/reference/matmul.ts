// out[r, o] = sum over k of x[r, k] * w[o, k], k ascending, in f64: one order for every output whatever n is, so a row's result
// never depends on its neighbours. Tiled 2 rows x 4 outputs, because eight independent sums hide the latency of an addition
// and each number loaded is used more than once; the tiling changes which output is computed when, never the order within one.

import type { ReferenceTensor } from "./tensor.js";

/** out (+)= scale * (x @ weight^T + bias) for n rows; weight is [outputs, inputs]; `out` and `x` do not overlap. */
export function matmul(
  out: ReferenceTensor,
  x: ReferenceTensor,
  weight: Float32Array,
  outputs: number,
  inputs: number,
  n: number,
  bias: ReferenceTensor | null,
  scale: number,
  accumulate: boolean,
): void {
  const xd = x.data;
  let r = 0;
  for (; r + 2 <= n; r += 2) {
    const x0 = x.offset + r * x.stride;
    const x1 = x0 + x.stride;
    const y0 = out.offset + r * out.stride;
    const y1 = y0 + out.stride;
    let o = 0;
    for (; o + 4 <= outputs; o += 4) {
      const w0 = o * inputs;
      const w1 = w0 + inputs;
      const w2 = w1 + inputs;
      const w3 = w2 + inputs;
      let s00 = 0;
      let s01 = 0;
      let s02 = 0;
      let s03 = 0;
      let s10 = 0;
      let s11 = 0;
      let s12 = 0;
      let s13 = 0;
      for (let k = 0; k < inputs; k++) {
        const a = xd[x0 + k]!;
        const b = xd[x1 + k]!;
        const c0 = weight[w0 + k]!;
        const c1 = weight[w1 + k]!;
        const c2 = weight[w2 + k]!;
        const c3 = weight[w3 + k]!;
        s00 += a * c0;
        s01 += a * c1;
        s02 += a * c2;
        s03 += a * c3;
        s10 += b * c0;
        s11 += b * c1;
        s12 += b * c2;
        s13 += b * c3;
      }
      store4(out.data, y0, o, s00, s01, s02, s03, bias, scale, accumulate);
      store4(out.data, y1, o, s10, s11, s12, s13, bias, scale, accumulate);
    }
    for (; o < outputs; o++) {
      store(out.data, y0, o, dot(xd, x0, weight, o * inputs, inputs), bias, scale, accumulate);
      store(out.data, y1, o, dot(xd, x1, weight, o * inputs, inputs), bias, scale, accumulate);
    }
  }
  if (r < n) matmulRow(out, x, weight, outputs, inputs, r, bias, scale, accumulate);
}

function matmulRow(
  out: ReferenceTensor,
  x: ReferenceTensor,
  weight: Float32Array,
  outputs: number,
  inputs: number,
  r: number,
  bias: ReferenceTensor | null,
  scale: number,
  accumulate: boolean,
): void {
  const xd = x.data;
  const x0 = x.offset + r * x.stride;
  const y0 = out.offset + r * out.stride;
  let o = 0;
  for (; o + 4 <= outputs; o += 4) {
    const w0 = o * inputs;
    const w1 = w0 + inputs;
    const w2 = w1 + inputs;
    const w3 = w2 + inputs;
    let s0 = 0;
    let s1 = 0;
    let s2 = 0;
    let s3 = 0;
    for (let k = 0; k < inputs; k++) {
      const a = xd[x0 + k]!;
      s0 += a * weight[w0 + k]!;
      s1 += a * weight[w1 + k]!;
      s2 += a * weight[w2 + k]!;
      s3 += a * weight[w3 + k]!;
    }
    store4(out.data, y0, o, s0, s1, s2, s3, bias, scale, accumulate);
  }
  for (; o < outputs; o++) {
    store(out.data, y0, o, dot(xd, x0, weight, o * inputs, inputs), bias, scale, accumulate);
  }
}

function dot(x: Float32Array, xAt: number, w: Float32Array, wAt: number, length: number): number {
  let sum = 0;
  for (let k = 0; k < length; k++) sum += x[xAt + k]! * w[wAt + k]!;
  return sum;
}

function store4(
  out: Float32Array,
  row: number,
  o: number,
  s0: number,
  s1: number,
  s2: number,
  s3: number,
  bias: ReferenceTensor | null,
  scale: number,
  accumulate: boolean,
): void {
  store(out, row, o, s0, bias, scale, accumulate);
  store(out, row, o + 1, s1, bias, scale, accumulate);
  store(out, row, o + 2, s2, bias, scale, accumulate);
  store(out, row, o + 3, s3, bias, scale, accumulate);
}

function store(
  out: Float32Array,
  row: number,
  o: number,
  sum: number,
  bias: ReferenceTensor | null,
  scale: number,
  accumulate: boolean,
): void {
  const value = scale * (bias === null ? sum : sum + bias.data[bias.offset + o]!);
  out[row + o] = accumulate ? out[row + o]! + value : value;
}
