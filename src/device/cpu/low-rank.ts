// Adapters' matrices as the native library holds them. Rows of all adapters are one call of it for each product; their sums are their own, so
// a row's bits do not depend on its neighbours.

import type { Activation, LowRank, LowRankSpec, Tensor } from "../device.js";
import { ACTIVATION_CODE } from "./codes.js";
import type { CpuContext, CpuTensor } from "./memory.js";
import type { CpuWeight } from "./weights.js";

const UNSUPPORTED = -4; // PG_E_UNSUPPORTED

const ITEM_NUMBERS = 5;
/** Room at first: runs of rows, and matrices of a product, of all adapters of a step. */
const USUAL_ITEMS = 1024;

export interface CpuLowRank extends LowRank, Omit<LowRankSpec, "a" | "b"> {
  readonly handle: number;
}

export class CpuLowRanks {
  readonly #context: CpuContext;
  readonly #loaded = new Set<CpuLowRank>();
  /** What the next product adds, as native/cpu/src/low-rank.h has it. */
  #items = new Float64Array(0);
  #numItems = 0;
  #itemsAt = 0;

  constructor(context: CpuContext) {
    this.#context = context;
  }

  load({ a, b, ...spec }: LowRankSpec): CpuLowRank {
    const { rank, inputs, cols } = spec;
    if (a.length !== rank * inputs || b.length !== cols * rank) {
      throw new RangeError(`${a.length} and ${b.length} numbers for rank ${rank}, ${inputs} inputs, ${cols} outputs`);
    }
    const { native, handle: context } = this.#context;
    const handle = this.#context.create(
      "pg_low_rank_create",
      (out) => native.pg_low_rank_create(context, rank, inputs, cols, a, b, out),
      a.byteLength + b.byteLength,
      "an adapter's matrices",
    );
    const lowRank = { ...spec, handle, byteLength: native.pg_low_rank_bytes(handle) };
    this.#loaded.add(lowRank);
    return lowRank;
  }

  free(lowRank: CpuLowRank): void {
    const { native, handle } = this.#context;
    if (this.#loaded.delete(lowRank)) native.pg_low_rank_free(handle, lowRank.handle);
  }

  /** Puts rows of one adapter to the items of the next product. */
  addLowRank(
    _out: Tensor,
    x: Tensor,
    lowRank: LowRank,
    rows: Int32Array,
    from: number,
    to: number,
    base: number,
  ): void {
    const { inputs } = lowRank as CpuLowRank;
    if (inputs !== x.cols) throw new RangeError(`an adapter for ${inputs} inputs at ${x.cols}`);
    for (let i = from; i < to; ) {
      let end = i + 1;
      while (end < to && rows[end] === rows[end - 1]! + 1) end++;
      this.#put(lowRank as CpuLowRank, rows[i]! - base, end - i);
      i = end;
    }
  }

  /** Adds the items to a product: one call, however many adapters there are. */
  addAll(out: CpuTensor, x: CpuTensor): void {
    const count = this.#takeItems();
    if (count === 0) return;
    const { native, handle } = this.#context;
    const status = native.pg_low_rank(handle, out.address, out.stride, x.address, x.stride, this.#itemsAt, count);
    this.#context.check(status, "pg_low_rank");
  }

  /** out = act(gate) * up, with the items added to both before. false: nothing was done, and they are dropped. */
  gate(out: CpuTensor, x: CpuTensor, weight: CpuWeight, activation: Activation, n: number): boolean {
    const count = this.#takeItems();
    const { native, handle } = this.#context;
    const code = ACTIVATION_CODE[activation];
    const w = weight.handle;
    const at = this.#itemsAt;
    const status = native.pg_gated_matmul(handle, out.address, out.stride, x.address, x.stride, w, n, code, at, count);
    if (status === UNSUPPORTED) return false;
    this.#context.check(status, "pg_gated_matmul");
    return true;
  }

  #takeItems(): number {
    const count = this.#numItems;
    this.#numItems = 0;
    return count;
  }

  #put({ handle, firstCol, scale }: CpuLowRank, row: number, n: number): void {
    if (ITEM_NUMBERS * this.#numItems === this.#items.length) this.#grow();
    const items = this.#items;
    let at = ITEM_NUMBERS * this.#numItems++;
    items[at++] = handle;
    items[at++] = row;
    items[at++] = n;
    items[at++] = firstCol;
    items[at] = scale;
  }

  #grow(): void {
    const old = this.#items;
    const length = Math.max(ITEM_NUMBERS * USUAL_ITEMS, 2 * old.length);
    const address = this.#context.alloc(8 * length, "what a product's adapters are");
    const { buffer, byteOffset } = this.#context.native.view(address, 8 * length);
    this.#items = new Float64Array(buffer as ArrayBuffer, byteOffset, length);
    this.#items.set(old);
    if (this.#itemsAt !== 0) this.#context.free(this.#itemsAt);
    this.#itemsAt = address;
  }

  close(): void {
    for (const lowRank of [...this.#loaded]) this.free(lowRank);
  }
}
