// Tensors and weights in the GPU's buffers.

import type { HeadWeights, Tensor, Weight } from "../device.js";
import type { GpuBuffer } from "./gpu-queue.js";
import type { Encoding } from "./kernels/encodings.js";
import { type EncodingKernels, kernelsOf } from "./kernels/matmul.js";

export class GpuTensor implements Tensor {
  readonly buffer: GpuBuffer;
  /** In numbers, like the stride. */
  readonly offset: number;
  readonly rows: number;
  readonly cols: number;
  readonly stride: number;

  constructor(buffer: GpuBuffer, offset: number, rows: number, cols: number, stride: number) {
    this.buffer = buffer;
    this.offset = offset;
    this.rows = rows;
    this.cols = cols;
    this.stride = stride;
  }

  columns(from: number, to: number): GpuTensor {
    if (!(from >= 0 && from <= to && to <= this.cols)) throw new RangeError(`columns ${from}..${to} of ${this.cols}`);
    return new GpuTensor(this.buffer, this.offset + from, this.rows, to - from, this.stride);
  }
}

/** Rows of a weight that fit one binding. */
export interface WeightPart {
  readonly buffer: GpuBuffer;
  readonly firstRow: number;
  readonly rows: number;
  /** Where the factors of block encodings begin, in words of 4 bytes. */
  readonly factorsAt: number;
}

export class GpuWeight implements Weight {
  readonly rows: number;
  readonly cols: number;
  readonly dtype: Encoding;
  readonly byteLength: number;
  readonly parts: readonly WeightPart[];
  /** Units of a row (encodings.ts). */
  readonly units: number;
  readonly kernels: EncodingKernels;

  constructor(rows: number, cols: number, dtype: Encoding, units: number, parts: readonly WeightPart[]) {
    this.rows = rows;
    this.cols = cols;
    this.dtype = dtype;
    this.units = units;
    this.parts = parts;
    this.byteLength = parts.reduce((sum, { buffer }) => sum + buffer.byteLength, 0);
    this.kernels = kernelsOf(dtype);
  }
}

/** Matrices of all heads, with the columns of the tensors they were last multiplied with: the same in every step. */
export class GpuHeadWeights implements HeadWeights {
  readonly weights: readonly GpuWeight[];
  outs: GpuTensor[] = [];
  xs: GpuTensor[] = [];
  #out: GpuTensor | null = null;
  #x: GpuTensor | null = null;

  constructor(weights: readonly GpuWeight[]) {
    this.weights = weights;
  }

  view(out: GpuTensor, x: GpuTensor, outHead: number, xHead: number): void {
    if (out === this.#out && x === this.#x) return;
    this.#out = out;
    this.#x = x;
    this.outs = this.weights.map(({ rows }, h) => out.columns(h * outHead, h * outHead + rows));
    this.xs = this.weights.map(({ cols }, h) => x.columns(h * xHead, h * xHead + cols));
  }
}
