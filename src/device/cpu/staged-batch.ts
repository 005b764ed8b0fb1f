// The step's integers in native memory: the batch's arrays and its attention plans, copied once per step so that each op
// passes addresses only.

import type { AttentionPlan } from "../../core/attention-plan.js";
import type { Batch } from "../../core/batch.js";
import type { StagedBatch } from "../device.js";
import { type CpuContext, NativeInts } from "./memory.js";

export class CpuStagedBatch implements StagedBatch {
  numTokens = 0;
  numRows = 0;
  numLogitRows = 0;
  pageSize = 0;
  readonly maxTokens: number;
  readonly tokenIds: NativeInts; // [T]
  readonly rowOf: NativeInts; // [T]
  readonly positions: NativeInts; // [T]
  readonly slots: NativeInts; // [T]
  readonly qoIndptr: NativeInts; // [R+1]
  readonly kvIndptr: NativeInts; // [R+1]
  readonly lastPageLen: NativeInts; // [R]
  readonly logitRows: NativeInts; // [numLogitRows]
  readonly kvIndices: NativeInts; // [kvIndptr[R]]
  readonly plans: CpuStagedPlan[] = [];
  readonly #context: CpuContext;

  constructor(context: CpuContext, maxTokens: number) {
    this.#context = context;
    this.maxTokens = maxTokens;
    const ints = (count: number) => new NativeInts(context, count, "the staged batch");
    this.tokenIds = ints(maxTokens);
    this.rowOf = ints(maxTokens);
    this.positions = ints(maxTokens);
    this.slots = ints(maxTokens);
    this.qoIndptr = ints(maxTokens + 1);
    this.kvIndptr = ints(maxTokens + 1);
    this.lastPageLen = ints(maxTokens);
    this.logitRows = ints(maxTokens);
    this.kvIndices = ints(maxTokens);
  }

  stage(batch: Batch, plans: readonly AttentionPlan[]): void {
    const tokens = batch.numTokens;
    const rows = batch.numRows;
    if (tokens > this.maxTokens) throw new RangeError(`a batch of ${tokens} tokens, staged for ${this.maxTokens}`);
    this.numTokens = tokens;
    this.numRows = rows;
    this.numLogitRows = batch.numLogitRows;
    this.pageSize = batch.pageSize;
    this.tokenIds.fill(batch.tokenIds, tokens);
    this.rowOf.fill(batch.rowOf, tokens);
    this.positions.fill(batch.positions, tokens);
    this.slots.fill(batch.slots, tokens);
    this.qoIndptr.fill(batch.qoIndptr, rows + 1);
    this.kvIndptr.fill(batch.kvIndptr, rows + 1);
    this.lastPageLen.fill(batch.lastPageLen, rows);
    this.logitRows.fill(batch.logitRows, batch.numLogitRows);
    this.kvIndices.fill(batch.kvIndices, rows === 0 ? 0 : batch.kvIndptr[rows]!);
    for (let i = 0; i < plans.length; i++) {
      if (i === this.plans.length) this.plans.push(new CpuStagedPlan(this.#context));
      this.plans[i]!.stage(plans[i]!);
    }
  }
}

/** One attention plan in native memory. */
export class CpuStagedPlan {
  window = 0;
  groupSize = 0;
  qTile = 0;
  kvChunk = 0;
  numItems = 0;
  numWorkers = 0;
  numPartials = 0;
  numMerges = 0;
  readonly itemRow: NativeInts;
  readonly itemQStart: NativeInts;
  readonly itemKvStart: NativeInts;
  readonly itemKvEnd: NativeInts;
  readonly itemPartial: NativeInts;
  readonly itemValid: NativeInts; // bytes
  readonly workerIndptr: NativeInts;
  readonly workerItems: NativeInts;
  readonly mergeRow: NativeInts;
  readonly mergeQStart: NativeInts;
  readonly mergePartial: NativeInts;
  readonly mergeCount: NativeInts;

  constructor(context: CpuContext) {
    const ints = () => new NativeInts(context, 256, "the attention plan");
    this.itemRow = ints();
    this.itemQStart = ints();
    this.itemKvStart = ints();
    this.itemKvEnd = ints();
    this.itemPartial = ints();
    this.itemValid = ints();
    this.workerIndptr = ints();
    this.workerItems = ints();
    this.mergeRow = ints();
    this.mergeQStart = ints();
    this.mergePartial = ints();
    this.mergeCount = ints();
  }

  stage(plan: AttentionPlan): void {
    const items = plan.numItems;
    const merges = plan.numMerges;
    this.window = plan.window;
    this.groupSize = plan.groupSize;
    this.qTile = plan.qTile;
    this.kvChunk = plan.kvChunk;
    this.numItems = items;
    this.numWorkers = plan.numWorkers;
    this.numPartials = plan.numPartials;
    this.numMerges = merges;
    this.itemRow.fill(plan.itemRow, items);
    this.itemQStart.fill(plan.itemQStart, items);
    this.itemKvStart.fill(plan.itemKvStart, items);
    this.itemKvEnd.fill(plan.itemKvEnd, items);
    this.itemPartial.fill(plan.itemPartial, items);
    this.itemValid.fill(plan.itemValid, items);
    this.workerIndptr.fill(plan.workerIndptr, plan.numWorkers + 1);
    this.workerItems.fill(plan.workerItems, items);
    this.mergeRow.fill(plan.mergeRow, merges);
    this.mergeQStart.fill(plan.mergeQStart, merges);
    this.mergePartial.fill(plan.mergePartial, merges);
    this.mergeCount.fill(plan.mergeCount, merges);
  }
}
