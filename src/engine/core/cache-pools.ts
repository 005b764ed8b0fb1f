// From a model's cache groups to what the device and the planner need: the shapes of pools, planners, the bytes of a page.

import { AttentionPlanner, type PlannerOptions } from "../../attention/planner.js";
import type { Device, KvDtype, KvPoolSpec } from "../../device/device.js";
import type { CacheSpec, PlanSpec } from "../../models/model.js";

/** The part of a pool's spec that the model decides. */
export function poolShape({ layers, numKvHeads, keyDim, valueDim }: CacheSpec) {
  return { numLayers: layers.length, numKvHeads, keyDim, valueDim };
}

/** The specs of one page in each group. */
export function pageSpecs(
  caches: readonly CacheSpec[],
  page: { readonly pageSize: number; readonly dtype: KvDtype },
): readonly Omit<KvPoolSpec, "numPages">[] {
  return caches.map((cache) => ({ ...page, ...poolShape(cache) }));
}

/** Bytes of one page, all groups together. */
export function pageBytes(specs: readonly Omit<KvPoolSpec, "numPages">[], device: Device): number {
  return specs.reduce((sum, spec) => sum + device.kvPageBytes(spec), 0);
}

export function plannerFor(
  plan: PlanSpec,
  caches: readonly CacheSpec[],
  device: Device,
  split: PlannerOptions["split"],
): AttentionPlanner {
  const { numKvHeads, keyDim } = caches[plan.group]!;
  return new AttentionPlanner({
    groupSize: plan.numHeads / numKvHeads,
    headDim: keyDim,
    window: plan.window,
    numWorkers: device.info.numWorkers,
    split,
    kvChunk: device.info.kvChunk,
  });
}
