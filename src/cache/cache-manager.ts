// Who owns which page, in every cache group of the model. The only writer of a request's tables and numSharedPages. It never
// touches device memory: copies it asks for (forks, states) are carried out by the engine, evicted pages are moved by the host tier.
//
//   pages of a request   |  behind the window  |  in the directory, maybe shared  |  full, not yet published  |  partial  |
//                        0                   first                         numSharedPages          numLanded / P      numPages
//
// One rule for all groups: a request gets what it needs in every group, or nothing. Without prefix caching there is no directory:
// every page is private, except those a fork shares.

import { errorFor } from "../core/errors.js";
import { NULL_PAGE } from "../core/ids.js";
import { alignDown, ceilDiv } from "../core/math.js";
import type { PageTable } from "../core/page-table.js";
import type { Request } from "../core/request.js";
import type { CacheGroup, GroupOptions, GroupStats, PageCounts } from "./cache-group.js";
import { GroupBooks } from "./group-books.js";
import type { HostTier, HostTierStats } from "./host-tier.js";
import { checkIntegrity } from "./integrity.js";
import { PageTransfers } from "./page-transfer.js";
import { PrefixJournal } from "./prefix-journal.js";
import { PrefixMatcher } from "./prefix-match.js";
import { Refill } from "./refill.js";
import { adoptHashes, commonLen, forgetPages, hashPages, openTables } from "./request-pages.js";
import { type CacheSnapshot, takeSnapshot } from "./snapshot.js";
import { StateSlots } from "./state-slots.js";

export interface CacheOptions {
  /** Tokens per page, the same in all groups. */
  readonly pageSize: number;
  readonly prefixCaching: boolean;
  /** The longest chunk of a step, in tokens: a window group has pages for the next chunk, not for a whole prompt. Default: no limit. */
  readonly maxChunk?: number;
  readonly groups: readonly GroupOptions[];
  /** Where evicted pages go, and come back from. Default: they are lost. */
  readonly hostTier?: HostTier | null;
}

/** Of all groups together. */
export interface CacheStats extends PageCounts {
  readonly groups: readonly GroupStats[];
  readonly lookups: number;
  /** Lookups that found at least one page. */
  readonly hits: number;
  readonly queriedTokens: number;
  readonly hitTokens: number;
  readonly evictions: number;
  /** Page boundaries in the directory. */
  readonly entries: number;
  /** null: there is none. */
  readonly hostTier: HostTierStats | null;
}

/** In each group g, the engine copies page from[g] to page to[g] before the next step; equal ones need no copy. */
export interface PageCopy {
  readonly from: readonly number[]; // [G]
  readonly to: readonly number[]; // [G]
}

/** A fork at a page boundary shares everything. */
export const NO_COPY: PageCopy = { from: [], to: [] };

export class CacheManager {
  readonly pageSize: number; // P
  /** Copies of states for the engine to carry out; null: the model has no states. */
  readonly states: StateSlots | null;
  /** Tokens of the longest request that the pools can hold. */
  readonly maxTokens: number;
  /** Pages on their way to disk or another machine, and back. */
  readonly transfers: PageTransfers;
  readonly #maxChunk: number;
  readonly #books: GroupBooks;
  readonly #matcher: PrefixMatcher;
  readonly #tier: HostTier | null;
  readonly #refill: Refill | null;
  readonly #missing: Int32Array; // [G] pages to be taken
  #lookups = 0;
  #hits = 0;
  #queriedTokens = 0;
  #hitTokens = 0;

