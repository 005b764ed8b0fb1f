// What a request takes from the directory instead of computing it: the longest prefix at which every group can resume is locked when
// it is admitted, and what others publish meanwhile is shared before each chunk.
//
//   full, latent   need all pages before the boundary
//   window         needs the pages that the token at the boundary still sees
//   state          needs a snapshot at exactly that boundary

import { NULL_PAGE } from "../core/ids.js";
import type { PageTable, Request } from "../core/request.js";
import type { GroupPools } from "./group-pools.js";
import { NO_ENTRY } from "./page-directory.js";
import { hashPages } from "./request-pages.js";
import type { StateSlots } from "./state-slots.js";

export class Prefix {
  /** Entry of each page of the sequence that was walked, NO_ENTRY where there is none. */
  path = new Int32Array(64);
  readonly #pools: GroupPools;
  readonly #states: StateSlots | null;
  readonly #pageSize: number; // P
  readonly #runs: Int32Array; // [G] pages without a gap before the boundary
  numLookups = 0;
  /** Lookups that found at least one page. */
  numHits = 0;
  queriedTokens = 0;
  hitTokens = 0;

  constructor(pools: GroupPools, states: StateSlots | null, pageSize: number) {
    this.#pools = pools;
    this.#states = states;
    this.#pageSize = pageSize;
    this.#runs = new Int32Array(pools.groups.length);
  }

  /** Locks the longest cached prefix. */
  lock(request: Request): void {
    this.#lock(request, this.longest(request, 0));
  }

  /**
   * Locks the longest cached prefix, if there are pages for the rest of the request's tokens beside it, and `numSpare` more in groups that
   * keep everything; false: there are not, and nothing has changed.
   */
  tryLock(request: Request, numSpare: number): boolean {
    const numPages = this.longest(request, 0);
    if (!this.#fits(request, numPages, numSpare)) return false;
    this.#lock(request, numPages);
    return true;
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

  /**
   * There are pages for the request's tokens (a window group: for its next chunk) beside the first `numPages`, which are cached; and
   * `numSpare` more in groups that keep everything.
   */
  #fits(request: Request, numPages: number, numSpare: number): boolean {
    const { groups, directory } = this.#pools;
    const start = numPages * this.#pageSize;
    for (let g = 0; g < groups.length; g++) {
      const group = groups[g]!;
      let numMissing = 1; // a working state
      if (!group.isState) {
        numMissing = this.#pools.end(group, request.numTokens, start) - numPages;
        // Hits that nobody owns are free now and will not be once they are locked.
        for (let i = group.firstVisible(start); i < numPages; i++) {
          if (!group.isOwned(directory!.pageOf(this.path[i]!, g))) numMissing++;
        }
      }
      if (group.isFull) numMissing += numSpare;
      if (numMissing > group.pool.numFree) return false;
    }
    return true;
  }

  /** The request, which has no pages yet, gets the first `numPages` that were found. */
  #lock(request: Request, numPages: number): void {
    const { groups } = this.#pools;
    const states = this.#states;
    const start = numPages * this.#pageSize;
    // Before the working slot is taken: that may evict a snapshot, this one last.
    const snapshot = numPages === 0 || states === null ? NULL_PAGE : states.touch(this.path[numPages - 1]!);
    for (let g = 0; g < groups.length; g++) {
      if (groups[g]!.isState) this.#pools.extend(request.tables[g]!, g, 1);
      else this.#lockPages(request.tables[g]!, g, numPages);
    }
    if (snapshot !== NULL_PAGE) states!.restore(request, snapshot);
    request.numSharedPages = numPages;
    request.numComputed = start;
    this.numLookups++;
    this.queriedTokens += request.numTokens;
    if (numPages > 0) this.numHits++;
    this.hitTokens += start;
  }

  #lockPages(table: PageTable, g: number, numPages: number): void {
    const group = this.#pools.groups[g]!;
    table.reserve(numPages);
    table.first = group.firstVisible(numPages * this.#pageSize);
    table.numPages = numPages;
    table.pages.fill(NULL_PAGE, 0, table.first);
    for (let i = table.first; i < numPages; i++) {
      table.pages[i] = this.#pools.directory!.pageOf(this.path[i]!, g);
      group.retain(table.pages[i]!);
    }
  }

  /** Shares the next pages that others have published meanwhile, in place of its empty ones; returns their tokens. */
  adoptPublished(request: Request): number {
    const first = request.numSharedPages;
    const end = this.longest(request, first);
    if (end === first) return 0;
    const { groups } = this.#pools;
    for (let g = 0; g < groups.length; g++) if (!groups[g]!.isState) this.#adoptPages(request, g, first, end);
    this.#states?.restore(request, this.#states.touch(this.path[end - 1]!));
    const gained = (end - first) * this.#pageSize;
    request.numSharedPages = end;
    request.numComputed += gained;
    this.hitTokens += gained;
    return gained;
  }

  /** Pages [from, end) of group g: the directory's take the place of our empty ones; those no longer visible are given back. */
  #adoptPages(request: Request, g: number, from: number, end: number): void {
    const group = this.#pools.groups[g]!;
    const table = request.tables[g]!;
    const first = group.firstVisible(end * this.#pageSize);
    for (let i = from; i < Math.min(end, table.numPages); i++) group.pool.releaseEmpty(table.pages[i]!);
    this.#pools.dropBefore(request, g, Math.min(first, from));
    table.reserve(end);
    for (let i = from; i < end; i++) {
      const page = i < first ? NULL_PAGE : this.#pools.directory!.pageOf(this.path[i]!, g);
      table.pages[i] = page;
      if (page !== NULL_PAGE) group.retain(page);
    }
    table.first = Math.max(table.first, first);
    table.numPages = Math.max(table.numPages, end);
  }
}
