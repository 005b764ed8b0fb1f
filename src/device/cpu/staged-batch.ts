// The step in native memory: the batch's columns and its attention plans, written straight into the one block of the native
// step (native/cpu/src/step.h has its layout), checked once, and passed to every op as one handle.

import { AdapterRows } from "../../core/adapter-rows.js";
import { type AttentionPlan, MAX_PARTIAL_ROWS } from "../../core/attention-plan.js";
import type { Batch } from "../../core/batch.js";
import type { StagedBatch, StepRoom } from "../device.js";
import type { CpuContext } from "./memory.js";

const MAX_INT32 = 0x7fffffff;
/** Packed rows of the smallest tile of a plan. */
const LEAST_TILE = 16;

export class CpuStagedBatch implements StagedBatch {
  numTokens = 0;
  numRows = 0;
  numLogitRows = 0;
  readonly maxTokens: number;
  adapters = new AdapterRows(0);
  /** The native step. */
  readonly handle: number;
  readonly #context: CpuContext;
  #block = new Int32Array(0);
  #at = 0;

  constructor(context: CpuContext, maxTokens: number) {
    this.#context = context;
    this.maxTokens = maxTokens;
    this.handle = context.create("pg_step_create", (out) => context.native.pg_step_create(context.handle, out));
  }

  /** Room for every step there can be. */
  reserve({ numPages, numGroups, groupSizes }: StepRoom): void {
    const { maxTokens } = this;
    let ints = 6 + 9 * maxTokens + 1 + numGroups * (2 + 2 * maxTokens) + numPages;
    for (const groupSize of groupSizes) {
      const numTiles = maxTokens * (1 + Math.ceil(groupSize / LEAST_TILE));
      ints += 10 + 6 * (numTiles + MAX_PARTIAL_ROWS / LEAST_TILE) + 4 * numTiles;
    }
    this.#reserve(ints);
  }

  stage(batch: Batch, plans: readonly AttentionPlan[]): void {
    const { numTokens, numRows, numLogitRows } = batch;
    if (numTokens > this.maxTokens)
      throw new RangeError(`a batch of ${numTokens} tokens, staged for ${this.maxTokens}`);
    this.#reserve(sizeOf(batch, plans));
    this.numTokens = numTokens;
    this.numRows = numRows;
    this.numLogitRows = numLogitRows;
    this.adapters = batch.adapters;
    this.#at = 0;
    this.#put(numTokens);
    this.#put(numRows);
    this.#put(numLogitRows);
    this.#put(batch.pageSize);
    this.#put(batch.groups.length);
    this.#put(plans.length);
    this.#copy(batch.inputIds, numTokens);
    this.#copy(batch.positions, numTokens);
    this.#copy(batch.visibleEnd, numTokens);
    this.#copy(batch.tokenTypes, numTokens);
    this.#copy(batch.qoIndptr, numRows + 1);
    this.#copy(batch.stateSlots, numRows);
    this.#copy(batch.stateLens, numRows);
    this.#copy(batch.logitRows, numLogitRows);
    for (let g = 0; g < batch.groups.length; g++) {
      const { slots, kvIndptr, kvIndices } = batch.groups[g]!;
      const numIndices = numRows === 0 ? 0 : kvIndptr[numRows]!;
      this.#put(numIndices);
      this.#copy(slots, numTokens);
      this.#copy(kvIndptr, numRows + 1);
      this.#copy(kvIndices, numIndices);
    }
    for (let i = 0; i < plans.length; i++) this.#putPlan(plans[i]!);
    const { native, handle } = this.#context;
    this.#context.check(native.pg_step_stage(handle, this.handle, this.#at), "pg_step_stage");
  }

  free(): void {
    this.#context.native.pg_step_free(this.handle);
  }

  #putPlan(plan: AttentionPlan): void {
    const { numItems, numMerges } = plan;
    this.#put(plan.group);
    this.#put(plan.window);
    this.#put(plan.attentionChunk);
    this.#put(plan.mostAhead);
    this.#put(plan.groupSize);
    this.#put(plan.qTile);
    this.#put(Math.min(plan.kvChunk, MAX_INT32));
    this.#put(numItems);
    this.#put(plan.numPartials);
    this.#put(numMerges);
    this.#copy(plan.itemRow, numItems);
    this.#copy(plan.itemQStart, numItems);
    this.#copy(plan.itemKvStart, numItems);
    this.#copy(plan.itemKvEnd, numItems);
    this.#copy(plan.itemPartial, numItems);
    this.#copy(plan.itemQLen, numItems);
    this.#copy(plan.mergeRow, numMerges);
    this.#copy(plan.mergeQStart, numMerges);
    this.#copy(plan.mergePartial, numMerges);
    this.#copy(plan.mergeCount, numMerges);
  }

  #put(value: number): void {
    this.#block[this.#at++] = value;
  }

  #copy(from: Int32Array, count: number): void {
    const block = this.#block;
    const at = this.#at;
    for (let i = 0; i < count; i++) block[at + i] = from[i]!;
    this.#at = at + count;
  }

  /** Grows by doubling where nobody has said what steps have; what the block held is lost. */
  #reserve(ints: number): void {
    if (ints <= this.#block.length) return;
    const capacity = Math.max(ints, 2 * this.#block.length, 1024);
    const { native, handle } = this.#context;
    const address = this.#context.create(
      "pg_step_reserve",
      (out) => native.pg_step_reserve(handle, this.handle, capacity, out),
      4 * capacity,
      "the staged step",
    );
    const { buffer, byteOffset } = native.view(address, 4 * capacity);
    this.#block = new Int32Array(buffer as ArrayBuffer, byteOffset, capacity);
  }
}

/** The block's length. */
function sizeOf({ numTokens, numRows, numLogitRows, groups }: Batch, plans: readonly AttentionPlan[]): number {
  let ints = 7 + 4 * numTokens + 3 * numRows + numLogitRows;
  for (let g = 0; g < groups.length; g++) {
    ints += 2 + numTokens + numRows + (numRows === 0 ? 0 : groups[g]!.kvIndptr[numRows]!);
  }
  for (let i = 0; i < plans.length; i++) ints += 10 + 6 * plans[i]!.numItems + 4 * plans[i]!.numMerges;
  return ints;
}
