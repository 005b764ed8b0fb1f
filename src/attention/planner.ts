// Plans attention for a batch: q tiles, KV chunks, work items, merge lists. Once per step and kind of layer, integers only, no
// allocation once its arrays have grown to the workload. The result is valid until the next call. Which worker runs which item
// is not planned: workers take items as they come free.
//
//   fixed     chunks of a constant size; a tile is split only when it is more than half of a worker's fair share. Splitting does
//             not change a bit of the result (core/attention-plan.ts), so results never depend on the batch.
//   balanced  the chunk is searched for each batch, the smallest that fits the workers. Results may differ in the last bits.

import {
  AttentionPlan,
  aheadOf,
  grownInts,
  MAX_PARTIAL_ROWS,
  type VisibleRule,
  visibleEnd,
  visibleStart,
} from "../core/attention-plan.js";
import type { Batch } from "../core/batch.js";
import { errorFor } from "../core/errors.js";
import { alignDown, ceilDiv } from "../core/math.js";
import { searchKvChunk } from "./kv-chunk.js";

/** The layers a plan is for. */
export interface PlanShape {
  readonly groupSize: number; // G
  readonly headDim: number; // D
  /** K; a device that runs an item once for each kv head counts its workers by it. 1 when left out. */
  readonly numKvHeads?: number;
  /** The cache group its layers keep their keys in; the first when left out. */
  readonly group?: number;
  /** 0 is no window. */
  readonly window: number;
  /** 0, or left out, is no chunked attention. */
  readonly attentionChunk?: number;
  /** See VisibleRule; left out: as far ahead as the window reaches back. */
  readonly mostAhead?: number;
  readonly split: "fixed" | "balanced";
  /** The type of its pages, where a device has more workers for some. */
  readonly kvDtype?: string;
}

export interface PlannerOptions extends PlanShape {
  /** Work units a batch is split for: threads, or CTAs per kv head where a launch runs every item once per kv head (workersPerHead). */
  readonly numWorkers: number;
  /** fixed: keys per chunk. balanced: the least keys per chunk. */
  readonly kvChunk: number;
  /** A constant tile where a kernel has one; left out: chosen from the batch. */
  readonly qTile?: number;
  /**
   * Cost of an item = 2 * q + kv + pairCost * q * kv. The first two are memory traffic; arithmetic matters beside it on a CPU
   * (a sixteenth: 16 lanes work while one key arrives), hardly on a GPU (0).
   */
  readonly pairCost?: number;
  /** Most packed rows in partial states, numPartials * qTile; MAX_PARTIAL_ROWS when left out. */
  readonly maxPartialRows?: number;
  /**
   * Where tiles of more than 16 rows run on fewer workers (one block on a multiprocessor where two decodes fit): their number. A
   * batch with such tiles is cut for these.
   */
  readonly tallWorkers?: number;
  /** fixed: tiles that see no more keys than this are not split, whatever their share: states and their merge would cost more. None when left out. */
  readonly wholeKeys?: number;
  /**
   * fixed: no tile is split when whole tiles keep the longest worker within this share above the fair one, of a batch of decodes
   * and of one with taller tiles. Left out: every tile of more than half a fair share is split.
   */
  readonly slack?: { readonly decode: number; readonly tall: number };
}

/** Tiles there is room for at first. */
const FIRST_TILES = 64;

export class AttentionPlanner {
  readonly #options: PlannerOptions;
  readonly #pairCost: number;
  readonly #maxPartialRows: number;
  readonly #plan: AttentionPlan;
  readonly #visible: VisibleRule;

  // The q tiles of the batch, before they are cut into items.
  #numTiles = 0;
  #tileRow = new Int32Array(FIRST_TILES); // [numTiles]
  #tileQStart = new Int32Array(FIRST_TILES); // [numTiles] first packed row
  #tileQLen = new Int32Array(FIRST_TILES); // [numTiles] packed rows in it
  #tileKvStart = new Int32Array(FIRST_TILES); // [numTiles] first key that any of its tokens sees
  #tileKvEnd = new Int32Array(FIRST_TILES); // [numTiles] the first key that none of its tokens sees
  // The same ranges in pages, for the search of balanced mode.
  #firstPage = new Int32Array(FIRST_TILES); // [numTiles]
  #endPage = new Int32Array(FIRST_TILES); // [numTiles]

