// The step's integers in native memory: the batch's arrays and its attention plans, copied once per step so that each op
// passes addresses only.

import type { AttentionPlan } from "../../core/attention-plan.js";
import type { Batch } from "../../core/batch.js";
import type { StagedBatch } from "../device.js";
import { type CpuContext, NativeInts } from "./memory.js";
import { CpuStagedPlan } from "./staged-plan.js";

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
