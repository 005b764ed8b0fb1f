// The longest cached prefix at which every group can resume:
//
//   full, latent   need all pages before the boundary
//   window         needs the pages that the token at the boundary still sees
//   state          needs a snapshot at exactly that boundary

import { NULL_PAGE } from "../core/ids.js";
import type { Request } from "../core/request.js";
import type { GroupPools } from "./group-pools.js";
import { NO_ENTRY } from "./page-directory.js";
import { hashPages } from "./request-pages.js";

export class PrefixMatcher {
  /** Entry of each page of the sequence that was walked, NO_ENTRY where there is none. */
  path = new Int32Array(64);
  readonly #pools: GroupPools;
  readonly #pageSize: number;
  readonly #runs: Int32Array; // [G] pages without a gap before the boundary

  constructor(pools: GroupPools, pageSize: number) {
    this.#pools = pools;
    this.#pageSize = pageSize;
    this.#runs = new Int32Array(pools.groups.length);
  }

  /**
   * Pages of the longest resumable prefix, at least `from` of them, which the request holds already. One token is left to compute,
   * since only a computed token gives logits.
   */
  longest(request: Request, from: number): number {
    const { groups, directory, hasFull } = this.#pools;
    if (directory === null || !request.readsCache) return from;
    const limit = Math.floor((request.numTokens - 1) / this.#pageSize);
    if (limit > this.path.length) this.path = new Int32Array(limit * 2);
    for (let g = 0; g < groups.length; g++) this.#runs[g] = from - request.tables[g]!.first;
    let best = from;
    for (let i = from; i < limit; i++) {
      hashPages(request, i + 1, this.#pageSize);
      const entry = directory.find(request.hashes, i, request.tokens);
      if (entry === NO_ENTRY && hasFull) break;
      this.path[i] = entry;
      if (this.#canResume(i + 1, entry)) best = i + 1;
    }
    return best;
  }

  /** Counts the entry's pages and says whether every group can go on after `numPages` pages. */
  #canResume(numPages: number, entry: number): boolean {
    const { groups, directory } = this.#pools;
    let canResume = entry !== NO_ENTRY;
    for (let g = 0; g < groups.length; g++) {
      const group = groups[g]!;
      const hasPage = entry !== NO_ENTRY && directory!.pageOf(entry, g) !== NULL_PAGE;
      this.#runs[g] = hasPage ? this.#runs[g]! + 1 : 0;
      const needed = group.isState ? 1 : numPages - group.firstVisible(numPages * this.#pageSize);
      if (this.#runs[g]! < needed) canResume = false;
    }
    return canResume;
  }
}
