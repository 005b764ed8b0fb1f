// Rows of f32 in device memory, and the 16-bit copies of them that matmuls read.

import type { Tensor, Weight } from "../device.js";
import type { Format, Kind } from "./codes.js";

/** Memory that several views share. `version` grows with every op that writes to it. */
export interface Storage {
  version: number;
}

/** The numbers of a tensor as the tensor cores read them (native/cuda/common.cuh): valid while its version is the storage's. */
export interface Operand {
  readonly address: number;
  readonly maxTokens: number;
  readonly paddedCols: number;
  version: number;
  kind: Kind;
  isTile: boolean;
  tokens8: number;
  n: number;
}

export class CudaTensor implements Tensor {
  readonly address: number;
  readonly rows: number;
  readonly cols: number;
  readonly stride: number;
  readonly storage: Storage;
  /** Made when the tensor first is the input of a matmul with 16-bit weights; from then on its producers write it too. */
  operand: Operand | null = null;

  constructor(address: number, rows: number, cols: number, stride: number, storage: Storage) {
    this.address = address;
    this.rows = rows;
    this.cols = cols;
    this.stride = stride;
    this.storage = storage;
  }

  columns(from: number, to: number): CudaTensor {
    if (!(from >= 0 && from < to && to <= this.cols)) {
      throw new RangeError(`columns ${from}..${to} of a tensor with ${this.cols}`);
    }
    return new CudaTensor(this.address + from * 4, this.rows, to - from, this.stride, this.storage);
  }
}

/** A matrix as f32 rows, or as strips of 16 rows in one of the formats of native/cuda/fragments.cuh. */
export class CudaWeight implements Weight {
  readonly address: number;
  readonly rows: number;
  readonly cols: number;
  readonly paddedCols: number;
  readonly format: Format;
  readonly byteLength: number;

  constructor(address: number, rows: number, cols: number, format: Format) {
    this.address = address;
    this.rows = rows;
    this.cols = cols;
    this.paddedCols = Math.ceil(cols / 64) * 64;
    this.format = format;
    this.byteLength = weightBytes(rows, cols, format);
  }

  /** Of the operand it is multiplied with. */
  get kind(): Kind {
    return this.format.kind;
  }

  get dtype(): string {
    return this.format.name;
  }
}

export function weightBytes(rows: number, cols: number, format: Format): number {
  if (format.kind === 0) return rows * cols * 4;
  return Math.ceil(rows / 16) * Math.ceil(cols / 64) * format.stepBytes;
}
