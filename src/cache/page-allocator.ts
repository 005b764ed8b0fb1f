// How the tables of a request get their pages and give them back, group by group. What is in the directory is shared-prefix.ts's.

import { NULL_PAGE } from "../core/ids.js";
import { ceilDiv } from "../core/math.js";
import type { PageTable } from "../core/page-table.js";
import type { Request } from "../core/request.js";
import type { CacheGroup } from "./cache-group.js";
import type { GroupPools } from "./group-pools.js";
import { openTables } from "./request-pages.js";

/** A page that n requests own counts as an nth for each: PAGE_SHARES / n, rounded down. */
export const PAGE_SHARES = 5040;

export class PageAllocator {
  /** Tokens of the longest request that the pools can hold. */
  readonly maxTokens: number;
  readonly #pools: GroupPools;
  readonly #pageSize: number; // P
  readonly #maxChunk: number;
  readonly #missing: Int32Array; // [G] pages to be taken

  /** `maxChunk`: tokens of the longest chunk; a window group has pages for the next one, not for a whole prompt. */
  constructor(pools: GroupPools, pageSize: number, maxChunk: number) {
    this.#pools = pools;
    this.#pageSize = pageSize;
    this.#maxChunk = maxChunk;
    this.#missing = new Int32Array(pools.groups.length);
    this.maxTokens = Math.min(...pools.groups.map((group) => this.#mostTokens(group)));
  }

  /** The page after the last that a group must have for a step from `start` on. */
  end(group: CacheGroup, contextLen: number, start: number): number {
    const end = group.kind === "window" ? Math.min(contextLen, start + this.#maxChunk) : contextLen;
    return ceilDiv(end, this.#pageSize);
  }

  /** See CacheManager. */
  needed(request: Request, g: number): number {
    const group = this.#pools.groups[g]!;
    return group.isState ? 1 : this.end(group, request.numTokens, 0);
  }

  /** See CacheManager. */
  usage(request: Request, g: number): number {
    const { pool } = this.#pools.groups[g]!;
    const { pages, first, numPages } = request.tables[g]!;
    let usage = 0;
    for (let i = first; i < numPages; i++) usage += Math.floor(PAGE_SHARES / pool.refs(pages[i]!));
    return usage;
  }

  /** See CacheManager. */
  tryReserve(request: Request, contextLen: number): boolean {
    const { groups } = this.#pools;
    openTables(request, groups.length);
    for (let g = 0; g < groups.length; g++) {
      const group = groups[g]!;
      const end = group.isState ? 1 : this.end(group, contextLen, request.numComputed);
      const missing = Math.max(0, end - request.tables[g]!.numPages);
      if (missing > group.pool.numFree) return false;
      this.#missing[g] = missing;
    }
    for (let g = 0; g < groups.length; g++) this.extend(request.tables[g]!, g, this.#missing[g]!);
    return true;
  }

  /** `count` more pages, which group g has. */
  extend(table: PageTable, g: number, count: number): void {
    if (count === 0) return;
    table.reserve(table.numPages + count);
    if (!this.#pools.tryTake(g, table.pages, table.numPages, count))
      throw new Error(`group ${g} has no ${count} pages`);
    table.numPages += count;
  }

  /** Gives back the pages from the one after `contextLen` tokens on; nobody else has them. */
  dropAfter(request: Request, contextLen: number): void {
    const { groups } = this.#pools;
    const end = ceilDiv(contextLen, this.#pageSize);
    for (let g = 0; g < groups.length; g++) {
      const { isState, pool } = groups[g]!;
      const table = request.tables[g]!;
      while (!isState && table.numPages > end) pool.releaseEmpty(table.pages[--table.numPages]!);
    }
  }

  /** Gives back the pages before `end`, the oldest first; in the directory they stay cached. */
  dropBefore(request: Request, g: number, end: number): void {
    const group = this.#pools.groups[g]!;
    const table = request.tables[g]!;
    for (; table.first < end; table.first++) {
      const page = table.pages[table.first]!;
      if (table.first < request.numSharedPages) group.release(page);
      else group.pool.releaseEmpty(page);
      table.pages[table.first] = NULL_PAGE;
    }
  }

  /** Gives back what no later token can see. */
  dropUnseen(request: Request): void {
    const { groups } = this.#pools;
    for (let g = 0; g < groups.length; g++) {
      const group = groups[g]!;
      if (group.kind === "window")
        this.dropBefore(request, g, group.firstVisible(Math.min(request.numCommitted, request.stateEnd)));
    }
  }

  /** All of them. `isGarbage`: what is not in the directory may hold anything, and is not worth keeping. */
  giveBack(request: Request, isGarbage: boolean): void {
    const { groups } = this.#pools;
    for (let g = 0; g < request.tables.length; g++) {
      const group = groups[g]!;
      const { pages, first, numPages } = request.tables[g]!;
      const firstEmpty = group.isState ? first : isGarbage ? request.numSharedPages : numPages;
      // The last page first: it is the least likely to be asked for again, and a page must leave before its parent.
      for (let i = numPages - 1; i >= first; i--) {
        if (i >= firstEmpty) group.pool.releaseEmpty(pages[i]!);
        else group.release(pages[i]!);
      }
    }
  }

  #mostTokens(group: CacheGroup): number {
    if (group.isState) return Infinity;
    const isBounded =
      group.kind === "window" && group.pagesTotal > ceilDiv(group.window + this.#maxChunk, this.#pageSize);
    return isBounded ? Infinity : group.pagesTotal * this.#pageSize;
  }
}
