// The step's integers on the GPU: the batch's columns and its plans in one buffer, written once per step. Ops know where each column begins.

import { AdapterRows } from "../../core/adapter-rows.js";
import type { AttentionPlan } from "../../core/attention-plan.js";
import type { Batch } from "../../core/batch.js";
import type { StagedBatch } from "../device.js";
import type { GpuBuffer, GpuQueue } from "./gpu-queue.js";

/** Integers of an item and of a merge entry. */
export const ITEM_INTS = 6;
export const MERGE_INTS = 4;

export interface StagedPlan {
  group: number;
  groupSize: number;
  window: number;
  attentionChunk: number;
  mostAhead: number;
  qTile: number;
  kvChunk: number;
  /** The most packed rows that a tile has. */
  tileRows: number;
  numPartials: number;
  /** No item gives its rows itself. */
  isAllMerged: boolean;
  items: number; // where they begin
  numItems: number;
  merges: number;
  numMerges: number;
}

const NO_ADAPTERS = new AdapterRows(0);

function newPlan(): StagedPlan {
  return {
    group: 0,
    groupSize: 1,
    window: 0,
    attentionChunk: 0,
    mostAhead: 1,
    qTile: 1,
    kvChunk: 1,
    tileRows: 1,
    numPartials: 0,
    isAllMerged: false,
    items: 0,
    numItems: 0,
    merges: 0,
    numMerges: 0,
  };
}

export class GpuStagedBatch implements StagedBatch {
  numTokens = 0;
  numRows = 0;
  numLogitRows = 0;
  adapters = NO_ADAPTERS;
  /** The batch's last position, at which tables of positions must reach. */
  lastPosition = 0;
  buffer: GpuBuffer;
  previous: GpuBuffer;
  // Where columns begin in the buffer.
  inputIds = 0;
  positions = 0;
  visibleEnd = 0;
  tokenTypes = 0;
  qoIndptr = 0;
  stateSlots = 0;
  stateLens = 0;
  logitRows = 0;
  adapterTokens = 0;
  adapterLogits = 0;
  readonly slots: number[] = []; // per group
  readonly kvIndptr: number[] = [];
  readonly kvIndices: number[] = [];
  readonly plans: StagedPlan[] = [];
  readonly #queue: GpuQueue;
  #ints: Int32Array;
  #at = 0;

