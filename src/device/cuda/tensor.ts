// Rows of f32 in device memory, and the 16-bit copies of them that matmuls read.

import type { Tensor, Weight } from "../device.js";
import type { Format, Kind } from "./codes.js";

/** Memory that several views share. `version` grows with every op that writes to it. */
export interface Storage {
  version: number;
}

/** ORDER_* of native/cuda/common.cuh. */
export const ORDER = { strip: 0, tile: 1 } as const;
export type Order = (typeof ORDER)[keyof typeof ORDER];

/** The numbers of a tensor as the tensor cores read them (native/cuda/common.cuh): valid while its version is the storage's. */
export interface Operand {
  readonly address: number;
  readonly maxTokens: number;
  readonly paddedCols: number;
  version: number;
  kind: Kind;
  order: Order;
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
  /** Steps of 64 columns that are summed in one chain; the sums of chains are added in order, in every kernel. */
  readonly chainSteps: number;

  constructor(address: number, rows: number, cols: number, format: Format) {
    this.address = address;
    this.rows = rows;
    this.cols = cols;
    this.paddedCols = Math.ceil(cols / 64) * 64;
    this.format = format;
    this.byteLength = weightBytes(rows, cols, format);
    const chains = this.isCut ? CHAINS : 1;
    this.chainSteps = CHAIN_STEPS * Math.ceil(this.paddedCols / 64 / chains / CHAIN_STEPS);
  }

  /**
   * Matrices of few rows have few strips, and would wait for one chain of products a strip: K is cut into four, which may run side by side
   * (native/cuda/matmul-chains.cuh). It depends on the matrix alone, so that every kernel gives the same bits.
   */
  get isCut(): boolean {
    return this.rows <= (this.format.isCoded ? 6144 : 3072);
  }

  /** Of the operand it is multiplied with. */
  get kind(): Kind {
    return this.format.kind;
  }

  get dtype(): string {
    return this.format.name;
  }
}

export const CHAINS = 4;
/** Chains begin at multiples of this many steps: where stages of the kernels' rings do. */
const CHAIN_STEPS = 4;

export function weightBytes(rows: number, cols: number, format: Format): number {
  if (format.kind === 0) return rows * cols * 4;
  return Math.ceil(rows / 16) * Math.ceil(cols / 64) * format.stepBytes;
}
