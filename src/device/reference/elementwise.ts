// Ops that treat every element alike: what runs over rows and columns, given what happens to one.

import type { Tensor } from "../device.js";
import type { ReferenceTensor } from "./tensor.js";

/** x = f(x, row), in the first n rows. */
export function replace(x: Tensor, n: number, f: (value: number, row: number) => number): void {
  const { data, offset, cols, stride } = x as ReferenceTensor;
  for (let t = 0; t < n; t++) {
    const row = offset + t * stride;
    for (let at = row; at < row + cols; at++) data[at] = f(data[at]!, t);
  }
}

/** out = f(a, b), in the first n rows. `out` may be either. */
export function combine(out: Tensor, a: Tensor, b: Tensor, n: number, f: (a: number, b: number) => number): void {
  const o = out as ReferenceTensor;
  const l = a as ReferenceTensor;
  const r = b as ReferenceTensor;
  for (let t = 0; t < n; t++) {
    for (let c = 0; c < o.cols; c++) {
      const right = r.data[r.offset + t * r.stride + c]!;
      o.data[o.offset + t * o.stride + c] = f(l.data[l.offset + t * l.stride + c]!, right);
    }
  }
}