  constructor(options: PlannerOptions) {
    atLeast("groupSize", options.groupSize, 1);
    atLeast("headDim", options.headDim, 1);
    atLeast("window", options.window, 0);
    atLeast("numWorkers", options.numWorkers, 1);
    atLeast("kvChunk", options.kvChunk, 1);
    if (options.qTile !== undefined) atLeast("qTile", options.qTile, 1);
    this.#options = options;
    this.#pairCost = options.pairCost ?? 1 / 16;
    this.#maxPartialRows = options.maxPartialRows ?? MAX_PARTIAL_ROWS;
    const { window, attentionChunk = 0, mostAhead = aheadOf(window) } = options;
    this.#visible = { window, attentionChunk, mostAhead };
    atLeast("attentionChunk", attentionChunk, 0);
    atLeast("mostAhead", mostAhead, 1);
    this.#plan = new AttentionPlan(options.group ?? 0, this.#visible, options.groupSize);
  }

  /**
   * The plan of a batch. With `padItems`, items and merges are padded so that every batch which fits gives a launch of the same
   * size (graph mode); a batch with more q tiles than that is returned unpadded, with numItems > padItems.
   */
  plan(batch: Batch, padItems = 0): AttentionPlan {
    const plan = this.#plan;
    plan.clear();
    plan.qTile = this.#options.qTile ?? chooseQTile(this.#typicalPackedLen(batch, padItems > 0), this.#options.headDim);
    this.#makeTiles(batch, plan.qTile);
    const { numWorkers, tallWorkers = numWorkers } = this.#options;
    plan.numWorkers = plan.qTile > 16 ? tallWorkers : numWorkers;
    const budget = padItems > 0 ? Math.min(padItems, plan.numWorkers) : plan.numWorkers;
    plan.kvChunk = this.#options.split === "fixed" ? this.#options.kvChunk : this.#searchChunk(batch, budget);
    this.#makeItems(padItems);
    plan.pad(padItems);
    return plan;
  }

