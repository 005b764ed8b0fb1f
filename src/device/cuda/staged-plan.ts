// An attention plan as the kernels read it (native/cuda/attention.cuh): a header, then a record for each block's work, those of the
// decode kernel first, long ones before short ones so that the last blocks to run are short. Decodes that are split come before all
// others that are no longer than their spans, those of most units first: the last block of such a row also folds its states, which must
// not begin when nothing else is left.
//
// The plan's parts of one chunk each are put together again in spans of neighbours of about one length: enough blocks to keep the GPU
// busy, and no more. Behind the items is one of each split tile: attention-merge.cu folds its states.

import { type AttentionPlan, visibleStart } from "../../core/attention-plan.js";
import type { Batch } from "../../core/batch.js";
import { bucket, ceilDiv } from "../../core/math.js";
import type { GraphCache } from "./driver/graph-cache.js";

/** Keys that are multiplied at a time: attention.cuh. */
export const UNIT = 128;
/**
 * Keys whose sums are one state, of latents and of other heads. The fewer, the more blocks share a long row; but prompts fold their sums at each
 * end of a chunk, so short ones cost them. Latents have one head, and rows of theirs one block or two without chunks.
 */
export const LATENT_CHUNK = 256;
export const CHUNK = 512;
/** Packed rows in the partial states of a plan, at most. */
export const MOST_PARTIAL_ROWS = 65536;
/** Tiles of at most this many packed rows are the decode kernel's. */
const DECODE_ROWS = 16;
/** Rows of an extend kernel's block. */
export const EXTEND_ROWS = 64;
const HEADER = 12;
const ITEM = 12;
const MOST_SPAN_KEYS = 2048;
const SPANS = 2 ** 24; // more than any plan has
const MOST_CHUNKS = 2 ** 24; // more than any item has

/** What the host must know of a staged plan to launch its kernels. */
export interface StagedPlan {
  group: number;
  /** Packed rows in the largest tile, and those a partial state has room for. */
  maxRows: number;
  stateRows: number;
  numDecodes: number;
  numExtends: number;
  numPartials: number;
  numTiles: number; // split ones
}

/** An upper bound of a plan's integers. */
export function planInts({ numItems, numMerges }: AttentionPlan): number {
  return 4 + HEADER + ITEM * (numItems + numMerges);
}

/** Of any plan: an item for each tile of 16 packed rows or a row's rest, and for each part and merge of those that are split. */
export function mostPlanInts(maxTokens: number, groupSize: number): number {
  const numTiles = maxTokens * (1 + ceilDiv(groupSize, DECODE_ROWS));
  return 4 + HEADER + ITEM * (numTiles + (2 * MOST_PARTIAL_ROWS) / DECODE_ROWS);
}

export class PlanWriter {
  // Spans of the plan being written.
  #item = new Int32Array(256); // first item
  #length = new Int32Array(256); // items
  #tile = new Int32Array(256); // of a split tile: its merge
  #order = new Float64Array(256); // rank * SPANS + span, ascending

  /** Writes the plan at ints[at]; `pagesAt` is where the group's page ids lie in it. Returns the end. */
  write(ints: Int32Array, at: number, plan: AttentionPlan, batch: Batch, pagesAt: number, staged: StagedPlan): number {
    const { groupSize, itemRow, itemQStart, itemQLen, itemKvStart, itemKvEnd, itemPartial } = plan;
    const { qoIndptr, positions } = batch;
    const { kvIndptr } = batch.groups[plan.group]!;
    const numSpans = this.#cut(plan, staged);
    staged.group = plan.group;
    staged.numPartials = plan.numPartials;
    staged.numTiles = plan.numMerges;
    staged.numExtends = numSpans - staged.numDecodes;

    ints[at] = plan.window;
    ints[at + 1] = groupSize;
    ints[at + 2] = staged.stateRows;
    ints[at + 3] = 2 * plan.mostAhead + (isPerChunk(plan) ? 1 : 0);
    ints[at + 4] = numSpans;
    ints[at + 5] = plan.attentionChunk;
    ints[at + 6] = staged.numDecodes;
    ints[at + 7] = groupSize === 1 ? 0 : Math.ceil(2 ** 32 / groupSize);
    ints[at + 8] = plan.numMerges;
    ints[at + 9] = Math.log2(chunkOf(plan));
    let decode = at + HEADER;
    let extend = decode + ITEM * staged.numDecodes;
    let merge = at + HEADER + ITEM * numSpans;
    const order = this.#order;
    const items = this.#item;
    const lengths = this.#length;
    const tiles = this.#tile;
    for (let i = numSpans - 1; i >= 0; i--) {
      const span = order[i]! - Math.floor(order[i]! / SPANS) * SPANS; // % of doubles is a call
      const item = items[span]!;
      const tile = tiles[span]!;
      const row = itemRow[item]!;
      const rows = itemQLen[item]!;
      const token0 = qoIndptr[row]!;
      const firstToken = token0 + ((itemQStart[item]! / groupSize) | 0);
      const to = rows <= DECODE_ROWS ? decode : extend;
      if (rows <= DECODE_ROWS) decode += ITEM;
      else extend += ITEM;
      ints[to] = token0;
      ints[to + 1] = itemQStart[item]!;
      ints[to + 2] = rows;
      ints[to + 3] = itemKvStart[item]!;
      ints[to + 4] = itemKvEnd[item + lengths[span]! - 1]!;
      ints[to + 5] = visibleStart(plan, positions[firstToken]!);
      ints[to + 6] = pagesAt + kvIndptr[row]!;
      ints[to + 7] = itemPartial[item]!;
      ints[to + 8] = tile < 0 ? 0 : plan.mergePartial[tile]!;
      ints[to + 9] = tile < 0 ? 0 : plan.mergeCount[tile]!;
      ints[to + 10] = positions[token0]!;
      if (tile < 0 || itemPartial[item] !== plan.mergePartial[tile]) continue;
      ints.copyWithin(merge, to, to + ITEM);
      merge += ITEM;
    }
    return merge;
  }