  constructor(options: CacheOptions) {
    const { pageSize, groups, maxChunk = Infinity, prefixCaching } = options;
    requireCount("pageSize", pageSize, 1, 2 ** 20, "tokens per page");
    for (const { numPages } of groups) {
      // Slots are 32-bit integers.
      requireCount("numPages", numPages, 2, Math.floor(2 ** 31 / pageSize), "page 0 is the null page");
    }
    this.pageSize = pageSize;
    this.#maxChunk = maxChunk;
    this.#tier = (prefixCaching && options.hostTier) || null;
    this.#books = new GroupBooks(groups, pageSize, prefixCaching, this.#tier);
    this.#matcher = new PrefixMatcher(this.#books, pageSize);
    this.transfers = new PageTransfers(this.#books);
    this.maxTokens = Math.min(...this.#books.groups.map((group) => this.#mostTokens(group)));
    this.#missing = new Int32Array(groups.length);
    this.states = this.#books.stateIndex < 0 ? null : new StateSlots(this.#books, pageSize);
    this.#refill = this.#tier === null ? null : new Refill(this.#books, this.#tier, this.states, pageSize);
  }

  get isSharing(): boolean {
    return this.#books.directory !== null;
  }

  /** Groups with pages: all but the state group, which comes last. */
  get numPaged(): number {
    return this.#books.groups.length - (this.states === null ? 0 : 1);
  }

  /** The group of the states, -1 when the model has none. */
  get stateIndex(): number {
    return this.#books.stateIndex;
  }

  /** Pages of a group that are free or evictable. */
  available(group = 0): number {
    return this.#books.groups[group]!.pool.numFree;
  }

  /**
   * Locks the longest cached page-aligned prefix at which every group can resume and returns its length in tokens. At least one token is
   * left to compute, since only a computed token gives logits. A request that needs every position (prompt logprobs) reads no cache.
   */
  attach(request: Request): number {
    openTables(request, this.#books.groups.length);
    return this.#lock(request, this.#matcher.longest(request, 0));
  }

  /** attach() and room for the request's tokens, or no change at all. */
  tryAdmit(request: Request): boolean {
    const { groups, directory } = this.#books;
    openTables(request, groups.length);
    const numHits = this.#matcher.longest(request, 0);
    const start = numHits * this.pageSize;
    for (let g = 0; g < groups.length; g++) {
      const group = groups[g]!;
      let numMissing = 1; // a working state
      if (!group.isState) {
        numMissing = this.#end(group, request.numTokens, start) - numHits;
        // Hits that nobody owns are free now and will not be once they are locked.
        for (let i = group.firstVisible(start); i < numHits; i++) {
          if (!group.isOwned(directory!.pageOf(this.#matcher.path[i]!, g))) numMissing++;
        }
      }
      if (numMissing > group.pool.numFree) return false;
    }
    this.#lock(request, numHits);
    return this.tryReserve(request, request.numTokens);
  }

  /**
   * Pages for contextLen tokens (a window group: for the next chunk of them), all groups or none; the least recently used cached pages
   * are evicted for them.
   */
  tryReserve(request: Request, contextLen: number): boolean {
    const { groups } = this.#books;
    openTables(request, groups.length);
    for (let g = 0; g < groups.length; g++) {
      const group = groups[g]!;
      const end = group.isState ? 1 : this.#end(group, contextLen, request.numComputed);
      const missing = Math.max(0, end - request.tables[g]!.numPages);
      if (missing > group.pool.numFree) return false;
      this.#missing[g] = missing;
    }
    for (let g = 0; g < groups.length; g++) this.#extend(request.tables[g]!, g, this.#missing[g]!);
    return true;
  }

  /**
   * Before each chunk of a prefill: takes over the next pages that others have published meanwhile, in place of our empty ones, fills
   * more of them from the host tier, and returns the tokens it need not compute any more. As with attach(), one token is left.
   */
  advance(request: Request): number {
    if (!this.isSharing || !request.readsCache || request.numComputed !== request.numSharedPages * this.pageSize)
      return 0;
    return this.#takeOverPublished(request) + this.#fillFromTier(request);
  }

  /**
   * Enters the full pages below numLanded into the directory; where an identical page is there already, it replaces ours. Then
   * gives back what no later token can see.
   */
  publish(request: Request): void {
    const { groups } = this.#books;
    openTables(request, groups.length);
    if (this.isSharing) {
      const numFull = Math.floor(request.numLanded / this.pageSize);
      hashPages(request, numFull, this.pageSize);
      if (this.#books.hasPages) for (let i = request.numSharedPages; i < numFull; i++) this.#publishPage(request, i);
      request.numSharedPages = Math.max(request.numSharedPages, numFull);
      this.states?.settle(request);
    }
    for (let g = 0; g < groups.length; g++) {
      const group = groups[g]!;
      if (group.kind === "window") this.#dropBefore(request, g, group.firstVisible(request.numLanded));
    }
  }

  /** Publishes, then gives all pages back; what was published stays cached until it is evicted. */
  release(request: Request): void {
    this.publish(request);
    this.#giveBack(request, false);
  }

  /** Gives all pages back without publishing: after a failed step the unpublished ones may hold garbage. */
  discard(request: Request): void {
    this.#giveBack(request, true);
  }

  /**
   * Gives the child, which has no pages yet, what it shares with the parent: the full pages by reference, a fresh page for each
   * partial one, to be copied, and a copy of the state. A child that has more to compute than one generated token begins at a page
   * boundary, like any prompt. null: no page is left, or there is nothing to share; the child is unchanged.
   */
  fork(parent: Request, child: Request): PageCopy | null {
    if (child.salt !== parent.salt) return null;
    const { groups } = this.#books;
    openTables(child, groups.length);
    this.publish(parent); // now every full page is in the directory, and shared pages are shared in one way only
    let numShared = commonLen(parent, child);
    const isDecode = numShared >= Math.max(child.promptLen, child.numTokens - 1);
    if (!isDecode) numShared = alignDown(numShared, this.pageSize);
    if (numShared === 0 || !this.#canFork(parent, numShared)) return null;
    const numFull = Math.floor(numShared / this.pageSize);
    const hasPartial = numFull * this.pageSize < numShared;
    for (let g = 0; g < groups.length; g++) {
      const group = groups[g]!;
      const from = parent.tables[g]!;
      const to = child.tables[g]!;
      if (!group.isState) {
        to.reserve(numFull + 1);
        to.first = group.firstVisible(numShared);
        to.pages.fill(NULL_PAGE, 0, to.first);
        to.numPages = numFull;
        for (let i = to.first; i < numFull; i++) {
          to.pages[i] = from.pages[i]!;
          group.retain(from.pages[i]!);
        }
      }
      if (group.isState || hasPartial) this.#extend(to, g, 1);
    }
    this.states?.fork(parent, child);
    if (this.isSharing) {
      adoptHashes(child, parent, numFull);
      child.numSharedPages = numFull;
    }
    child.numComputed = numShared;
    if (!hasPartial) return NO_COPY;
    return { from: this.#pagesAt(parent, numFull), to: this.#pagesAt(child, numFull) };
  }

  /** Of all groups together; for every step's record. */
  countPages(): PageCounts {
    const { groups } = this.#books;
    const counts = { pagesTotal: 0, pagesFree: 0, pagesCached: 0, pagesUsed: 0 };
    for (let g = 0; g < groups.length; g++) {
      const { pagesTotal, numEmpty, numCached, pool } = groups[g]!;
      counts.pagesTotal += pagesTotal;
      counts.pagesFree += numEmpty;
      counts.pagesCached += numCached;
      counts.pagesUsed += pagesTotal - pool.numFree;
    }
    return counts;
  }

  stats(): CacheStats {
    return {
      groups: this.#books.groups.map((group) => group.stats()),
      ...this.countPages(),
      lookups: this.#lookups,
      hits: this.#hits,
      queriedTokens: this.#queriedTokens,
      hitTokens: this.#hitTokens,
      evictions: this.#books.numEvictions,
      entries: this.#books.directory?.numEntries ?? 0,
      hostTier: this.#tier?.stats() ?? null,
    };
  }

  /** Follows the prefixes from now on; what is held already comes first. null: there is no directory. */
  openJournal(): PrefixJournal | null {
    const { directory } = this.#books;
    if (directory === null) return null;
    directory.journal = new PrefixJournal();
    for (const entry of directory.entries()) directory.journal.note(true, directory.hashOf(entry), 0);
    return directory.journal;
  }

  /** Every page and directory entry, for the dashboard. Off the hot path. */
  snapshot(): CacheSnapshot {
    return takeSnapshot(this.pageSize, this.#books);
  }

  /** Free pages of a group, the next to be taken first. Off the hot path. */
  freeQueue(group = 0): number[] {
    return this.#books.groups[group]!.pool.freeQueue();
  }

  /** Throws unless every page is free, cached or owned exactly as counted; `live` are all requests that own pages. */
  checkIntegrity(live: Iterable<Request>): void {
    checkIntegrity(this.stats(), this.pageSize, this.#books, live, this.transfers);
  }

  #takeOverPublished(request: Request): number {
    const first = request.numSharedPages;
    const end = this.#matcher.longest(request, first);
    if (end === first) return 0;
    const { groups } = this.#books;
    for (let g = 0; g < groups.length; g++) if (!groups[g]!.isState) this.#takeOver(request, g, first, end);
    this.states?.restore(request, this.states.touch(this.#matcher.path[end - 1]!));
    const gained = (end - first) * this.pageSize;
    request.numSharedPages = end;
    request.numComputed += gained;
    this.#hitTokens += gained;
    return gained;
  }

  #fillFromTier(request: Request): number {
    if (this.#refill === null) return 0;
    const start = request.numComputed;
    // A window group has pages for one chunk at a time.
    do {
      const from = request.numSharedPages;
      if (this.#refill.fill(request, from, this.#publish) === from) break;
    } while (this.tryReserve(request, request.numTokens));
    this.#hitTokens += request.numComputed - start;
    return request.numComputed - start;
  }

  readonly #publish = (request: Request): void => this.publish(request);

  /** The page after the last that a group must have for a step from `start` on. */
  #end(group: CacheGroup, contextLen: number, start: number): number {
    const end = group.kind === "window" ? Math.min(contextLen, start + this.#maxChunk) : contextLen;
    return ceilDiv(end, this.pageSize);
  }

  #mostTokens(group: CacheGroup): number {
    if (group.isState) return Infinity;
    const isBounded =
      group.kind === "window" && group.pagesTotal > ceilDiv(group.window + this.#maxChunk, this.pageSize);
    return isBounded ? Infinity : group.pagesTotal * this.pageSize;
  }

  #extend(table: PageTable, g: number, count: number): void {
    if (count === 0) return;
    table.reserve(table.numPages + count);
    if (!this.#books.tryTake(g, table.pages, table.numPages, count))
      throw new Error(`group ${g} has no ${count} pages`);
    table.numPages += count;
  }

  #lock(request: Request, numHits: number): number {
    const { groups, directory } = this.#books;
    const start = numHits * this.pageSize;
    // Before the working slot is taken: that may evict a snapshot, this one last.
    const snapshot =
      numHits === 0 || this.states === null ? NULL_PAGE : this.states.touch(this.#matcher.path[numHits - 1]!);
    for (let g = 0; g < groups.length; g++) {
      const group = groups[g]!;
      const table = request.tables[g]!;
      if (group.isState) {
        this.#extend(table, g, 1);
        continue;
      }
      table.reserve(numHits);
      table.first = group.firstVisible(start);
      table.numPages = numHits;
      table.pages.fill(NULL_PAGE, 0, table.first);
      for (let i = table.first; i < numHits; i++) {
        table.pages[i] = directory!.pageOf(this.#matcher.path[i]!, g);
        group.retain(table.pages[i]!);
      }
    }
    if (snapshot !== NULL_PAGE) this.states!.restore(request, snapshot);
    request.numSharedPages = numHits;
    request.numComputed = start;
    this.#lookups++;
    this.#queriedTokens += request.numTokens;
    if (numHits > 0) this.#hits++;
    this.#hitTokens += start;
    return start;
  }

  /** Pages [from, end) of group g: the directory's take the place of our empty ones; those no longer visible are given back. */
  #takeOver(request: Request, g: number, from: number, end: number): void {
    const group = this.#books.groups[g]!;
    const table = request.tables[g]!;
    const first = group.firstVisible(end * this.pageSize);
    for (let i = from; i < Math.min(end, table.numPages); i++) group.pool.releaseEmpty(table.pages[i]!);
    this.#dropBefore(request, g, Math.min(first, from));
    table.reserve(end);
    for (let i = from; i < end; i++) {
      const page = i < first ? NULL_PAGE : this.#books.directory!.pageOf(this.#matcher.path[i]!, g);
      table.pages[i] = page;
      if (page !== NULL_PAGE) group.retain(page);
    }
    table.first = Math.max(table.first, first);
    table.numPages = Math.max(table.numPages, end);
  }

  #publishPage(request: Request, index: number): void {
    const { groups } = this.#books;
    const entry = this.#books.entryFor(request, index);
    for (let g = 0; g < groups.length; g++) {
      if (groups[g]!.isState) continue;
      const { pages } = request.tables[g]!;
      pages[index] = this.#books.enter(g, entry, pages[index]!);
    }
  }

  /** Gives back the pages before `end`, the oldest first; in the directory they stay cached. */
  #dropBefore(request: Request, g: number, end: number): void {
    const group = this.#books.groups[g]!;
    const table = request.tables[g]!;
    for (; table.first < end; table.first++) {
      const page = table.pages[table.first]!;
      if (table.first < request.numSharedPages) group.release(page);
      else group.pool.releaseEmpty(page);
      table.pages[table.first] = NULL_PAGE;
    }
  }

  #giveBack(request: Request, isGarbage: boolean): void {
    const { groups } = this.#books;
    for (let g = 0; g < request.tables.length; g++) {
      const group = groups[g]!;
      const { pages, first, numPages } = request.tables[g]!;
      const numEmpty = group.isState ? numPages : isGarbage ? numPages - Math.max(first, request.numSharedPages) : 0;
      // The last page first: it is the least likely to be asked for again, and a page must leave before its parent.
      for (let i = numPages - 1; i >= first; i--) {
        if (i >= numPages - numEmpty) group.pool.releaseEmpty(pages[i]!);
        else group.release(pages[i]!);
      }
    }
    this.states?.abandon(request);
    forgetPages(request);
  }

  /** Every group can resume the parent's sequence after numShared tokens, and has the page or slot that takes. */
  #canFork(parent: Request, numShared: number): boolean {
    const hasPartial = numShared % this.pageSize !== 0;
    return this.#books.groups.every((group, g) => {
      if (group.isState) return numShared === parent.numComputed && group.pool.numFree >= 1;
      if (parent.tables[g]!.first > group.firstVisible(numShared)) return false;
      return !hasPartial || group.pool.numFree >= 1;
    });
  }

  #pagesAt(request: Request, index: number): number[] {
    const { groups } = this.#books;
    return request.tables.map((table, g) => (groups[g]!.isState ? NULL_PAGE : table.pages[index]!));
  }
}

function requireCount(param: string, value: number, least: number, most: number, why: string): void {
  if (Number.isSafeInteger(value) && value >= least && value <= most) return;
  throw errorFor("invalid_option", { param, value, expected: `an integer from ${least} to ${most} (${why})` });
}
