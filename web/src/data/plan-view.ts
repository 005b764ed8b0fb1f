// The plan of a step, arranged for looking at: what each worker does, and how each query tile's keys are cut.

import type { PlanItem, StepPlan, StepRow } from "./wire.js";

export interface PlannedItem extends PlanItem {
  /** Packed query rows (token, head in group) of the item's tile. */
  readonly qLen: number;
  /** What the planner balances: memory traffic of queries and keys, and the arithmetic of each pair. */
  readonly cost: number;
}

export interface WorkerLoad {
  readonly worker: number;
  readonly items: readonly PlannedItem[];
  readonly cost: number;
}

/** The items of one q tile, ascending in keys; more than one when its keys were split, to be merged. */
export interface TileView {
  readonly row: number;
  readonly qStart: number;
  readonly qLen: number;
  readonly items: readonly PlannedItem[];
}

export interface PlanView {
  readonly workers: readonly WorkerLoad[];
  readonly tiles: readonly TileView[];
  readonly numPartials: number;
  readonly numMerges: number;
  /** The busiest worker against the mean: 1 is even. */
  readonly imbalance: number;
}

export function viewPlan(plan: StepPlan, rows: readonly StepRow[]): PlanView {
  const workers = Array.from({ length: plan.numWorkers }, (_, worker) => ({
    worker,
    items: [] as PlannedItem[],
    cost: 0,
  }));
  const tiles = new Map<string, { row: number; qStart: number; qLen: number; items: PlannedItem[] }>();
  let numPartials = 0;
  for (const item of plan.items) {
    const packed = rows[item.row]!.queryLen * plan.groupSize;
    const qLen = Math.min(plan.qTile, packed - item.qStart);
    const kvLen = item.kvEnd - item.kvStart;
    const planned = { ...item, qLen, cost: 2 * qLen + kvLen + (qLen * kvLen) / 16 };
    const worker = workers[item.worker]!;
    worker.items.push(planned);
    worker.cost += planned.cost;
    if (item.isPartial) numPartials++;
    const key = `${item.row}:${item.qStart}`;
    const tile = tiles.get(key);
    if (tile === undefined) tiles.set(key, { row: item.row, qStart: item.qStart, qLen, items: [planned] });
    else tile.items.push(planned);
  }
  const total = workers.reduce((sum, { cost }) => sum + cost, 0);
  const busiest = Math.max(0, ...workers.map(({ cost }) => cost));
  return {
    workers,
    tiles: [...tiles.values()],
    numPartials,
    numMerges: plan.merges.length,
    imbalance: total === 0 ? 1 : (busiest * workers.length) / total,
  };
}
