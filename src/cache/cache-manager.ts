// Who owns which page, in every cache group of the model. With its parts the only writer of a request's tables and numSharedPages. It never
// touches device memory: copies it asks for (forks, states) are carried out by the engine, evicted pages are moved by the host tier.
//
//   pages of a request   |  behind the window  |  in the directory, maybe shared  |  full, not yet published  |  partial  |
//                        0                   first                         numSharedPages        numCommitted / P      numPages
//
// One rule for all groups: a request gets what it needs in every group, or nothing. Without prefix caching there is no directory:
// every page is private, except those a fork shares.
//
//   group-pools.ts    the pools, the tables' pages and what the directory keeps of them
//   prefix.ts         what comes from the directory;    page-fork.ts     what a child shares with its parent
//   state-slots.ts    states of recurrent layers;       refill.ts        what comes back from the host tier

import { errorFor } from "../core/errors.js";
import { NULL_PAGE } from "../core/ids.js";
import type { Request } from "../core/request.js";
import type { GroupOptions, GroupStats, PageCounts } from "./cache-group.js";
import { GroupPools } from "./group-pools.js";
import type { HostTier, HostTierStats } from "./host-tier.js";
import { checkIntegrity } from "./integrity.js";
import { type PageCopy, PageFork } from "./page-fork.js";
import { PageTransfers } from "./page-transfer.js";
import { Prefix } from "./prefix.js";
import { PrefixJournal } from "./prefix-journal.js";
import { Refill } from "./refill.js";
import { forgetPages, hashPages, openTables } from "./request-pages.js";
import { type CacheSnapshot, takeSnapshot } from "./snapshot.js";
import { StateSlots } from "./state-slots.js";

export { NO_COPY, type PageCopy } from "./page-fork.js";

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

export class CacheManager {
  readonly pageSize: number; // P
  /** Copies of states for the engine to carry out; null: the model has no states. */
  readonly states: StateSlots | null;
  /** Tokens of the longest request that the pools can hold. */
  readonly maxTokens: number;
  /** Pages on their way to disk or another machine, and back. */
  readonly transfers: PageTransfers;
  readonly #pools: GroupPools;
  readonly #prefix: Prefix;
  readonly #fork: PageFork;
  readonly #tier: HostTier | null;
  /** No group gives pages or states back before the request ends. */
  readonly #keepsAll: boolean;
  readonly #refill: Refill | null;

