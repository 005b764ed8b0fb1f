// The KV chunk of balanced mode: as small as the worker budget allows, so that long contexts spread over idle workers.

/** Work items when every tile [start, end) is cut at absolute multiples of `chunk`; a tile without keys is one item. */
export function countItems(starts: Int32Array, ends: Int32Array, numTiles: number, chunk: number): number {
  let items = 0;
  for (let i = 0; i < numTiles; i++) {
    items += Math.max(1, Math.ceil(ends[i]! / chunk) - Math.floor(starts[i]! / chunk));
  }
  return items;
}

/**
 * The smallest chunk, at least `minChunk`, whose items fit the budget; with more tiles than budget, a chunk that splits none.
 * Lengths and result are in one unit, the caller's (the planner uses pages, so that a chunk ends where a page ends).
 */
export function searchKvChunk(
  starts: Int32Array, // [numTiles]
  ends: Int32Array, // [numTiles]
  numTiles: number,
  budget: number,
  minChunk: number,
): number {
  let longest = 1;
  for (let i = 0; i < numTiles; i++) longest = Math.max(longest, ends[i]!);
  let low = Math.min(minChunk, longest);
  let high = longest;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (countItems(starts, ends, numTiles, mid) > budget) low = mid + 1;
    else high = mid;
  }
  return low;
}

/** Work units left to each kv head when a launch runs every item once per kv head: 2 CTAs on each of 132 SMs, 4 heads: 66. */
export function workersPerHead(numWorkers: number, numKvHeads: number): number {
  return Math.max(1, Math.floor(numWorkers / numKvHeads));
}
