// What an adapter adds to one row, as it is written: sums in f64, inputs and ranks ascending.

import type { LowRank, LowRankSpec } from "../device.js";

export class ReferenceLowRank implements LowRank {
  readonly spec: LowRankSpec;
  readonly shrunk: Float64Array; // [rank] of the row at hand

  constructor(spec: LowRankSpec) {
    this.spec = spec;
    this.shrunk = new Float64Array(spec.rank);
  }

  get rank(): number {
    return this.spec.rank;
  }
  get byteLength(): number {
    return this.spec.a.byteLength + this.spec.b.byteLength;
  }
}

export function addLowRank(out: Float32Array, x: Float32Array, spec: LowRankSpec, shrunk: Float64Array): void {
  const { rank, inputs, cols, firstCol, scale, a, b } = spec;
  for (let k = 0; k < rank; k++) {
    let sum = 0;
    for (let i = 0; i < inputs; i++) sum += a[k * inputs + i]! * x[i]!;
    shrunk[k] = scale * sum;
  }
  for (let c = 0; c < cols; c++) {
    let sum = 0;
    for (let k = 0; k < rank; k++) sum += b[c * rank + k]! * shrunk[k]!;
    out[firstCol + c] = out[firstCol + c]! + sum;
  }
}