  constructor(options: CacheOptions) {
    const { pageSize, groups, maxChunk = Infinity, prefixCaching } = options;
    requireCount("pageSize", pageSize, 1, 2 ** 20, "tokens per page");
    for (const { numPages } of groups) {
      // Slots are 32-bit integers.
      requireCount("numPages", numPages, 2, Math.floor(2 ** 31 / pageSize), "page 0 is the null page");
    }
    this.pageSize = pageSize;
    this.#tier = (prefixCaching && options.hostTier) || null;
    this.#pools = new GroupPools({ groups, pageSize, prefixCaching, maxChunk, tier: this.#tier });
    this.#keepsAll = this.#pools.groups.every(({ isFull }) => isFull);
    this.states = this.#pools.stateIndex < 0 ? null : new StateSlots(this.#pools, pageSize);
    this.transfers = new PageTransfers(this.#pools);
    this.maxTokens = this.#pools.maxTokens;
    this.#prefix = new Prefix(this.#pools, this.states, pageSize);
    this.#fork = new PageFork(this.#pools, this.states, pageSize);
    this.#refill = this.#tier === null ? null : new Refill(this.#pools, this.#tier, this.states, pageSize);
  }

  get isSharing(): boolean {
    return this.#pools.directory !== null;
  }

  /** Groups with pages: all but the state group, which comes last. */
  get numPaged(): number {
    return this.#pools.groups.length - (this.states === null ? 0 : 1);
  }

  /** The group of the states, -1 when the model has none. */
  get stateIndex(): number {
    return this.#pools.stateIndex;
  }

  /** Pages of a group that are free or evictable. */
  available(group = 0): number {
    return this.#pools.groups[group]!.pool.numFree;
  }

  /** The cached part of tryAdmit(), whatever room there is for the rest: returns its tokens. */
  attach(request: Request): number {
    openTables(request, this.#pools.groups.length);
    this.#prefix.lock(request);
    return request.numComputed;
  }

  /**
   * Locks the longest cached page-aligned prefix at which every group can resume, and takes room for the request's tokens; or no change at
   * all. At least one token is left to compute, since only a computed token gives logits. A request that needs every position (prompt
   * logprobs) reads no cache. `numSpare`: pages that must be left in groups that keep everything.
   */
  tryAdmit(request: Request, numSpare = 0): boolean {
    openTables(request, this.#pools.groups.length);
    return this.#prefix.tryLock(request, numSpare) && this.tryReserve(request, request.numTokens);
  }

  /** The group that has fewest pages left for its size. */
  scarcestGroup(): number {
    const { groups } = this.#pools;
    let scarcest = 0;
    for (let g = 1; g < groups.length; g++) {
      const one = groups[g]!;
      const other = groups[scarcest]!;
      if (one.pool.numFree * other.pagesTotal < other.pool.numFree * one.pagesTotal) scarcest = g;
    }
    return scarcest;
  }

  /** Pages of a group, free ones and others. */
  pagesTotal(group: number): number {
    return this.#pools.groups[group]!.pagesTotal;
  }

  /** What the request owns of a group, in PAGE_SHARES. */
  usage(request: Request, group: number): number {
    return this.#pools.usage(request, group);
  }

  /** Pages of a group that the request takes when it is admitted, if none is cached. */
  needed(request: Request, group: number): number {
    return this.#pools.needed(request, group);
  }

  /**
   * Pages for contextLen tokens (a window group: for the next chunk of them), all groups or none; the least recently used cached pages
   * are evicted for them.
   */
  tryReserve(request: Request, contextLen: number): boolean {
    return this.#pools.tryReserve(request, contextLen);
  }

  /** Gives back the pages that only drafts needed, which were rejected. */
  trim(request: Request): void {
    this.#pools.dropAfter(request, request.numTokens);
  }

  /**
   * Before each chunk of a prefill: shares the next pages that others have published meanwhile, in place of its empty ones, fills
   * more of them from the host tier, and returns the tokens it need not compute any more. As with attach(), one token is left.
   */
  advance(request: Request): number {
    if (!request.readsCache || request.numComputed !== request.numSharedPages * this.pageSize) return 0;
    return this.#prefix.adoptPublished(request) + this.#fillFromTier(request);
  }

  /**
   * Enters the full pages below numCommitted into the directory; where an identical page is there already, it replaces ours. Then
   * gives back what no later token can see.
   */
  publish(request: Request): void {
    const numFull = this.isSharing ? Math.floor(request.numCommitted / this.pageSize) : 0;
    if (this.#keepsAll && numFull <= request.numSharedPages) return; // most rows of most steps
    openTables(request, this.#pools.groups.length);
    if (this.isSharing) {
      hashPages(request, numFull, this.pageSize);
      if (this.#pools.hasPages) for (let i = request.numSharedPages; i < numFull; i++) this.#publishPage(request, i);
      request.numSharedPages = Math.max(request.numSharedPages, numFull);
      this.states?.publishSnapshots(request);
    }
    this.#pools.dropUnseen(request);
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
    if (child.salt !== parent.salt || child.media !== parent.media) return null;
    openTables(child, this.#pools.groups.length);
    this.publish(parent); // now every full page is in the directory, and shared pages are shared in one way only
    return this.#fork.fork(parent, child);
  }

  /** Empties the directory; nobody has pages. */
  forget(): void {
    const { directory, groups } = this.#pools;
    if (directory === null) return;
    for (const entry of directory.entries().reverse()) {
      const held = [...groups.keys()].filter((g) => directory.pageOf(entry, g) !== NULL_PAGE);
      for (const g of held) this.#pools.drop(g, entry);
    }
  }

  /** Of all groups together; for every step's record. */
  countPages(): PageCounts {
    const { groups } = this.#pools;
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
      groups: this.#pools.groups.map((group) => group.stats()),
      ...this.countPages(),
      lookups: this.#prefix.numLookups,
      hits: this.#prefix.numHits,
      queriedTokens: this.#prefix.queriedTokens,
      hitTokens: this.#prefix.hitTokens,
      evictions: this.#pools.numEvictions,
      entries: this.#pools.directory?.numEntries ?? 0,
      hostTier: this.#tier?.stats() ?? null,
    };
  }

  /** Follows the prefixes from now on; what is held already comes first. null: there is no directory. */
  openJournal(): PrefixJournal | null {
    const { directory } = this.#pools;
    if (directory === null) return null;
    directory.journal = new PrefixJournal();
    for (const entry of directory.entries()) directory.journal.note(true, directory.hashOf(entry), 0);
    return directory.journal;
  }

  /** Every page and directory entry, for the dashboard. Off the hot path. */
  snapshot(): CacheSnapshot {
    return takeSnapshot(this.pageSize, this.#pools);
  }

  /** Free pages of a group, the next to be taken first. Off the hot path. */
  freeQueue(group = 0): number[] {
    return this.#pools.groups[group]!.pool.freeQueue();
  }

  /** Throws unless every page is free, cached or owned exactly as counted; `live` are all requests that own pages. */
  checkIntegrity(live: Iterable<Request>): void {
    checkIntegrity(this.stats(), this.pageSize, this.#pools, live, this.transfers);
  }

  #fillFromTier(request: Request): number {
    if (this.#refill === null) return 0;
    const start = request.numComputed;
    // A window group has pages for one chunk at a time.
    do {
      const from = request.numSharedPages;
      if (this.#refill.fill(request, from, this.#publish) === from) break;
    } while (this.tryReserve(request, request.numTokens));
    this.#prefix.hitTokens += request.numComputed - start;
    return request.numComputed - start;
  }

  readonly #publish = (request: Request): void => this.publish(request);

  #publishPage(request: Request, index: number): void {
    const entry = this.#pools.entryFor(request, index);
    for (let g = 0; g < this.numPaged; g++) {
      const { pages } = request.tables[g]!;
      pages[index] = this.#pools.publish(g, entry, pages[index]!);
    }
  }

  #giveBack(request: Request, isGarbage: boolean): void {
    this.#pools.giveBack(request, isGarbage);
    this.states?.dropSnapshots(request);
    forgetPages(request);
  }
}

function requireCount(param: string, value: number, least: number, most: number, why: string): void {
  if (Number.isSafeInteger(value) && value >= least && value <= most) return;
  throw errorFor("invalid_option", { param, value, expected: `an integer from ${least} to ${most} (${why})` });
}
