// The attention plan of a past step, made again from its record. A plan depends on the lengths of its rows alone, so nothing has to be
// kept of it.

import type { AttentionPlanner } from "../../attention/planner.js";
import { Batch } from "../../core/batch.js";
import type { StepPlan, StepRow } from "../types.js";

/** One plan for each distinct window of the model. Overwrites the planners' arrays: not to be called within a step. */
export function planOfRows(
  rows: readonly StepRow[],
  planners: readonly AttentionPlanner[],
  pageSize: number,
  isBidirectional: boolean,
): StepPlan[] {
  const batch = new Batch(
    pageSize,
    rows.reduce((sum, row) => sum + row.queryLen, 0),
  );
  for (const { start, queryLen, contextLen } of rows) {
    const unused = new Int32Array(contextLen); // tokens and pages do not matter to a plan
    batch.addRow(unused, start, queryLen, unused, Number.POSITIVE_INFINITY);
    if (isBidirectional) batch.setVisibleEnd(contextLen, start, contextLen);
  }
  return planners.map((planner) => describe(planner.plan(batch)));
}

function describe(plan: ReturnType<AttentionPlanner["plan"]>): StepPlan {
  const { window, groupSize, qTile, kvChunk, numItems, numMerges } = plan;
  return {
    window,
    groupSize,
    qTile,
    kvChunk,
    items: Array.from({ length: numItems }, (_, i) => ({
      row: plan.itemRow[i]!,
      qStart: plan.itemQStart[i]!,
      kvStart: plan.itemKvStart[i]!,
      kvEnd: plan.itemKvEnd[i]!,
      isPartial: plan.itemPartial[i]! >= 0,
    })),
    merges: Array.from({ length: numMerges }, (_, i) => ({
      row: plan.mergeRow[i]!,
      qStart: plan.mergeQStart[i]!,
      count: plan.mergeCount[i]!,
    })),
  };
}
