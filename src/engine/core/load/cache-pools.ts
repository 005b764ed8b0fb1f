// From a model's cache groups to what the device and the planner need: the shapes of pools, planners, the bytes of a page.

import type { AttentionPlanner, PlanShape } from "../../../attention/planner.js";
import { aheadOf } from "../../../core/attention-plan.js";
import type { CacheSpec } from "../../../core/cache-spec.js";
import type { Device, KvDtype, KvPoolSpec } from "../../../device/device.js";
import type { Caches, PlanSpec } from "../../../models/model.js";

/** The part of a pool's spec that the model decides; `group` is its place among the model's caches. */
export function poolShape({ kind, layers, numKvHeads, keyDim, valueDim }: CacheSpec, group: number) {
  return { group, numLayers: layers.length, numKvHeads, keyDim, valueDim, isLatent: kind === "latent" };
}

/** What the engine decides of every page. */
export interface PageShape {
  readonly pageSize: number;
  readonly dtype: KvDtype;
}

/** Groups with pages; the state group, where there is one, comes after them. */
export function pagedCaches(caches: readonly CacheSpec[]): readonly CacheSpec[] {
  const paged = caches.filter(({ kind }) => kind !== "state");
  const isLast = caches.slice(0, paged.length).every(({ kind }) => kind !== "state");
  if (!isLast || caches.length > paged.length + 1) throw new Error("a model has one state group at most, as its last");
  return paged;
}

/** The specs of one page in each group that has pages. */
export function pageSpecs(caches: readonly CacheSpec[], page: PageShape): readonly Omit<KvPoolSpec, "numPages">[] {
  return pagedCaches(caches).map((cache, group) => ({ ...page, ...poolShape(cache, group) }));
}

/** Bytes of a page, or of a state, of each group. */
export function pageBytesOf(caches: readonly CacheSpec[], device: Device, page: PageShape): number[] {
  const bytes = pageSpecs(caches, page).map((spec) => device.kvPageBytes(spec));
  const states = caches[bytes.length];
  return states === undefined ? bytes : [...bytes, 4 * states.stateFloats!];
}

/** The pools of all groups; `sizes` counts their pages, or the slots of states. */
export function allocCaches(
  caches: readonly CacheSpec[],
  device: Device,
  page: PageShape,
  sizes: readonly number[],
): Caches {
  const pools = pageSpecs(caches, page).map((spec, g) => device.allocKvPool({ ...spec, numPages: sizes[g]! }));
  const states = caches[pools.length];
  if (states === undefined) return pools;
  return [...pools, device.allocStatePool({ numSlots: sizes[pools.length]!, floats: states.stateFloats! })];
}

export function plannerFor(
  plan: PlanSpec,
  caches: readonly CacheSpec[],
  device: Device,
  split: PlanShape["split"],
  kvDtype: KvDtype,
): AttentionPlanner {
  const { numKvHeads, keyDim } = caches[plan.group]!;
  const { group, window, attentionChunk = 0, mostAhead = aheadOf(window) } = plan;
  const groupSize = plan.numHeads / numKvHeads;
  return device.createPlanner({
    group,
    groupSize,
    numKvHeads,
    headDim: keyDim,
    window,
    attentionChunk,
    mostAhead,
    split,
    kvDtype,
  });
}
