// Rows rounded to 8 bits for products with block encodings. What was rounded last is kept: products of the same rows follow each other.

import type { GpuBuffer, GpuQueue } from "./gpu-queue.js";
import { BLOCK_UNIT } from "./kernels/encodings.js";
import { ROUND_ROWS } from "./kernels/matmul.js";
import type { GpuTensor } from "./tensor.js";

export class RoundedRows {
  codes: GpuBuffer; // [n, units] 32 bytes
  factors: GpuBuffer; // [n, units] the factor and two sums of codes
  readonly #queue: GpuQueue;
  #capacity = 0; // units
  #of: GpuTensor | null = null;
  #version = 0;
  #rows = 0;

  constructor(queue: GpuQueue) {
    this.#queue = queue;
    this.codes = this.factors = queue.alloc(16, "rounded rows");
  }

  /** The first n rows of x are in `codes` and `factors` for the launches that follow. */
  of(x: GpuTensor, n: number): void {
    const of = this.#of;
    const isSame =
      of !== null && of.buffer === x.buffer && of.offset === x.offset && of.cols === x.cols && of.stride === x.stride;
    if (isSame && this.#version === x.buffer.version && n <= this.#rows) return;
    const units = x.cols / BLOCK_UNIT;
    this.#reserve(x.rows * units);
    this.#queue
      .begin(ROUND_ROWS)
      .operand(this.codes)
      .operand(this.factors)
      .operand(x.buffer)
      .u32(units)
      .u32(x.offset)
      .u32(x.stride)
      .dispatch(Math.ceil(units / 64), n);
    this.#of = x;
    this.#version = x.buffer.version;
    this.#rows = n;
  }

  #reserve(units: number): void {
    if (units <= this.#capacity) return;
    if (this.#capacity > 0) {
      this.#queue.free(this.codes);
      this.#queue.free(this.factors);
    }
    this.#capacity = Math.max(units, 2 * this.#capacity);
    this.codes = this.#queue.alloc(32 * this.#capacity, "rounded rows");
    this.factors = this.#queue.alloc(8 * this.#capacity, "the factors of rounded rows");
  }
}