  /** Puts neighbouring parts together, sorts the spans and counts them; returns how many there are. */
  #cut(plan: AttentionPlan, staged: StagedPlan): number {
    const { numItems, numMerges, itemQLen, itemKvStart, itemKvEnd, itemPartial } = plan;
    if (this.#item.length < numItems) this.#grow(numItems);
    const order = this.#order;
    const items = this.#item;
    const lengths = this.#length;
    const tiles = this.#tile;
    const chunk = chunkOf(plan);
    let chunks = 0;
    for (let i = 0; i < numItems; i++) chunks += chunksIn(itemKvStart[i]!, itemKvEnd[i]!, chunk);
    const mostSpan = isPerChunk(plan) ? MOST_SPAN_KEYS / chunk : 1;
    const mostFor = (blocks: number) => Math.min(mostSpan, Math.max(1, Math.floor(chunks / blocks)));
    const most = mostFor(3 * plan.numWorkers);
    const mostTall = mostFor(plan.numWorkers); // a block that begins costs more than a chunk
    let spans = 0;
    let tile = -1;
    let before = 0; // spans of the tile so far
    let numDecodes = 0;
    let maxRows = 0;
    let stateRows = 0;
    for (let i = 0; i < numItems; ) {
      const partial = itemPartial[i]!;
      const rows = itemQLen[i]!;
      const isDecode = rows <= DECODE_ROWS;
      let length = 1;
      let rank = 0;
      if (partial >= 0) {
        if (tile + 1 < numMerges && plan.mergePartial[tile + 1] === partial) {
          tile++;
          before = 0;
        }
        const parts = plan.mergeCount[tile]!;
        const count = ceilDiv(parts, isDecode ? most : mostTall);
        length = Math.floor((parts * (before + 1)) / count) - Math.floor((parts * before) / count);
        before++;
        if (isDecode) rank = MOST_CHUNKS + parts;
        if (rows > stateRows) stateRows = rows;
      }
      if (isDecode) numDecodes++;
      if (rows > maxRows) maxRows = rows;
      const span = spans++;
      items[span] = i;
      lengths[span] = length;
      tiles[span] = partial < 0 ? -1 : tile;
      if (rank === 0) {
        rank = chunksIn(itemKvStart[i]!, itemKvEnd[i + length - 1]!, chunk);
        if (rank > most && isDecode) rank += 2 * MOST_CHUNKS;
      }
      order[span] = rank * SPANS + span;
      i += length;
    }
    order.subarray(0, spans).sort();
    staged.numDecodes = numDecodes;
    staged.maxRows = maxRows;
    staged.stateRows = stateRows;
    return spans;
  }

  #grow(numItems: number): void {
    const size = 2 * numItems;
    this.#item = new Int32Array(size);
    this.#length = new Int32Array(size);
    this.#tile = new Int32Array(size);
    this.#order = new Float64Array(size);
  }
}

/** Whether the parts of a split item are the chunks that the kernels sum; those of balanced plans have any length, and a state each. */
function isPerChunk({ kvChunk }: AttentionPlan): boolean {
  return kvChunk === CHUNK || kvChunk === LATENT_CHUNK;
}

/** Keys of the chunks that the kernels sum. */
function chunkOf(plan: AttentionPlan): number {
  return isPerChunk(plan) ? plan.kvChunk : CHUNK;
}

function chunksIn(from: number, to: number, chunk: number): number {
  return ((to - from + chunk - 1) / chunk) | 0;
}

/** What launches take of a plan (kv-ops.ts): grids of few sizes. */
export function addPlanToKey(key: GraphCache, plan: StagedPlan): void {
  const { group, maxRows, stateRows, numDecodes, numExtends, numTiles } = plan;
  key
    .add(group)
    .add(bucket(numDecodes))
    .add(bucket(numExtends))
    .add(bucket(numDecodes + numExtends));
  key.add(bucket(numTiles)).add(numTiles === 0 ? 0 : stateRows);
  key.add(numExtends === 0 ? 0 : Math.ceil(maxRows / EXTEND_ROWS));
}

export function newStagedPlan(): StagedPlan {
  return {
    group: 0,
    maxRows: 0,
    stateRows: 0,
    numDecodes: 0,
    numExtends: 0,
    numPartials: 0,
    numTiles: 0,
  };
}
