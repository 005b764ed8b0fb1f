// Adapters on the GPU: their matrices, the tables by slot that kernels find them in, and the two launches of a product that has some
// (native/cuda/low-rank.cu). Which adapters a step has is data, so steps of one size are one graph.

import { f32ToBf16 } from "../../core/dequantize/small-floats.js";
import { alignUp, ceilDiv } from "../../core/math.js";
import type { LowRank, LowRankSpec, LowRanks, StagedBatch } from "../device.js";
import type { AdapterItems } from "./adapter-items.js";
import type { RowUploads } from "./row-uploads.js";
import type { CudaRuntime } from "./runtime.js";
import type { CudaStagedBatch } from "./staged-batch.js";
import type { CudaTensor } from "./tensor.js";

const SITE_WORDS = 12;
const FIRST_SLOTS = 16;
const ITEM_BYTES = 16;
const BLOCK_COLS = 256;
const SHRINK_THREADS = 128;
const EXPAND_THREADS = 256;
/** Rows of a pair of launches, where a step is no graph: it bounds the room for what rows are shrunk to. */
const MOST_ROWS = 1024;
/** Items of such launches times matrices of an adapter at a product. */
const MOST_COUNTS = 16384;

export interface CudaLowRank extends LowRank, Omit<LowRankSpec, "a" | "b"> {
  readonly address: number;
  readonly b: number;
  /** bf16 does not hold its numbers: they have a second plane. */
  readonly isWide: boolean;
}

/** Memory for what rows are shrunk to, which all products share. */
export class LowRankRoom {
  address = 0;
  /** Integers that blocks count in, zero between launches: one for an item and a matrix. */
  arrived = 0;
  #maxRows = 0;
  #floatsPerRow = 0;
  #floats = 0;

  /** For steps of so many rows too. */
  reserveRows(runtime: CudaRuntime, rows: number): void {
    this.#maxRows = Math.max(this.#maxRows, Math.min(MOST_ROWS, rows));
    this.#reserve(runtime);
  }

  /** For a product that shrinks a row to so many numbers too. */
  reserveWidth(runtime: CudaRuntime, floatsPerRow: number): void {
    this.#floatsPerRow = Math.max(this.#floatsPerRow, floatsPerRow);
    this.#reserve(runtime);
  }

  #reserve({ context, queue }: CudaRuntime): void {
    const floats = this.#floatsPerRow * this.#maxRows;
    if (floats <= this.#floats) return;
    if (this.arrived === 0) this.arrived = context.alloc(4 * MOST_COUNTS, "what adapters' blocks count in");
    queue.flush();
    if (this.address !== 0) {
      context.synchronize();
      context.free(this.address);
    }
    this.#floats = Math.max(floats, 2 * this.#floats);
    this.address = context.alloc(4 * this.#floats, "what adapters shrink rows to");
  }
}

export class CudaLowRanks implements LowRanks {
  readonly #runtime: CudaRuntime;
  readonly #uploads: RowUploads;
  readonly #numSites: number;
  readonly #counts: number[] = []; // sites of a slot that have something
  readonly #ranks: number[] = []; // of a slot, all sites together
  #words: Int32Array; // [slots, sites, SITE_WORDS]
  #table = 0;
  #numLoaded = 0;
  /** Most of all that were ever here: launches are made for them, so that they change seldom. */
  #width = 0;
  #cols = 0;

  constructor(runtime: CudaRuntime, uploads: RowUploads, numSites: number) {
    this.#runtime = runtime;
    this.#uploads = uploads;
    this.#numSites = numSites;
    this.#words = new Int32Array(0);
  }

