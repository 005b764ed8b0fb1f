// The step's integers on the device: the batch's columns and its plans in one block, brought by one copy.
//
//   [0, HEADER)                 header: at GROUPS_AT + g the offset of group g's page ids, at PLANS_AT + p that of plan p
//   inputIds, positions, visibleEnd, tokenTypes [T], qoIndptr [R+1], stateSlots, stateLens [R], logitRows, per group slots [T]
//   where a row has an adapter: tokens [T] and logit rows by adapter, and items of both (adapter-items.ts)
//   then what varies between steps of one size: per group kvIndices, per plan its items (staged-plan.ts)
//
// The first part lies at addresses that (T, R, number of logit rows, of items) decide, so that graphs of decode steps keep their arguments;
// what varies is found through the header.

import { AdapterRows } from "../../core/adapter-rows.js";
import type { AttentionPlan } from "../../core/attention-plan.js";
import type { Batch } from "../../core/batch.js";
import type { StagedBatch, StepRoom } from "../device.js";
import { AdapterItems } from "./adapter-items.js";
import { check } from "./driver/abi.js";
import type { GraphCache } from "./driver/graph-cache.js";
import type { CudaRuntime } from "./runtime.js";
import { addPlanToKey, mostPlanInts, newStagedPlan, PlanWriter, planInts, type StagedPlan } from "./staged-plan.js";

const HEADER = 64;
export const GROUPS_AT = 8;
export const PLANS_AT = 32;
/** From so many numbers on a column is copied as a block. */
const LONG_COLUMN = 128;
/** Pinned blocks that take turns, so that a step is written while the copy of the one before runs. */
const RING = 3;
const NO_ADAPTERS = new AdapterRows(0);

export class CudaStagedBatch implements StagedBatch {
  numTokens = 0;
  numRows = 0;
  numLogitRows = 0;
  readonly maxTokens: number;
  readonly plans: StagedPlan[] = [];
  // Device addresses of the columns.
  step = 0;
  inputIds = 0;
  previous = 0;
  positions = 0;
  visibleEnd = 0;
  tokenTypes = 0;
  qoIndptr = 0;
  stateSlots = 0;
  stateLens = 0;
  logitRows = 0;
  readonly slots: number[] = []; // per group
  adapters: AdapterRows = NO_ADAPTERS;
  readonly tokenItems: AdapterItems;
  readonly logitItems: AdapterItems;
  readonly #runtime: CudaRuntime;
  readonly #ring: { address: number; ints: Int32Array; event: number; isUsed: boolean }[] = [];
  #turn = 0;
  #capacity = 0;
  #ints: Int32Array = new Int32Array(0);
  #at = 0;
  readonly #plans = new PlanWriter();
  #numPlans = 0;

  constructor(runtime: CudaRuntime, maxTokens: number) {
    this.#runtime = runtime;
    this.maxTokens = maxTokens;
    this.tokenItems = new AdapterItems(maxTokens);
    this.logitItems = new AdapterItems(maxTokens);
    runtime.lowRankRoom.reserveRows(runtime, maxTokens);
    if (runtime.stepRoom !== null) this.#reserve(mostInts(runtime.stepRoom, maxTokens));
  }

