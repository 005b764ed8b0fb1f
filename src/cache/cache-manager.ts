// Who owns which page. The only writer of a request's pages, numPages and numSharedPages. It never touches device memory: a
// copy it asks for (fork) is carried out by the engine.
//
//   pages of a request   |  in the trie, maybe shared  |  full, not yet published  |  partial  |
//                        0                       numSharedPages          numLanded / P      numPages
//
// Without prefix caching there is no trie: every page is private, except those a fork shares.

import { errorFor } from "../core/errors.js";
import { NULL_PAGE } from "../core/ids.js";
import { alignDown, ceilDiv } from "../core/math.js";
import type { Request } from "../core/request.js";
import { checkIntegrity } from "./integrity.js";
import { PagePool } from "./page-pool.js";
import { PrefixTrie } from "./prefix-trie.js";
import { commonLen, forgetPages, growPages } from "./request-pages.js";
import { type CacheSnapshot, takeSnapshot } from "./snapshot.js";

export interface CacheOptions {
  /** Counting the null page 0. */
  readonly numPages: number;
  /** Tokens per page. */
  readonly pageSize: number;
  readonly prefixCaching: boolean;
}

export interface CacheStats {
  /** Without the null page: free + cached + used. */
  readonly pagesTotal: number;
  /** Owned by nobody, holding nothing. */
  readonly pagesFree: number;
  /** Owned by nobody, in the trie, evictable. */
  readonly pagesCached: number;
  readonly pagesUsed: number;
  readonly lookups: number;
  /** Lookups that found at least one page. */
  readonly hits: number;
  readonly queriedTokens: number;
  readonly hitTokens: number;
  readonly evictions: number;
  readonly trieNodes: number;
}

/** The engine copies page `from` to page `to` before the next step. */
export interface PageCopy {
  readonly from: number;
  readonly to: number;
}

/** A fork at a page boundary shares everything; from and to are the null page. */
export const NO_COPY: PageCopy = { from: NULL_PAGE, to: NULL_PAGE };

export class CacheManager {
  readonly pageSize: number; // P
  /** Pages a request can own: all but the null page. */
  readonly pagesTotal: number;
  readonly #pool: PagePool;
  readonly #trie: PrefixTrie | null;
  /** Trie nodes that somebody owns. */
  #numLockedNodes = 0;
  #lookups = 0;
  #hits = 0;
  #queriedTokens = 0;
  #hitTokens = 0;
  #evictions = 0;

  constructor(options: CacheOptions) {
    requireCount("pageSize", options.pageSize, 1, 2 ** 20, "tokens per page");
    // Slots are 32-bit integers.
    const most = Math.floor(2 ** 31 / options.pageSize);
    requireCount("numPages", options.numPages, 2, most, "page 0 is the null page");
    this.pageSize = options.pageSize;
    this.pagesTotal = options.numPages - 1;
    this.#pool = new PagePool(options.numPages);
    this.#trie = options.prefixCaching ? new PrefixTrie(options.numPages, options.pageSize) : null;
  }

  get isSharing(): boolean {
    return this.#trie !== null;
  }

  /** Pages free or evictable. */
  available(): number {
    return this.#pool.numFree;
  }

  get pagesCached(): number {
    return this.#trie === null ? 0 : this.#trie.numNodes - this.#numLockedNodes;
  }

  get pagesFree(): number {
    return this.#pool.numFree - this.pagesCached;
  }

  get pagesUsed(): number {
    return this.pagesTotal - this.#pool.numFree;
  }

  /**
   * Locks the longest cached page-aligned prefix of the request's tokens and returns its length in tokens. At least one token is
   * left to compute, since only a computed token gives logits. A request that needs every position (prompt logprobs) reads no cache.
   */
  attach(request: Request): number {
    return this.#lock(request, this.#match(request));
  }

