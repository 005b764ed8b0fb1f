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

/** What a plan has room for at first. */
const FIRST_ITEMS = 64;
const FIRST_MERGES = 16;

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

/** Its arrays are reused from step to step, and grown by doubling when a batch needs more than any before it. */
export class AttentionPlan implements VisibleRule {
  /** The cache group whose pages it is about. */
  readonly group: number;
  readonly window: number;
  readonly attentionChunk: number;
  readonly mostAhead: number;
  /** G = H / K. */
  readonly groupSize: number;
  /** Work units that its items were cut for. */
  numWorkers = 1;
  /** Packed query rows per tile. */
  qTile = 16;
  /** Keys per chunk, in tokens, a multiple of the page size in balanced mode. */
  kvChunk = 1;

  numItems = 0;
  itemRow = new Int32Array(FIRST_ITEMS); // [numItems] batch row
  itemQStart = new Int32Array(FIRST_ITEMS); // [numItems] first packed query row of the tile, within the batch row
  itemQLen = new Int32Array(FIRST_ITEMS); // [numItems] packed query rows in the tile; 0: padding of a fixed-size (graph) launch, exits at once
  itemKvStart = new Int32Array(FIRST_ITEMS); // [numItems] first key position (absolute), a multiple of kvChunk
  itemKvEnd = new Int32Array(FIRST_ITEMS); // [numItems] one past the last key position
  itemPartial = new Int32Array(FIRST_ITEMS); // [numItems] -1: writes its output directly; else the index of its partial

  /** Each partial holds qTile packed rows for each kv head. */
  numPartials = 0;
  numMerges = 0;
  mergeRow = new Int32Array(FIRST_MERGES); // [numMerges] batch row
  mergeQStart = new Int32Array(FIRST_MERGES); // [numMerges] first packed query row of the tile
  mergePartial = new Int32Array(FIRST_MERGES); // [numMerges] first partial; the partials of a tile are consecutive, ascending in KV
  mergeCount = new Int32Array(FIRST_MERGES); // [numMerges] at least 2; 0: padding of a fixed-size (graph) launch

  constructor(group: number, { window, attentionChunk, mostAhead }: VisibleRule, groupSize: number) {
    this.group = group;
    this.window = window;
    this.attentionChunk = attentionChunk;
    this.mostAhead = mostAhead;
    this.groupSize = groupSize;
  }

  clear(): void {
    this.numItems = 0;
    this.numPartials = 0;
    this.numMerges = 0;
  }

  addItem(row: number, qStart: number, qLen: number, kvStart: number, kvEnd: number, partial: number): void {
    const i = this.numItems++;
    if (i === this.itemRow.length) this.#growItems();
    this.itemRow[i] = row;
    this.itemQStart[i] = qStart;
    this.itemQLen[i] = qLen;
    this.itemKvStart[i] = kvStart;
    this.itemKvEnd[i] = kvEnd;
    this.itemPartial[i] = partial;
  }

  addMerge(row: number, qStart: number, firstPartial: number, count: number): void {
    const i = this.numMerges++;
    if (i === this.mergeRow.length) this.#growMerges();
    this.mergeRow[i] = row;
    this.mergeQStart[i] = qStart;
    this.mergePartial[i] = firstPartial;
    this.mergeCount[i] = count;
  }

  /** Pads to a launch of fixed size: items and merges of nothing. Larger plans stay as they are. */
  pad(numItems: number): void {
    while (this.numItems < numItems) this.addItem(0, 0, 0, 0, 0, -1);
    // A split tile has two items or more, so half the items bounds the merges of every plan of this size.
    while (this.numMerges < numItems >> 1) this.addMerge(0, 0, 0, 0);
  }

  #growItems(): void {
    this.itemRow = grownInts(this.itemRow);
    this.itemQStart = grownInts(this.itemQStart);
    this.itemQLen = grownInts(this.itemQLen);
    this.itemKvStart = grownInts(this.itemKvStart);
    this.itemKvEnd = grownInts(this.itemKvEnd);
    this.itemPartial = grownInts(this.itemPartial);
  }

  #growMerges(): void {
    this.mergeRow = grownInts(this.mergeRow);
    this.mergeQStart = grownInts(this.mergeQStart);
    this.mergePartial = grownInts(this.mergePartial);
    this.mergeCount = grownInts(this.mergeCount);
  }
}

export function grownInts(old: Int32Array): Int32Array<ArrayBuffer> {
  const grown = new Int32Array(old.length * 2);
  grown.set(old);
  return grown;
}
