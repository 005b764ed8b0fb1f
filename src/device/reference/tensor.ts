// Tensors and weights of the reference device: plain Float32Arrays.

import type { Tensor, Weight } from "../device.js";

export class ReferenceTensor implements Tensor {
  readonly data: Float32Array; // [rows, stride], shared by all views
  readonly offset: number;
  readonly rows: number;
  readonly cols: number;
  readonly stride: number;

  constructor(data: Float32Array, offset: number, rows: number, cols: number, stride: number) {
    this.data = data;
    this.offset = offset;
    this.rows = rows;
    this.cols = cols;
    this.stride = stride;
  }

  columns(from: number, to: number): ReferenceTensor {
    if (!(from >= 0 && from <= to && to <= this.cols)) throw new RangeError(`columns ${from}..${to} of ${this.cols}`);
    return new ReferenceTensor(this.data, this.offset + from, this.rows, to - from, this.stride);
  }

  /** Row r as a view. */
  row(r: number): Float32Array {
    const at = this.offset + r * this.stride;
    return this.data.subarray(at, at + this.cols);
  }
}

export class ReferenceWeight implements Weight {
  readonly data: Float32Array; // [rows, cols]
  readonly rows: number;
  readonly cols: number;
  readonly dtype: string;

  constructor(data: Float32Array, rows: number, cols: number, dtype: string) {
    this.data = data;
    this.rows = rows;
    this.cols = cols;
    this.dtype = dtype;
  }

  get byteLength(): number {
    return this.data.byteLength;
  }
}