  /** attach() and pages for all of the request's tokens, or no change at all. */
  tryAdmit(request: Request): boolean {
    const numHits = this.#match(request);
    // Hits that nobody owns are free now and will not be once they are locked.
    let numUnowned = 0;
    for (let i = 0; i < numHits; i++) if (this.#pool.refs(request.pages[i]!) === 0) numUnowned++;
    const numMissing = ceilDiv(request.numTokens, this.pageSize) - numHits;
    if (numMissing > this.#pool.numFree - numUnowned) return false;
    this.#lock(request, numHits);
    return this.tryReserve(request, request.numTokens);
  }

  /** Pages for contextLen tokens, all or nothing; the least recently used cached pages are evicted for them. */
  tryReserve(request: Request, contextLen: number): boolean {
    const first = request.numPages;
    const numMissing = ceilDiv(contextLen, this.pageSize) - first;
    if (numMissing <= 0) return true;
    growPages(request, first + numMissing);
    if (!this.#pool.tryAcquire(request.pages, first, numMissing)) return false;
    request.numPages = first + numMissing;
    for (let i = first; i < request.numPages; i++) this.#evict(request.pages[i]!);
    return true;
  }

  /**
   * Between steps of a prefill: takes over the next pages that others have published meanwhile, in place of our empty ones, and
   * returns the tokens it need not compute any more. As with attach(), one token is left.
   */
  advance(request: Request): number {
    const trie = this.#trie;
    const first = request.numSharedPages;
    if (trie === null || !request.readsCache || request.numComputed !== first * this.pageSize) return 0;
    const limit = Math.floor((request.numTokens - 1) / this.pageSize);
    for (let i = first; i < limit; i++) {
      const parent = i === 0 ? NULL_PAGE : request.pages[i - 1]!;
      const twin = trie.find(request.salt, parent, request.tokens, i * this.pageSize);
      if (twin === NULL_PAGE) break;
      this.#replacePage(request, i, twin);
      request.numSharedPages = i + 1;
    }
    const gained = (request.numSharedPages - first) * this.pageSize;
    request.numComputed += gained;
    this.#hitTokens += gained;
    return gained;
  }

  /** Enters the full pages below numLanded into the trie; where an identical page is there already, it replaces ours. */
  publish(request: Request): void {
    const trie = this.#trie;
    if (trie === null) return;
    const { pages, tokens, salt } = request;
    const numFull = Math.floor(request.numLanded / this.pageSize);
    for (let i = request.numSharedPages; i < numFull; i++) {
      const page = pages[i]!;
      const parent = i === 0 ? NULL_PAGE : pages[i - 1]!;
      const offset = i * this.pageSize;
      const twin = trie.find(salt, parent, tokens, offset);
      if (twin === NULL_PAGE) {
        trie.insert(salt, parent, tokens, offset, page);
        this.#numLockedNodes++;
      } else {
        this.#replacePage(request, i, twin);
      }
      request.numSharedPages = i + 1;
    }
  }

  /** Publishes, then gives all pages back; what was published stays cached until it is evicted. */
  release(request: Request): void {
    this.publish(request);
    // The last page first: it is the least likely to be asked for again, and a child must leave before its parent.
    for (let i = request.numPages - 1; i >= 0; i--) this.#releasePage(request.pages[i]!);
    forgetPages(request);
  }

  /** Gives all pages back without publishing: after a failed step the unpublished ones may hold garbage. */
  discard(request: Request): void {
    for (let i = request.numPages - 1; i >= request.numSharedPages; i--) this.#pool.releaseEmpty(request.pages[i]!);
    for (let i = request.numSharedPages - 1; i >= 0; i--) this.#releasePage(request.pages[i]!);
    forgetPages(request);
  }

  /**
   * Gives the child, which has no pages yet, what it shares with the parent: the full pages by reference and a fresh page for the
   * partial one, to be copied. A child that has more to compute than one generated token begins at a page boundary, like any
   * prompt. null: no page is left, or there is nothing to share; the child is unchanged.
   */
  fork(parent: Request, child: Request): PageCopy | null {
    if (child.salt !== parent.salt) return null;
    this.publish(parent); // now every full page is the trie's, and shared pages are shared in one way only
    let numShared = commonLen(parent, child);
    const isDecode = numShared >= Math.max(child.promptLen, child.numTokens - 1);
    if (!isDecode) numShared = alignDown(numShared, this.pageSize);
    if (numShared === 0) return null;
    const numFull = Math.floor(numShared / this.pageSize);
    growPages(child, numFull + 1);
    const hasPartial = numFull * this.pageSize < numShared;
    if (hasPartial && !this.#takePage(child, numFull)) return null;
    for (let i = 0; i < numFull; i++) {
      const page = parent.pages[i]!;
      this.#pool.retain(page);
      child.pages[i] = page;
    }
    child.numPages = hasPartial ? numFull + 1 : numFull;
    child.numSharedPages = this.#trie === null ? 0 : numFull;
    child.numComputed = numShared;
    return hasPartial ? { from: parent.pages[numFull]!, to: child.pages[numFull]! } : NO_COPY;
  }

  stats(): CacheStats {
    return {
      pagesTotal: this.pagesTotal,
      pagesFree: this.pagesFree,
      pagesCached: this.pagesCached,
      pagesUsed: this.pagesUsed,
      lookups: this.#lookups,
      hits: this.#hits,
      queriedTokens: this.#queriedTokens,
      hitTokens: this.#hitTokens,
      evictions: this.#evictions,
      trieNodes: this.#trie === null ? 0 : this.#trie.numNodes,
    };
  }

  /** Every page and trie node, for the dashboard. Off the hot path. */
  snapshot(): CacheSnapshot {
    return takeSnapshot(this.pageSize, this.#pool, this.#trie);
  }

  /** Free pages, the next to be taken first. Off the hot path. */
  freeQueue(): number[] {
    return this.#pool.freeQueue();
  }

  /** Throws unless every page is free, cached or owned exactly as counted; `live` are all requests that own pages. */
  checkIntegrity(live: Iterable<Request>): void {
    checkIntegrity(this.stats(), this.pageSize, this.#pool, this.#trie, live);
  }

  #takePage(request: Request, index: number): boolean {
    if (!this.#pool.tryAcquire(request.pages, index, 1)) return false;
    this.#evict(request.pages[index]!);
    return true;
  }

  /** Writes the cached prefix's pages to request.pages, owning none of them yet; returns how many. */
  #match(request: Request): number {
    const trie = this.#trie;
    if (trie === null || !request.readsCache) return 0;
    const limit = Math.floor((request.numTokens - 1) / this.pageSize);
    growPages(request, limit);
    let parent: number = NULL_PAGE;
    for (let i = 0; i < limit; i++) {
      parent = trie.find(request.salt, parent, request.tokens, i * this.pageSize);
      if (parent === NULL_PAGE) return i;
      request.pages[i] = parent;
    }
    return limit;
  }

  #lock(request: Request, numHits: number): number {
    for (let i = 0; i < numHits; i++) this.#retainNode(request.pages[i]!);
    request.numPages = numHits;
    request.numSharedPages = numHits;
    request.numComputed = numHits * this.pageSize;
    this.#lookups++;
    this.#queriedTokens += request.numTokens;
    if (numHits > 0) this.#hits++;
    this.#hitTokens += request.numComputed;
    return request.numComputed;
  }

  /** A trie page of the same tokens takes the place of our own. */
  #replacePage(request: Request, index: number, twin: number): void {
    this.#retainNode(twin);
    this.#pool.releaseEmpty(request.pages[index]!);
    request.pages[index] = twin;
  }

  #retainNode(page: number): void {
    if (this.#pool.refs(page) === 0) this.#numLockedNodes++;
    this.#pool.retain(page);
  }

  #releasePage(page: number): void {
    this.#pool.release(page);
    if (this.#trie?.has(page) && this.#pool.refs(page) === 0) this.#numLockedNodes--;
  }

  /** A page just taken from the queue forgets what it held. */
  #evict(page: number): void {
    if (!this.#trie?.has(page)) return;
    this.#trie.remove(page);
    this.#evictions++;
  }
}

function requireCount(param: string, value: number, least: number, most: number, why: string): void {
  if (Number.isSafeInteger(value) && value >= least && value <= most) return;
  throw errorFor("invalid_option", { param, value, expected: `an integer from ${least} to ${most} (${why})` });
}
