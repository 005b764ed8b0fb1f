// The attention plan: integers only, made once per step on the host (src/attention/), read by every layer's run.
//
// A query row for tiling is (token, head in group): a batch row with queryLen new tokens has packedQo = queryLen * G of them,
// ordered token-major: packed = token * G + headInGroup. A work item is a run of keys for one q tile, for each of the K kv heads.
//
// KV chunks begin at absolute positions that are multiples of kvChunk, whatever the row's length. A chunk is summed from an
// empty state (o, m, d), key tiles ascending, and the chunk states are folded left to right: ((s0 + s1) + s2) + ... So an item is
//   - whole (itemPartial -1): all chunks of its q tile; it folds each chunk's state into the running one and writes the output;
//   - a part (itemPartial >= 0): exactly one chunk; it writes its state, and one merge entry folds the tile's partials.
// Both give the same bits: the order of summation of a token depends on its position and kvChunk alone, so in fixed mode results
// do not change with batching, chunking of the prompt, caching, or the choice to split.
//
// A row of a tile that sees no key of a chunk has an empty state there (m = -inf, d = 0), and folding an empty state changes
// nothing. Sinks join once, after the last fold.

/** Upper bound of numPartials * qTile in a plan, where a planner is not told another: devices size their partial states by it. */
export const MAX_PARTIAL_ROWS = 16384;

/** More keys than any row has. */
export const ALL_AHEAD = 2 ** 30;

/** The rule for the keys a token sees; at most one of window and attentionChunk is set, none is full attention. */
export interface VisibleRule {
  /** Sliding window: a token sees itself and window - 1 tokens before it; 0: none. */
  readonly window: number;
  /** Chunked attention (Llama 4): a token sees its own chunk of the sequence, from absolute multiples of this on; 0: none. */
  readonly attentionChunk: number;
  /** Most keys from its own on that a token sees where its batch lets it see ahead (visibleEnd); 1: never ahead. */
  readonly mostAhead: number;
}

/** As far ahead as back, where nothing else is said. */
export function aheadOf(window: number): number {
  return window > 0 ? window : ALL_AHEAD;
}

/** The first key that the token at `position` sees. Never falls as the position grows, so tiles can be cut to it. */
export function visibleStart(
  { window, attentionChunk }: Pick<VisibleRule, "window" | "attentionChunk">,
  position: number,
): number {
  if (window > 0) return Math.max(0, position - window + 1);
  return attentionChunk > 0 ? position - (position % attentionChunk) : 0;
}

/** The first key that it does not see any more; `end` is what its batch says (visibleEnd). Never falls along a row. */
export function visibleEnd({ mostAhead }: VisibleRule, position: number, end: number): number {
  return Math.min(end, position + mostAhead);
}

export interface AttentionPlan extends VisibleRule {
  /** The cache group whose pages it is about. */
  readonly group: number;
  /** G = H / K. */
  readonly groupSize: number;
  /** Work units that its items were cut for. */
  numWorkers: number;
  /** Packed query rows per tile. */
  qTile: number;
  /** Keys per chunk, in tokens, a multiple of the page size in balanced mode. */
  kvChunk: number;

  numItems: number;
  itemRow: Int32Array; // [numItems] batch row
  itemQStart: Int32Array; // [numItems] first packed query row of the tile, within the batch row
  itemKvStart: Int32Array; // [numItems] first key position (absolute), a multiple of kvChunk
  itemKvEnd: Int32Array; // [numItems] one past the last key position
  itemPartial: Int32Array; // [numItems] -1: writes its output directly; else the index of its partial
  itemValid: Uint8Array; // [numItems] 0: padding of a fixed-size (graph) launch, exits at once

  /** Each partial holds qTile packed rows for each kv head. */
  numPartials: number;
  numMerges: number;
  mergeRow: Int32Array; // [numMerges] batch row
  mergeQStart: Int32Array; // [numMerges] first packed query row of the tile
  mergePartial: Int32Array; // [numMerges] first partial; the partials of a tile are consecutive, ascending in KV
  mergeCount: Int32Array; // [numMerges] at least 2; 0: padding of a fixed-size (graph) launch
}
