// What a model keeps of the tokens it has seen: groups of layers that keep the same kind of thing in the same shape. A group has
// a pool of its own on the device, and every request a page table in each group.
//
//   full     keys and values of all tokens
//   window   keys and values that a later token can still see; pages behind are given back
//   latent   one compressed key per token that all heads share; its first valueDim numbers are the value too, stored once
//   state    a recurrence's state, of fixed size: one slot per request, and snapshots at page boundaries

/** What layers keep of a token: keys and values, those in a window, one latent; or a state of fixed size. */
export type CacheKind = "full" | "window" | "latent" | "state";

export interface CacheSpec {
  readonly kind: CacheKind;
  /** The model's layers that live in this group, in order; a layer's place in this list is its layer in the pool. */
  readonly layers: readonly number[];
  readonly numKvHeads: number; // K
  readonly keyDim: number; // D
  readonly valueDim: number; // Dv
  /** window: how far back a token sees, as one of the two rules of core/attention-plan.ts. */
  readonly window?: number;
  readonly attentionChunk?: number;
  /** latent: numbers that the keys and values of all heads would take, a token and layer. */
  readonly expandedFloats?: number;
  /** state: f32 numbers of one request's states, all layers together. */
  readonly stateFloats?: number;
}