  /**
   * The packed length that a query row finds itself in, on average: sum(len^2) / sum(len). In a batch of equals that is the plain
   * average; but many decodes do not drag the tile of a long chunk beside them down to their own, and they lose nothing, since
   * rows that a tile does not have are not computed. In graph mode it is the longest length possible, so that the tile is the
   * same for all batches of a size.
   */
  #typicalPackedLen(batch: Batch, isGraph: boolean): number {
    const { groupSize } = this.#options;
    const { numRows, numTokens } = batch;
    if (numTokens === 0) return 0;
    if (isGraph) return (numTokens - numRows + 1) * groupSize;
    let squares = 0;
    for (let row = 0; row < numRows; row++) squares += batch.queryLen(row) ** 2;
    return Math.floor((squares / numTokens) * groupSize);
  }

  /** Cuts every row's packed queries into tiles. Both ends of what a token sees grow along a row, so they bound a tile's keys. */
  #makeTiles(batch: Batch, qTile: number): void {
    const { groupSize } = this.#options;
    this.#numTiles = 0;
    for (let row = 0; row < batch.numRows; row++) {
      const first = batch.qoIndptr[row]!;
      const packedLen = batch.queryLen(row) * groupSize;
      for (let q = 0; q < packedLen; q += qTile) {
        const qEnd = Math.min(q + qTile, packedLen);
        const firstToken = first + Math.floor(q / groupSize);
        const lastToken = first + Math.floor((qEnd - 1) / groupSize);
        const tile = this.#numTiles++;
        if (tile === this.#tileRow.length) this.#growTiles();
        const kvEnd = visibleEnd(this.#visible, batch.positions[lastToken]!, batch.visibleEnd[lastToken]!);
        this.#tileRow[tile] = row;
        this.#tileQStart[tile] = q;
        this.#tileQLen[tile] = qEnd - q;
        this.#tileKvStart[tile] = Math.min(kvEnd, visibleStart(this.#visible, batch.positions[firstToken]!));
        this.#tileKvEnd[tile] = kvEnd;
      }
    }
  }

  /** The chunk of balanced mode, in tokens; searched in whole pages. */
  #searchChunk(batch: Batch, budget: number): number {
    const { pageSize } = batch;
    for (let i = 0; i < this.#numTiles; i++) {
      this.#firstPage[i] = Math.floor(this.#tileKvStart[i]! / pageSize);
      this.#endPage[i] = ceilDiv(this.#tileKvEnd[i]!, pageSize);
    }
    const room = Math.floor(this.#maxPartialRows / this.#plan.qTile);
    const minChunk = Math.max(1, Math.floor(this.#options.kvChunk / pageSize));
    return pageSize * searchKvChunk(this.#firstPage, this.#endPage, this.#numTiles, Math.min(budget, room), minChunk);
  }

  /** Items in the order row, q tile, KV chunk. */
  #makeItems(padItems: number): void {
    const plan = this.#plan;
    const { kvChunk, qTile } = plan;
    const isFixed = this.#options.split === "fixed";
    const threshold = isFixed ? this.#splitThreshold() : 0;
    const wholeKeys = isFixed ? (this.#options.wholeKeys ?? 0) : 0;
    let partialRoom = Math.floor(this.#maxPartialRows / qTile);
    let itemRoom = padItems > 0 ? padItems - this.#numTiles : Infinity;

    for (let i = 0; i < this.#numTiles; i++) {
      const row = this.#tileRow[i]!;
      const q = this.#tileQStart[i]!;
      const qLen = this.#tileQLen[i]!;
      const kvEnd = this.#tileKvEnd[i]!;
      const kvStart = alignDown(this.#tileKvStart[i]!, kvChunk);
      const numKeys = kvEnd - this.#tileKvStart[i]!;
      const cost = this.#cost(qLen, numKeys);
      const numChunks = ceilDiv(kvEnd - kvStart, kvChunk);
      const canSplit = numChunks > 1 && numKeys > wholeKeys && numChunks <= partialRoom && numChunks - 1 <= itemRoom;
      if (!canSplit || cost <= threshold || plan.numWorkers === 1) {
        plan.addItem(row, q, qLen, kvStart, kvEnd, -1);
        continue;
      }
      partialRoom -= numChunks;
      itemRoom -= numChunks - 1;
      plan.addMerge(row, q, plan.numPartials, numChunks);
      for (let chunk = kvStart; chunk < kvEnd; chunk += kvChunk) {
        const chunkEnd = Math.min(chunk + kvChunk, kvEnd);
        plan.addItem(row, q, qLen, chunk, chunkEnd, plan.numPartials++);
      }
    }
  }

  /** The cost above which a tile is split in fixed mode. */
  #splitThreshold(): number {
    const { numWorkers } = this.#plan;
    const slack = this.#options.slack?.[this.#plan.qTile > 16 ? "tall" : "decode"];
    let total = 0;
    let most = 0;
    for (let i = 0; i < this.#numTiles; i++) {
      const cost = this.#cost(this.#tileQLen[i]!, this.#tileKvEnd[i]! - this.#tileKvStart[i]!);
      total += cost;
      most = Math.max(most, cost);
    }
    const share = total / numWorkers;
    if (slack !== undefined && most * ceilDiv(this.#numTiles, numWorkers) <= (1 + slack) * share) return Infinity;
    return share / 2;
  }

  #cost(q: number, kv: number): number {
    return 2 * q + kv + this.#pairCost * q * kv;
  }

  #growTiles(): void {
    this.#tileRow = grownInts(this.#tileRow);
    this.#tileQStart = grownInts(this.#tileQStart);
    this.#tileQLen = grownInts(this.#tileQLen);
    this.#tileKvStart = grownInts(this.#tileKvStart);
    this.#tileKvEnd = grownInts(this.#tileKvEnd);
    this.#firstPage = grownInts(this.#firstPage);
    this.#endPage = grownInts(this.#endPage);
  }
}

function atLeast(param: string, value: number, least: number): void {
  if (Number.isInteger(value) && value >= least) return;
  throw errorFor("invalid_option", { param, value, expected: `a whole number, at least ${least}` });
}

/**
 * The tile for an average packed length (queryLen * G). Long rows get tall tiles, so that a key read once serves many queries; a
 * decode row gets the smallest, so that little of the tile is empty. Wide heads leave less room for a tile's accumulators.
 */
export function chooseQTile(avgPackedLen: number, headDim: number): number {
  if (headDim >= 512) return avgPackedLen > 16 ? 32 : 16;
  if (avgPackedLen > 64 && headDim < 256) return 128;
  return avgPackedLen > 16 ? 64 : 16;
}
