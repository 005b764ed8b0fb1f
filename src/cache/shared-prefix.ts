// What a request takes from the directory instead of computing it: the longest prefix at which every group can resume is locked when
// it is admitted, and what others publish meanwhile is taken over before each chunk.

import { NULL_PAGE } from "../core/ids.js";
import type { PageTable } from "../core/page-table.js";
import type { Request } from "../core/request.js";
import type { GroupPools } from "./group-pools.js";
import type { PageAllocator } from "./page-allocator.js";
import { PrefixMatcher } from "./prefix-match.js";
import type { StateSlots } from "./state-slots.js";

export class SharedPrefix {
  readonly #pools: GroupPools;
  readonly #allocator: PageAllocator;
  readonly #states: StateSlots | null;
  readonly #pageSize: number; // P
  readonly #matcher: PrefixMatcher;
  numLookups = 0;
  /** Lookups that found at least one page. */
  numHits = 0;
  queriedTokens = 0;
  hitTokens = 0;

  constructor(pools: GroupPools, allocator: PageAllocator, states: StateSlots | null, pageSize: number) {
    this.#pools = pools;
    this.#allocator = allocator;
    this.#states = states;
    this.#pageSize = pageSize;
    this.#matcher = new PrefixMatcher(pools, pageSize);
  }

  /** Pages of the longest one; 0: there is none, or no directory. lock() must follow before another request is looked at. */
  find(request: Request): number {
    return this.#matcher.longest(request, 0);
  }

  /**
   * There are pages for the request's tokens (a window group: for its next chunk) beside the first `numPages`, which are cached; and
   * `numSpare` more in groups that keep everything.
   */
  fits(request: Request, numPages: number, numSpare: number): boolean {
    const { groups, directory } = this.#pools;
    const start = numPages * this.#pageSize;
    for (let g = 0; g < groups.length; g++) {
      const group = groups[g]!;
      let numMissing = 1; // a working state
      if (!group.isState) {
        numMissing = this.#allocator.end(group, request.numTokens, start) - numPages;
        // Hits that nobody owns are free now and will not be once they are locked.
        for (let i = group.firstVisible(start); i < numPages; i++) {
          if (!group.isOwned(directory!.pageOf(this.#matcher.path[i]!, g))) numMissing++;
        }
      }
      if (group.isFull) numMissing += numSpare;
      if (numMissing > group.pool.numFree) return false;
    }
    return true;
  }

  /** The request, which has no pages yet, gets the first `numPages` that were found; returns their tokens. */
  lock(request: Request, numPages: number): number {
    const { groups } = this.#pools;
    const states = this.#states;
    const start = numPages * this.#pageSize;
    // Before the working slot is taken: that may evict a snapshot, this one last.
    const snapshot = numPages === 0 || states === null ? NULL_PAGE : states.touch(this.#matcher.path[numPages - 1]!);
    for (let g = 0; g < groups.length; g++) {
      if (groups[g]!.isState) this.#allocator.extend(request.tables[g]!, g, 1);
      else this.#lockPages(request.tables[g]!, g, numPages);
    }
    if (snapshot !== NULL_PAGE) states!.restore(request, snapshot);
    request.numSharedPages = numPages;
    request.numComputed = start;
    this.numLookups++;
    this.queriedTokens += request.numTokens;
    if (numPages > 0) this.numHits++;
    this.hitTokens += start;
    return start;
  }

  #lockPages(table: PageTable, g: number, numPages: number): void {
    const group = this.#pools.groups[g]!;
    table.reserve(numPages);
    table.first = group.firstVisible(numPages * this.#pageSize);
    table.numPages = numPages;
    table.pages.fill(NULL_PAGE, 0, table.first);
    for (let i = table.first; i < numPages; i++) {
      table.pages[i] = this.#pools.directory!.pageOf(this.#matcher.path[i]!, g);
      group.retain(table.pages[i]!);
    }
  }

  /** Shares the next pages that others have published meanwhile, in place of its empty ones; returns their tokens. */
  adoptPublished(request: Request): number {
    const first = request.numSharedPages;
    const end = this.#matcher.longest(request, first);
    if (end === first) return 0;
    const { groups } = this.#pools;
    for (let g = 0; g < groups.length; g++) if (!groups[g]!.isState) this.#adoptPages(request, g, first, end);
    this.#states?.restore(request, this.#states.touch(this.#matcher.path[end - 1]!));
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
    this.#allocator.dropBefore(request, g, Math.min(first, from));
    table.reserve(end);
    for (let i = from; i < end; i++) {
      const page = i < first ? NULL_PAGE : this.#pools.directory!.pageOf(this.#matcher.path[i]!, g);
      table.pages[i] = page;
      if (page !== NULL_PAGE) group.retain(page);
    }
    table.first = Math.max(table.first, first);
    table.numPages = Math.max(table.numPages, end);
  }
}
