// The attention plan: integers only, made once per step on the host (src/attention/), read by every layer's run.
//
// A query row for tiling is (token, head in group): a batch row with queryLen new tokens has packedQo = queryLen * G of them,
// ordered token-major: packed = token * G + headInGroup. A work item is one (batch row, q tile, KV chunk), run for each of the
// K kv heads. A q tile whose keys span several KV chunks is split: each of its items writes a partial state (o, m, d), and one
// merge entry joins the partials in ascending KV order.
//
// KV chunks begin at absolute positions that are multiples of kvChunk, whatever the row's length: the order of summation of a
// token depends on its position alone, so results do not change with batching, chunking or caching.

export interface AttentionPlan {
  /** Sliding window of the layers that use this plan: a token sees itself and the window-1 tokens before it; 0 is no window. */
  readonly window: number;
  /** G = H / K. */
  readonly groupSize: number;
  /** Packed query rows per tile. */
  qTile: number;
  /** Keys per chunk, in tokens; Infinity-free: a chunk that is never reached when splitting is off. */
  kvChunk: number;

  numItems: number;
  itemRow: Int32Array; // [numItems] batch row
  itemQStart: Int32Array; // [numItems] first packed query row of the tile, within the batch row
  itemKvStart: Int32Array; // [numItems] first key position (absolute)
  itemKvEnd: Int32Array; // [numItems] one past the last key position
  itemPartial: Int32Array; // [numItems] -1: writes its output directly; else the index of its partial
  itemValid: Uint8Array; // [numItems] 0: padding of a fixed-size (graph) launch, exits at once

  /** Items of worker w: workerItems[workerIndptr[w] .. workerIndptr[w+1]). */
  numWorkers: number;
  workerIndptr: Int32Array; // [numWorkers+1]
  workerItems: Int32Array; // [numItems]

  /** Each partial holds qTile packed rows for each kv head. */
  numPartials: number;
  numMerges: number;
  mergeRow: Int32Array; // [numMerges] batch row
  mergeQStart: Int32Array; // [numMerges] first packed query row of the tile
  mergePartial: Int32Array; // [numMerges] first partial; the partials of a tile are consecutive, ascending in KV
  mergeCount: Int32Array; // [numMerges]
}