  constructor(queue: GpuQueue, maxTokens: number, noTokens: GpuBuffer) {
    this.#queue = queue;
    this.#ints = new Int32Array(16 * maxTokens + 1024);
    this.buffer = queue.alloc(this.#ints.byteLength, "the staged step");
    this.previous = noTokens;
  }

  stage(batch: Batch, plans: readonly AttentionPlan[], previous: GpuBuffer): void {
    const { numTokens, numRows, numLogitRows, groups } = batch;
    this.#reserve(sizeOf(batch, plans));
    this.numTokens = numTokens;
    this.numRows = numRows;
    this.numLogitRows = numLogitRows;
    this.adapters = batch.adapters;
    this.previous = previous;
    this.lastPosition = 0;
    for (let t = 0; t < numTokens; t++)
      if (batch.positions[t]! > this.lastPosition) this.lastPosition = batch.positions[t]!;
    this.#at = 0;
    this.inputIds = this.#put(batch.inputIds, numTokens);
    this.positions = this.#put(batch.positions, numTokens);
    this.visibleEnd = this.#put(batch.visibleEnd, numTokens);
    this.tokenTypes = this.#put(batch.tokenTypes, numTokens);
    this.qoIndptr = this.#put(batch.qoIndptr, numRows + 1);
    this.stateSlots = this.#put(batch.stateSlots, numRows);
    this.stateLens = this.#put(batch.stateLens, numRows);
    this.logitRows = this.#put(batch.logitRows, numLogitRows);
    const { adapters } = batch;
    this.adapterTokens = this.#put(adapters.tokens, adapters.count === 0 ? 0 : adapters.tokenIndptr[adapters.count]!);
    this.adapterLogits = this.#put(adapters.logits, adapters.count === 0 ? 0 : adapters.logitIndptr[adapters.count]!);
    for (let g = 0; g < groups.length; g++) {
      const { slots, kvIndptr, kvIndices } = groups[g]!;
      this.slots[g] = this.#put(slots, numTokens);
      this.kvIndptr[g] = this.#put(kvIndptr, numRows + 1);
      this.kvIndices[g] = this.#put(kvIndices, numRows === 0 ? 0 : kvIndptr[numRows]!);
    }
    for (let i = 0; i < plans.length; i++) {
      if (i === this.plans.length) this.plans.push(newPlan());
      this.#putPlan(this.plans[i]!, plans[i]!, batch);
    }
    this.#queue.write(this.buffer, 0, this.#ints, 0, 4 * this.#at);
  }

  #putPlan(to: StagedPlan, plan: AttentionPlan, batch: Batch): void {
    const ints = this.#ints;
    to.group = plan.group;
    to.groupSize = plan.groupSize;
    to.window = plan.window;
    to.attentionChunk = plan.attentionChunk;
    to.mostAhead = plan.mostAhead;
    to.qTile = plan.qTile;
    to.kvChunk = plan.kvChunk;
    to.numPartials = plan.numPartials;
    to.numItems = plan.numItems;
    to.numMerges = plan.numMerges;
    to.tileRows = 1;
    for (let r = 0; r < batch.numRows; r++) {
      const packed = batch.queryLen(r) * plan.groupSize;
      if (packed > to.tileRows) to.tileRows = packed;
    }
    if (to.tileRows > plan.qTile) to.tileRows = plan.qTile;
    to.items = this.#at;
    to.isAllMerged = true;
    for (let i = 0; i < plan.numItems; i++) {
      const at = this.#at;
      ints[at] = plan.itemRow[i]!;
      ints[at + 1] = plan.itemQStart[i]!;
      ints[at + 2] = plan.itemKvStart[i]!;
      ints[at + 3] = plan.itemKvEnd[i]!;
      ints[at + 4] = plan.itemPartial[i]!;
      if (plan.itemPartial[i]! < 0) to.isAllMerged = false;
      ints[at + 5] = plan.itemQLen[i]!;
      this.#at = at + ITEM_INTS;
    }
    to.merges = this.#at;
    for (let i = 0; i < plan.numMerges; i++) {
      const at = this.#at;
      ints[at] = plan.mergeRow[i]!;
      ints[at + 1] = plan.mergeQStart[i]!;
      ints[at + 2] = plan.mergePartial[i]!;
      ints[at + 3] = plan.mergeCount[i]!;
      this.#at = at + MERGE_INTS;
    }
  }

  #put(column: Int32Array, count: number): number {
    const ints = this.#ints;
    const at = this.#at;
    for (let i = 0; i < count; i++) ints[at + i] = column[i]!;
    this.#at = at + count;
    return at;
  }

  /** Grows by doubling; flights that read the old buffer keep it. */
  #reserve(ints: number): void {
    if (ints <= this.#ints.length) return;
    this.#ints = new Int32Array(Math.max(ints, 2 * this.#ints.length));
    this.buffer = this.#queue.alloc(this.#ints.byteLength, "the staged step");
  }
}

/** An upper bound of the columns' and plans' length. */
function sizeOf({ numTokens, numRows, numLogitRows, groups }: Batch, plans: readonly AttentionPlan[]): number {
  let ints = 5 * numTokens + 3 * numRows + 1 + 2 * numLogitRows;
  for (let g = 0; g < groups.length; g++)
    ints += numTokens + numRows + 1 + (numRows === 0 ? 0 : groups[g]!.kvIndptr[numRows]!);
  for (let i = 0; i < plans.length; i++) ints += ITEM_INTS * plans[i]!.numItems + MERGE_INTS * plans[i]!.numMerges;
  return ints;
}
