// Low-rank matrices of adapters on the GPU, in f32.

import type { LowRank, LowRankSpec } from "../memory.js";
import type { GpuBuffer, GpuQueue } from "./gpu-queue.js";
import { EXPAND, SHRINK } from "./kernels/low-rank.js";
import type { GpuStagedBatch } from "./staged-batch.js";
import type { GpuTensor } from "./tensor.js";

export class GpuLowRank implements LowRank {
  readonly spec: Omit<LowRankSpec, "a" | "b">;
  readonly a: GpuBuffer; // [rank, inputs]
  readonly b: GpuBuffer; // [cols, rank]

  constructor(queue: GpuQueue, { a, b, ...spec }: LowRankSpec) {
    this.spec = spec;
    this.a = queue.alloc(a.byteLength, "an adapter");
    this.b = queue.alloc(b.byteLength, "an adapter");
    queue.writeNow(this.a, 0, a);
    queue.writeNow(this.b, 0, b);
  }

  get rank(): number {
    return this.spec.rank;
  }

  get byteLength(): number {
    return this.a.byteLength + this.b.byteLength;
  }
}

export class LowRankAdder {
  readonly #queue: GpuQueue;
  #shrunk: GpuBuffer;

  constructor(queue: GpuQueue, nothing: GpuBuffer) {
    this.#queue = queue;
    this.#shrunk = nothing;
  }

  /** To the `count` rows that the staged integers from `rows` on name, less `base`. */
  add(
    out: GpuTensor,
    x: GpuTensor,
    { spec, a, b }: GpuLowRank,
    staged: GpuStagedBatch,
    rows: number,
    count: number,
    base: number,
  ): void {
    const { rank, inputs, cols, firstCol, scale } = spec;
    if (4 * count * rank > this.#shrunk.byteLength)
      this.#shrunk = this.#queue.alloc(8 * count * rank, "what adapters add");
    this.#queue
      .begin(SHRINK)
      .operand(this.#shrunk)
      .operand(a)
      .operand(x.buffer)
      .operand(staged.buffer)
      .u32(inputs)
      .u32(rank)
      .u32(x.offset)
      .u32(x.stride)
      .u32(rows)
      .u32(base)
      .f32(scale)
      .dispatch(rank, count);
    this.#queue
      .begin(EXPAND)
      .operand(out.buffer)
      .operand(b)
      .operand(this.#shrunk)
      .operand(staged.buffer)
      .u32(cols)
      .u32(rank)
      .u32(out.offset + firstCol)
      .u32(out.stride)
      .u32(rows)
      .u32(base)
      .dispatch(Math.ceil(cols / 64), count);
  }
}