  add(slot: number, lowRank: LowRank): void {
    const { address, b, rank, inputs, firstCol, cols, isWide, scale } = lowRank as CudaLowRank;
    const at = this.#counts[slot] ?? 0;
    if (at === this.#numSites) throw new RangeError(`an adapter has more than ${at} matrices at one product`);
    this.#reserveSlots(slot + 1);
    const offset = this.#ranks[slot] ?? 0;
    const words = this.#words.subarray((slot * this.#numSites + at) * SITE_WORDS);
    putAddress(words, 0, address);
    putAddress(words, 2, b);
    words.set([rank, alignUp(rank, 8), firstCol, cols, offset, isWide ? 1 : 0], 4);
    new Float32Array(words.buffer, words.byteOffset, SITE_WORDS)[10] = scale;
    this.#counts[slot] = at + 1;
    this.#ranks[slot] = offset + rank;
    this.#numLoaded++;
    this.#width = Math.max(this.#width, alignUp(offset + rank, 16));
    this.#cols = Math.max(this.#cols, cols);
    this.#runtime.lowRankRoom.reserveWidth(this.#runtime, (ceilDiv(inputs, chunkOf(inputs)) + 1) * this.#width);
    this.#upload(slot);
  }

  drop(slot: number): void {
    const count = this.#counts[slot] ?? 0;
    if (count === 0) return;
    this.#numLoaded -= count;
    this.#counts[slot] = this.#ranks[slot] = 0;
    this.#words.fill(0, slot * this.#numSites * SITE_WORDS, (slot + 1) * this.#numSites * SITE_WORDS);
    this.#upload(slot);
  }

  isIn(batch: StagedBatch): boolean {
    return this.#numLoaded > 0 && (batch as CudaStagedBatch).tokenItems.count > 0;
  }

  /** The launch before the product: it needs x alone, so the product's weights are on their way while it runs. */
  before(out: CudaTensor, x: CudaTensor, batch: CudaStagedBatch, n: number, firstLogit: number): void {
    const items = itemsOf(batch, firstLogit);
    if (items.count === 0 || items.numRows > MOST_ROWS) return;
    this.#launch("shrink", false, out, x, items, n, firstLogit, 0, items.count);
  }

  /**
   * The launches behind the product. `isBeside`: the one that would have come before it comes here, and runs while the product does, which holds
   * it back until x is there. A step of many rows has both here in any case, part by part.
   */
  behind(
    out: CudaTensor,
    x: CudaTensor,
    batch: CudaStagedBatch,
    n: number,
    firstLogit: number,
    isBeside = false,
  ): void {
    const items = itemsOf(batch, firstLogit);
    if (items.count === 0) return;
    out.storage.version++;
    if (items.numRows <= MOST_ROWS) {
      if (isBeside) this.#launch("shrink", true, out, x, items, n, firstLogit, 0, items.count);
      this.#launch("expand", false, out, x, items, n, firstLogit, 0, items.count);
      return;
    }
    let last = items.count;
    while (items.slotOf(last - 1) < 0) last--;
    for (let first = 0; first < last; ) {
      let end = first + 1;
      while (end < last && items.endOf(end) - items.firstOf(first) <= MOST_ROWS) end++;
      this.#launch("shrink", false, out, x, items, n, firstLogit, first, end - first);
      this.#launch("expand", false, out, x, items, n, firstLogit, first, end - first);
      first = end;
    }
  }

  #launch(
    kernel: "shrink" | "expand",
    waitsLast: boolean,
    out: CudaTensor,
    x: CudaTensor,
    items: AdapterItems,
    n: number,
    firstLogit: number,
    firstItem: number,
    numItems: number,
  ): void {
    const { queue, modules, lowRankRoom } = this.#runtime;
    const chunk = chunkOf(x.cols);
    const isShrink = kernel === "shrink";
    const chunks = ceilDiv(x.cols, chunk);
    const entries = Math.min(items.numRows, MOST_ROWS);
    const blocks = isShrink ? chunks : ceilDiv(this.#cols, BLOCK_COLS);
    queue
      .begin(
        modules.functionOf("low-rank", `low_rank_${kernel}_${items.rowsOfItem}`),
        blocks,
        numItems,
        this.#numSites,
        isShrink ? SHRINK_THREADS : EXPAND_THREADS,
        0,
      )
      .long(out.address)
      .long(x.address)
      .long(lowRankRoom.address)
      .long(lowRankRoom.address + 4 * chunks * entries * this.#width)
      .long(lowRankRoom.arrived)
      .long(this.#table)
      .long(items.items + ITEM_BYTES * firstItem)
      .long(items.rows)
      .long(out.stride)
      .long(x.stride)
      .int(this.#numSites)
      .int(n)
      .int(Math.max(0, firstLogit))
      .int(firstItem === 0 ? 0 : items.firstOf(firstItem))
      .int(entries)
      .int(x.cols)
      .int(chunk)
      .int(this.#width)
      .int(waitsLast ? 1 : 0)
      .int(0)
      .end();
  }

  #reserveSlots(slots: number): void {
    const slotWords = this.#numSites * SITE_WORDS;
    if (slots * slotWords <= this.#words.length) return;
    const { context, queue } = this.#runtime;
    const words = new Int32Array(slotWords * Math.max(FIRST_SLOTS, 2 ** Math.ceil(Math.log2(slots))));
    words.set(this.#words);
    this.#words = words;
    queue.flush();
    if (this.#table !== 0) {
      context.synchronize();
      context.free(this.#table);
    }
    this.#table = context.alloc(4 * words.length, "the table of a product's adapters");
    for (let slot = 0; slot < this.#counts.length; slot++) this.#upload(slot);
  }

  #upload(slot: number): void {
    const cols = this.#numSites * SITE_WORDS;
    const values = new Float32Array(this.#words.buffer, 4 * slot * cols, cols);
    this.#uploads.write({ address: this.#table, stride: cols, cols }, slot, values, 1);
  }
}

export function loadLowRank(runtime: CudaRuntime, uploads: RowUploads, spec: LowRankSpec): CudaLowRank {
  const { rank, inputs, cols, a, b, ...rest } = spec;
  if (a.length !== rank * inputs || b.length !== cols * rank) {
    throw new RangeError(`${a.length} and ${b.length} numbers for rank ${rank}, ${inputs} inputs, ${cols} outputs`);
  }
  const isWide = !(isBf16(a) && isBf16(b));
  const planes = isWide ? 2 : 1;
  const [aCols, bCols] = [alignUp(inputs, 32), alignUp(rank, 8)];
  const aBytes = alignUp(2 * planes * rank * aCols, 256);
  const byteLength = aBytes + 2 * planes * cols * bCols;
  const address = runtime.context.alloc(byteLength, "an adapter's matrices");
  upload(uploads, address, a, rank, aCols, planes);
  upload(uploads, address + aBytes, b, cols, bCols, planes);
  return { ...rest, rank, inputs, cols, isWide, address, b: address + aBytes, byteLength };
}

function itemsOf(batch: CudaStagedBatch, firstLogit: number): AdapterItems {
  return firstLogit >= 0 ? batch.logitItems : batch.tokenItems;
}

/** Inputs that one block shrinks. It decides the order of sums, so it depends on the inputs alone. */
function chunkOf(inputs: number): number {
  return inputs <= 8192 ? 256 : 512;
}

function isBf16(values: Float32Array): boolean {
  return new Uint32Array(values.buffer, values.byteOffset, values.length).every((word) => (word & 0xffff) === 0);
}

/** Planes of `rows` rows of bf16: the numbers rounded, then what that leaves of them. */
function upload(
  uploads: RowUploads,
  address: number,
  values: Float32Array,
  rows: number,
  paddedCols: number,
  planes: number,
): void {
  const cols = values.length / rows;
  const codes = new Uint16Array(planes * rows * paddedCols);
  const bits = new Uint32Array(1);
  const float = new Float32Array(bits.buffer);
  for (let r = 0; r < rows; r++) {
    for (let c = 0; c < cols; c++) {
      const value = values[r * cols + c]!;
      const code = f32ToBf16(value);
      codes[r * paddedCols + c] = code;
      if (planes === 1) continue;
      bits[0] = code << 16;
      codes[(rows + r) * paddedCols + c] = f32ToBf16(value - float[0]!);
    }
  }
  // As the floats whose bits they are: uploads copy them as they lie.
  const words = new Float32Array(codes.buffer);
  uploads.write({ address, stride: paddedCols / 2, cols: paddedCols / 2 }, 0, words, planes * rows);
}

function putAddress(words: Int32Array, at: number, address: number): void {
  words[at] = address | 0;
  words[at + 1] = Math.floor(address / 0x1_0000_0000) | 0;
}
