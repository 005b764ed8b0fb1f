// The plan of a step, arranged for looking at: how each query tile's keys are cut.

import type { PlanItem, StepPlan, StepRow } from "./wire.js";

/** The items of one q tile, ascending in keys; more than one when its keys were split, to be merged. */
export interface TileView {
  readonly row: number;
  readonly qStart: number;
  /** Packed query rows (token, head in group) of the tile. */
  readonly qLen: number;
  readonly items: readonly PlanItem[];
}

export interface PlanView {
  readonly tiles: readonly TileView[];
  readonly numPartials: number;
  readonly numMerges: number;
}

export function viewPlan(plan: StepPlan, rows: readonly StepRow[]): PlanView {
  const tiles = new Map<string, { row: number; qStart: number; qLen: number; items: PlanItem[] }>();
  let numPartials = 0;
  for (const item of plan.items) {
    const { row, qStart } = item;
    const qLen = Math.min(plan.qTile, rows[row]!.queryLen * plan.groupSize - qStart);
    if (item.isPartial) numPartials++;
    const tile = tiles.get(`${row}:${qStart}`);
    if (tile === undefined) tiles.set(`${row}:${qStart}`, { row, qStart, qLen, items: [item] });
    else tile.items.push(item);
  }
  return { tiles: [...tiles.values()], numPartials, numMerges: plan.merges.length };
}
