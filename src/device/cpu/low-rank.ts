// An adapter's matrices as packed weights: their products are sums like any matmul's, so a row's bits do not depend on its neighbours. Rows of
// all adapters are one call; many rows of one adapter that follow each other are two matmuls.

import { f32ToBf16 } from "../../core/dequantize/small-floats.js";
import type { HostTensor } from "../../core/tensor.js";
import type { LowRank, LowRankSpec, Tensor } from "../device.js";
import { type CpuContext, CpuTensor } from "./memory.js";
import { type CpuWeight, loadCpuWeight } from "./weights.js";

/** Runs of more rows are products of their own: all threads have enough to do in each. */
const FEW_ROWS = 16;
const ITEM_NUMBERS = 6;
const MOST_ITEMS = 1024;

export interface CpuLowRank extends LowRank, Omit<LowRankSpec, "a" | "b"> {
  readonly a: CpuWeight; // [rank, inputs]
  readonly b: CpuWeight; // [cols, rank]
}

export class CpuLowRanks {
  readonly #context: CpuContext;
  readonly #loaded = new Set<CpuLowRank>();
  /** x shrunk to the rank: rows of a run. Grows where a run is longer or wider than any before. */
  #shrunk: CpuTensor | null = null;
  /** What flush() adds, as native/cpu/src/low-rank.h has it. */
  #items: Float64Array | null = null;
  #itemsAt = 0;
  #numItems = 0;

  constructor(context: CpuContext) {
    this.#context = context;
  }

  load({ a, b, ...spec }: LowRankSpec): CpuLowRank {
    const { rank, inputs, cols } = spec;
    if (a.length !== rank * inputs || b.length !== cols * rank) {
      throw new RangeError(`${a.length} and ${b.length} numbers for rank ${rank}, ${inputs} inputs, ${cols} outputs`);
    }
    const pack = (values: Float32Array, shape: readonly number[]): CpuWeight =>
      loadCpuWeight(this.#context, [tensorOf(values, shape)], { isMatrix: true });
    const packed = { a: pack(a, [rank, inputs]), b: pack(b, [cols, rank]) };
    const lowRank = { ...spec, ...packed, byteLength: packed.a.byteLength + packed.b.byteLength };
    this.#loaded.add(lowRank);
    return lowRank;
  }

  free(lowRank: CpuLowRank): void {
    if (!this.#loaded.delete(lowRank)) return;
    const { native, handle } = this.#context;
    native.pg_weight_free(handle, lowRank.a.handle);
    native.pg_weight_free(handle, lowRank.b.handle);
  }

  /** Takes rows of one adapter. Runs of few rows are added with those of other adapters, by flush(). */
  addLowRank(out: Tensor, x: Tensor, lowRank: LowRank, rows: Int32Array, from: number, to: number, base: number): void {
    const { inputs, cols, firstCol } = lowRank as CpuLowRank;
    if (firstCol + cols > out.cols || inputs !== x.cols) {
      throw new RangeError(`an adapter for ${inputs} inputs and columns up to ${firstCol + cols} of ${out.cols}`);
    }
    for (let i = from; i < to; ) {
      let end = i + 1;
      while (end < to && rows[end] === rows[end - 1]! + 1) end++;
      const row = rows[i]! - base;
      if (end - i > FEW_ROWS) this.#addRun(out as CpuTensor, x as CpuTensor, lowRank as CpuLowRank, row, end - i);
      else this.#put(out as CpuTensor, x as CpuTensor, lowRank as CpuLowRank, row, end - i);
      i = end;
    }
  }

  /** Adds what was put aside: one call, however many adapters there are. */
  flush(out: CpuTensor, x: CpuTensor): void {
    if (this.#numItems === 0) return;
    const { native, handle } = this.#context;
    const count = this.#numItems;
    this.#numItems = 0;
    const status = native.pg_low_rank(handle, out.address, out.stride, x.address, x.stride, this.#itemsAt, count);
    this.#context.check(status, "pg_low_rank");
  }

  #put(out: CpuTensor, x: CpuTensor, { a, b, firstCol, scale }: CpuLowRank, row: number, n: number): void {
    if (this.#numItems === MOST_ITEMS) this.flush(out, x);
    this.#items ??= this.#newItems();
    const items = this.#items;
    let at = ITEM_NUMBERS * this.#numItems++;
    items[at++] = a.handle;
    items[at++] = b.handle;
    items[at++] = row;
    items[at++] = n;
    items[at++] = firstCol;
    items[at] = scale;
  }

  #newItems(): Float64Array {
    const bytes = 8 * ITEM_NUMBERS * MOST_ITEMS;
    this.#itemsAt = this.#context.alloc(bytes, "what a product's adapters are");
    const { buffer, byteOffset } = this.#context.native.view(this.#itemsAt, bytes);
    return new Float64Array(buffer as ArrayBuffer, byteOffset, ITEM_NUMBERS * MOST_ITEMS);
  }

  close(): void {
    for (const lowRank of [...this.#loaded]) this.free(lowRank);
  }

  #addRun(out: CpuTensor, x: CpuTensor, { a, b, rank, firstCol, scale }: CpuLowRank, row: number, n: number): void {
    const { native, handle } = this.#context;
    const shrunk = this.#room(n, rank);
    const from = x.address + 4 * row * x.stride;
    const to = out.address + 4 * (row * out.stride + firstCol);
    this.#context.check(
      native.pg_matmul(handle, shrunk.address, shrunk.stride, from, x.stride, a.handle, n, 0, 1, 0),
      "pg_matmul",
    );
    this.#context.check(
      native.pg_matmul(handle, to, out.stride, shrunk.address, shrunk.stride, b.handle, n, 0, scale, 1),
      "pg_matmul",
    );
  }

  #room(rows: number, cols: number): CpuTensor {
    const old = this.#shrunk;
    if (old !== null && old.rows >= rows && old.cols >= cols) return old;
    const [most, widest] = [Math.max(rows, old?.rows ?? 0), Math.max(cols, old?.cols ?? 0)];
    const stride = Math.ceil(widest / 16) * 16;
    const { native, handle } = this.#context;
    const address = this.#context.alloc(4 * most * stride, `what adapters shrink ${most} rows to`);
    this.#context.check(native.pg_reserve_activations(handle, most, widest), "reserve");
    if (old !== null) this.#context.free(old.address);
    this.#shrunk = new CpuTensor(address, most, widest, stride);
    return this.#shrunk;
  }
}

/** Most adapters are numbers of bf16, half the bytes to read. */
function tensorOf(values: Float32Array, shape: readonly number[]): HostTensor {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  const isBf16 = bits.every((word) => (word & 0xffff) === 0);
  const plain = isBf16 ? Uint16Array.from(values, f32ToBf16) : values;
  const bytes = new Uint8Array(plain.buffer, plain.byteOffset, plain.byteLength);
  const dtype = isBf16 ? "bf16" : "f32";
  return { name: "an adapter's matrix", dtype, shape, file: null, byteLength: bytes.length, bytes: () => bytes };
}
