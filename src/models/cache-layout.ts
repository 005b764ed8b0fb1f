// Where each layer keeps what later tokens need: the cache groups of a model, the attention plans over them, and the place of
// every layer. Layers of one shape that see equally far back share a group, whose layers are numbered from 0 within it.

import type { CacheKind, CacheSpec } from "../core/cache-spec.js";
import type { PlanSpec } from "./model.js";

/** What one layer's attention keeps and sees. */
export interface AttentionNeed {
  readonly numHeads: number; // H
  readonly numKvHeads: number; // K
  readonly keyDim: number; // D
  readonly valueDim: number; // Dv
  /** 0: everything before it. */
  readonly window: number;
  /** Chunked attention (core/attention-plan.ts); 0, or left out, is none. */
  readonly attentionChunk?: number;
  /** See PlanSpec. */
  readonly mostAhead?: number;
  /** A value is the first valueDim numbers of its key. */
  readonly isLatent?: boolean;
  /** latent: see CacheSpec. */
  readonly expandedFloats?: number;
  /** The layer whose keys and values this one reads instead of writing its own. */
  readonly sharedWith?: number;
}

/** A layer's keys and values, and the plan that reads them. */
export interface LayerCacheRef {
  readonly group: number;
  /** Index within the group. */
  readonly layer: number;
  readonly plan: number;
}

/** Where a layer's recurrent state begins in the slots of a state pool. */
export interface LayerStateRef {
  readonly group: number;
  readonly offset: number;
}

export interface CacheLayout {
  readonly caches: readonly CacheSpec[];
  readonly plans: readonly PlanSpec[];
  /** [L] null for layers without attention. */
  readonly places: readonly (LayerCacheRef | null)[];
  /** [L] null for layers without recurrent state. */
  readonly states: readonly (LayerStateRef | null)[];
}

/** Lays out the layers' needs in order; null is a layer without attention. `stateFloats`: numbers of recurrent state of each layer. */
export function layoutCaches(
  needs: readonly (AttentionNeed | null)[],
  stateFloats: readonly number[] = [],
): CacheLayout {
  const caches: (CacheSpec & { layers: number[] })[] = [];
  const plans: PlanSpec[] = [];
  const places: (LayerCacheRef | null)[] = [];
  needs.forEach((need, layer) => {
    if (need === null) {
      places.push(null);
      return;
    }
    const { numHeads, numKvHeads, keyDim, valueDim, window, attentionChunk = 0, mostAhead, sharedWith } = need;
    const owner = sharedWith === undefined ? null : places[sharedWith]!;
    let group = owner?.group ?? caches.findIndex((cache) => holds(cache, need));
    if (group < 0) {
      group = caches.length;
      const shape = { numKvHeads, keyDim, valueDim, window, attentionChunk };
      const { expandedFloats } = need;
      caches.push({
        kind: kindOf(need),
        layers: [],
        ...shape,
        ...(expandedFloats === undefined ? {} : { expandedFloats }),
      });
    }
    const { layers } = caches[group]!;
    if (owner === null) layers.push(layer);
    // A layer that reads another's keys may see less of them than their owner does.
    const own: PlanSpec = {
      group,
      numHeads,
      window,
      attentionChunk,
      ...(mostAhead === undefined ? {} : { mostAhead }),
    };
    let plan = plans.findIndex((p) => isSame(p, own));
    if (plan < 0) plan = plans.push(own) - 1;
    places.push({ group, layer: owner?.layer ?? layers.length - 1, plan });
  });
  return { caches, plans, places, states: layoutStates(caches, stateFloats) };
}

/**
 * Layers whose tokens see the whole text. It is computed at once, so a layer's keys and values serve that layer alone: all layers
 * write to the same place, one after the other. What they see of it are their plans.
 */
export function layoutBidirectional(needs: readonly AttentionNeed[]): CacheLayout {
  const { numKvHeads, keyDim, valueDim } = needs[0]!;
  const plans: PlanSpec[] = [];
  const places = needs.map(({ numHeads, window }) => {
    const known = plans.findIndex((plan) => plan.numHeads === numHeads && plan.window === window);
    return { group: 0, layer: 0, plan: known < 0 ? plans.push({ group: 0, numHeads, window }) - 1 : known };
  });
  const cache: CacheSpec = { kind: "full", layers: [0], numKvHeads, keyDim, valueDim, window: 0, attentionChunk: 0 };
  return { caches: [cache], plans, places, states: needs.map(() => null) };
}

/** One group for the states of all recurrent layers, end to end in a slot. */
function layoutStates(caches: CacheSpec[], floats: readonly number[]): (LayerStateRef | null)[] {
  const group = caches.length;
  let offset = 0;
  const states = floats.map((count) => {
    if (count === 0) return null;
    offset += count;
    return { group, offset: offset - count };
  });
  const layers = floats.flatMap((count, layer) => (count > 0 ? [layer] : []));
  if (offset > 0) caches.push({ kind: "state", layers, numKvHeads: 0, keyDim: 0, valueDim: 0, stateFloats: offset });
  return states;
}

function isSame(a: PlanSpec, b: PlanSpec): boolean {
  return (
    a.group === b.group &&
    a.numHeads === b.numHeads &&
    a.window === b.window &&
    a.attentionChunk === b.attentionChunk &&
    a.mostAhead === b.mostAhead
  );
}

function holds(cache: CacheSpec, need: AttentionNeed): boolean {
  const { numKvHeads, keyDim, valueDim, window, attentionChunk = 0 } = need;
  return (
    cache.kind === kindOf(need) &&
    cache.numKvHeads === numKvHeads &&
    cache.keyDim === keyDim &&
    cache.valueDim === valueDim &&
    cache.window === window &&
    cache.attentionChunk === attentionChunk
  );
}

function kindOf({ window, attentionChunk = 0, isLatent = false }: AttentionNeed): CacheKind {
  if (window > 0 || attentionChunk > 0) return "window";
  return isLatent ? "latent" : "full";
}
