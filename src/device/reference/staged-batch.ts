// The reference device reads the batch and its plans where they are: staging is remembering them.

import type { AdapterRows } from "../../core/adapter-rows.js";
import type { AttentionPlan } from "../../core/attention-plan.js";
import { Batch } from "../../core/batch.js";
import type { StagedBatch } from "../device.js";

export class ReferenceStagedBatch implements StagedBatch {
  batch = new Batch(1, 0);
  plans: readonly AttentionPlan[] = [];

  get numTokens(): number {
    return this.batch.numTokens;
  }
  get numRows(): number {
    return this.batch.numRows;
  }
  get adapters(): AdapterRows {
    return this.batch.adapters;
  }
  get numLogitRows(): number {
    return this.batch.numLogitRows;
  }
}
