// From a model's cache groups to what the device and the planner need: the shapes of pools, planners, the bytes of a page.

import { AttentionPlanner, type PlannerOptions } from "../../attention/planner.js";
import type { CacheSpec } from "../../core/cache-spec.js";
import type { Device, KvDtype, KvPoolSpec } from "../../device/device.js";
import type { Caches, PlanSpec } from "../../models/model.js";

/** The part of a pool's spec that the model decides; `group` is its place among the model's caches. */
export function poolShape({ kind, layers, numKvHeads, keyDim, valueDim }: CacheSpec, group: number) {
  return { group, numLayers: layers.length, numKvHeads, keyDim, valueDim, isLatent: kind === "latent" };
}

/** The specs of one page in each group. */
export function pageSpecs(
  caches: readonly CacheSpec[],
  page: { readonly pageSize: number; readonly dtype: KvDtype },
): readonly Omit<KvPoolSpec, "numPages">[] {
  return caches.map((cache, group) => ({ ...page, ...poolShape(cache, group) }));
}

/** One pool per group, all with the same number of pages; `numSlots` of the state pool, where there is one. */
export function allocCaches(
  caches: readonly CacheSpec[],
  device: Device,
  page: { readonly pageSize: number; readonly dtype: KvDtype; readonly numPages: number },
  numSlots: number,
): Caches {
  return caches.map((cache, group) =>
    cache.kind === "state"
      ? device.allocStatePool({ numSlots, floats: cache.stateFloats! })
      : device.allocKvPool({ ...page, ...poolShape(cache, group) }),
  );
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
    group: plan.group,
    window: plan.window,
    attentionChunk: plan.attentionChunk ?? 0,
    numWorkers: device.info.numWorkers,
    split,
    kvChunk: device.info.kvChunk,
  });
}