  /** `previous`: the device's tokens of the flight before, or 0. */
  stage(batch: Batch, plans: readonly AttentionPlan[], previous: number): void {
    const { numTokens, numRows, numLogitRows, groups } = batch;
    if (numTokens > this.maxTokens)
      throw new RangeError(`a batch of ${numTokens} tokens, staged for ${this.maxTokens}`);
    this.#groupAdapters(batch);
    this.#reserve(sizeOf(batch, plans) + this.tokenItems.numInts + this.logitItems.numInts);
    const slot = this.#ring[this.#turn]!;
    this.#turn = (this.#turn + 1) % RING;
    const { context, queue } = this.#runtime;
    const { driver, stream } = context;
    if (slot.isUsed) check(driver, driver.eventSynchronize(slot.event), "eventSynchronize");
    this.numTokens = numTokens;
    this.numRows = numRows;
    this.numLogitRows = numLogitRows;
    this.previous = previous;
    this.#ints = slot.ints;
    this.#at = HEADER;
    this.inputIds = this.#copy(batch.inputIds, numTokens);
    this.positions = this.#copy(batch.positions, numTokens);
    this.visibleEnd = this.#copy(batch.visibleEnd, numTokens);
    this.tokenTypes = this.#copy(batch.tokenTypes, numTokens);
    this.qoIndptr = this.#copy(batch.qoIndptr, numRows + 1);
    this.stateSlots = this.#copy(batch.stateSlots, numRows);
    this.stateLens = this.#copy(batch.stateLens, numRows);
    this.logitRows = this.#copy(batch.logitRows, numLogitRows);
    for (let g = 0; g < groups.length; g++) {
      this.slots[g] = this.#copy(groups[g]!.slots, numTokens);
    }
    this.#putItems(this.tokenItems, batch.adapters.tokens);
    this.#putItems(this.logitItems, batch.adapters.logits);
    for (let g = 0; g < groups.length; g++) {
      const { kvIndptr, kvIndices } = groups[g]!;
      slot.ints[GROUPS_AT + g] = this.#at;
      this.#copy(kvIndices, numRows === 0 ? 0 : kvIndptr[numRows]!);
    }
    this.#numPlans = plans.length;
    for (let p = 0; p < plans.length; p++) {
      slot.ints[PLANS_AT + p] = this.#at;
      if (p === this.plans.length) this.plans.push(newStagedPlan());
      const plan = plans[p]!;
      const pagesAt = slot.ints[GROUPS_AT + plan.group]!;
      this.#at = this.#plans.write(slot.ints, this.#at, plan, batch, pagesAt, this.plans[p]!);
    }
    queue.flush();
    check(driver, driver.copyIn(this.step, slot.address, 4 * this.#at, stream), "copyIn", this.step, 4 * this.#at);
    check(driver, driver.eventRecord(slot.event, stream), "eventRecord");
    slot.isUsed = true;
  }

  /** Everything of it that launches depend on: what lies at the addresses is no part of it. */
  addToKey(key: GraphCache): void {
    key.add(this.step).add(this.previous).add(this.numTokens).add(this.numRows).add(this.numLogitRows);
    key.add(this.tokenItems.count).add(this.logitItems.count);
    for (let p = 0; p < this.#numPlans; p++) addPlanToKey(key, this.plans[p]!);
  }

  #groupAdapters(batch: Batch): void {
    const { adapters, numTokens, numLogitRows } = batch;
    adapters.group(batch);
    this.adapters = adapters;
    const { slots, count, tokenIndptr, logitIndptr } = adapters;
    this.tokenItems.cut(slots, tokenIndptr, count, numTokens);
    this.logitItems.cut(slots, logitIndptr, count, numLogitRows);
  }

  /** Appends items and the list they are of, which has room for every row, so that what follows does not move. */
  #putItems(items: AdapterItems, rows: Int32Array): void {
    if (items.count === 0) return;
    items.items = this.#copy(items.ints, items.numInts);
    items.rows = this.#copy(rows, items.numRows);
  }

  /** Appends a column, aligned to 16 bytes; returns its device address. */
  #copy(from: Int32Array, count: number): number {
    const ints = this.#ints;
    const at = this.#at;
    if (count < LONG_COLUMN) for (let i = 0; i < count; i++) ints[at + i] = from[i]!;
    else ints.set(from.subarray(0, count), at);
    this.#at = (at + count + 3) & ~3;
    return this.step + 4 * at;
  }

  /** Grows by doubling where nobody has said what steps have. */
  #reserve(ints: number): void {
    if (ints <= this.#capacity) return;
    const { context, queue } = this.#runtime;
    queue.flush();
    context.synchronize();
    if (this.step !== 0) context.free(this.step);
    this.#capacity = Math.max(ints, 2 * this.#capacity, 8 * this.maxTokens + 4096);
    this.step = context.alloc(4 * this.#capacity, "the staged step");
    this.#ring.length = 0;
    const out = new BigUint64Array(1);
    for (let i = 0; i < RING; i++) {
      const { address, buffer } = context.allocPinned(4 * this.#capacity);
      check(context.driver, context.driver.eventCreate(out, 2), "eventCreate");
      this.#ring.push({ address, ints: new Int32Array(buffer), event: Number(out[0]), isUsed: false });
    }
  }
}

/** Of any batch, items of adapters included. */
function mostInts({ numPages, numGroups, groupSizes }: StepRoom, maxTokens: number): number {
  let ints = HEADER + 10 * maxTokens + 52 + 2 * 8 * maxTokens + numGroups * (16 + 2 * maxTokens) + numPages;
  for (const groupSize of groupSizes) ints += mostPlanInts(maxTokens, groupSize);
  return ints;
}

/** An upper bound of the block's length. */
function sizeOf({ numTokens, numRows, numLogitRows, groups }: Batch, plans: readonly AttentionPlan[]): number {
  let ints = HEADER + 5 * numTokens + 3 * numRows + 2 * numLogitRows + 52;
  for (let g = 0; g < groups.length; g++) {
    ints += 16 + numTokens + numRows + (numRows === 0 ? 0 : groups[g]!.kvIndptr[numRows]!);
  }
  for (let i = 0; i < plans.length; i++) ints += planInts(plans[i]!);
  return ints;
}
