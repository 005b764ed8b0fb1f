// Pools of pages and of recurrent states. A vector of a page is whole words: kvLayout() in words.

import { type KvLayout, kvLayout } from "../kv-layout.js";
import type { KvPool, KvPoolSpec, StatePool, StatePoolSpec } from "../memory.js";
import type { GpuBuffer, GpuQueue } from "./gpu-queue.js";
import type { Kernel } from "./kernel.js";
import { attentionKernel, canRoundHeads, mergeKernel, mostTileRows, vectorWords } from "./kernels/attention.js";

export function wordLayout(spec: Omit<KvPoolSpec, "numPages">): KvLayout {
  const { dtype, keyDim, valueDim } = spec;
  return kvLayout({ ...spec, keyDim: vectorWords(dtype, keyDim), valueDim: vectorWords(dtype, valueDim) });
}

export class GpuKvPool implements KvPool {
  readonly spec: KvPoolSpec;
  readonly layout: KvLayout; // in words
  readonly buffer: GpuBuffer;
  readonly merge: Kernel;
  /** Rounds the rows too; null: heads of a size that it cannot. */
  readonly mergeAndRound: Kernel | null;
  /** By tile rows, a power of two: the kernel for tiles of at most so many. */
  readonly #kernels = new Map<number, Kernel>();
  readonly #mostRows: number;

  constructor(queue: GpuQueue, spec: KvPoolSpec) {
    this.spec = spec;
    this.layout = wordLayout(spec);
    this.buffer = queue.alloc(4 * spec.numPages * this.layout.page, "the KV pool");
    this.merge = mergeKernel(spec.valueDim);
    this.mergeAndRound = canRoundHeads(spec.valueDim) ? mergeKernel(spec.valueDim, true) : null;
    this.#mostRows = mostTileRows(spec.keyDim);
    for (let rows = 1; rows <= this.#mostRows; rows *= 2) this.#kernels.set(rows, attentionKernel(spec, rows));
  }

  get byteLength(): number {
    return this.buffer.byteLength;
  }

  kernelFor(tileRows: number): Kernel {
    for (let rows = 1; ; rows *= 2) {
      if (rows >= tileRows && rows <= this.#mostRows) return this.#kernels.get(rows)!;
      if (rows > this.#mostRows) throw new RangeError(`tiles of ${tileRows} rows; ${this.#mostRows} at most`);
    }
  }
}

export class GpuStatePool implements StatePool {
  readonly spec: StatePoolSpec;
  readonly buffer: GpuBuffer;

  constructor(queue: GpuQueue, spec: StatePoolSpec) {
    this.spec = spec;
    this.buffer = queue.alloc(4 * spec.numSlots * spec.floats, "the state pool");
  }

  get byteLength(): number {
    return this.buffer.byteLength;
  }
}
