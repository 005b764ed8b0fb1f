// All groups together: how the tables of requests get their pages and give them back, and what a page taken from the queue makes the
// directory forget. What requests take from the directory: prefix.ts.
//
// Whoever holds a page of a full group holds all pages before it and releases them after it, so in the group's queue every page
// stands before its parent: eviction takes the ends of prefixes, oldest first. A prefix that lost a page of a full group cannot be
// resumed from there on, so its whole entry goes, with what other groups keep under it. A window's page or a state's
// snapshot goes alone.

import { NULL_PAGE } from "../core/ids.js";
import { ceilDiv } from "../core/math.js";
import type { PageTable, Request } from "../core/request.js";
import { CacheGroup, type GroupOptions } from "./cache-group.js";
import type { HostTier } from "./host-tier.js";
import { NO_ENTRY, PageDirectory } from "./page-directory.js";
import { mediaWords } from "./page-hash.js";
import { openTables } from "./request-pages.js";

/** A page that n requests own counts as an nth for each: PAGE_SHARES / n, rounded down. */
export const PAGE_SHARES = 5040;

export interface PoolOptions {
  readonly groups: readonly GroupOptions[];
  /** Tokens per page. */
  readonly pageSize: number;
  readonly prefixCaching: boolean;
  /** Tokens of the longest chunk; a window group has pages for the next one, not for a whole prompt. Default: no limit. */
  readonly maxChunk?: number;
  /** Where evicted pages go. Default: they are lost. */
  readonly tier?: HostTier | null;
}

export class GroupPools {
  readonly groups: readonly CacheGroup[];
  /** null: no prefix caching. */
  readonly directory: PageDirectory | null;
  /** Some group needs every page of a prefix. */
  readonly hasFull: boolean;
  /** Some group has pages, not only states. */
  readonly hasPages: boolean;
  /** Which group is the state group; -1: none. */
  readonly stateIndex: number;
  /** Tokens of the longest request that the pools can hold. */
  readonly maxTokens: number;
  readonly #tier: HostTier | null;
  readonly #pageSize: number; // P
  readonly #maxChunk: number;
  readonly #missing: Int32Array; // [G] pages to be taken
  numEvictions = 0;

  constructor({ groups, pageSize, prefixCaching, maxChunk = Infinity, tier = null }: PoolOptions) {
    this.#tier = tier;
    this.#pageSize = pageSize;
    this.#maxChunk = maxChunk;
    this.#missing = new Int32Array(groups.length);
    this.groups = groups.map((group) => new CacheGroup(group, pageSize));
    this.hasFull = this.groups.some((group) => group.isFull);
    this.hasPages = this.groups.some((group) => !group.isState);
    this.stateIndex = this.groups.findIndex((group) => group.isState);
    // An entry has a page in every full group; without full groups, one somewhere. One more is being made.
    const sizes = this.groups.filter((group) => group.isFull || !this.hasFull).map((group) => group.pagesTotal);
    const capacity = 1 + (this.hasFull ? Math.min(...sizes) : sizes.reduce((sum, size) => sum + size, 0));
    this.directory = prefixCaching ? new PageDirectory(capacity, pageSize, groups.length) : null;
    this.maxTokens = Math.min(...this.groups.map((group) => this.#mostTokens(group)));
  }

  // --- tables of requests --------------------------------------------------------------------------------------------

  /** The page after the last that a group must have for a step from `start` on. */
  end(group: CacheGroup, contextLen: number, start: number): number {
    const end = group.kind === "window" ? Math.min(contextLen, start + this.#maxChunk) : contextLen;
    return ceilDiv(end, this.#pageSize);
  }

  /** See CacheManager. */
  needed(request: Request, g: number): number {
    const group = this.groups[g]!;
    return group.isState ? 1 : this.end(group, request.numTokens, 0);
  }

  /** See CacheManager. */
  usage(request: Request, g: number): number {
    const { pool } = this.groups[g]!;
    const { pages, first, numPages } = request.tables[g]!;
    let usage = 0;
    for (let i = first; i < numPages; i++) usage += Math.floor(PAGE_SHARES / pool.refs(pages[i]!));
    return usage;
  }

  /** See CacheManager. */
  tryReserve(request: Request, contextLen: number): boolean {
    const { groups } = this;
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
    if (!this.tryTake(g, table.pages, table.numPages, count)) throw new Error(`group ${g} has no ${count} pages`);
    table.numPages += count;
  }

  /** Gives back the pages from the one after `contextLen` tokens on; nobody else has them. */
  dropAfter(request: Request, contextLen: number): void {
    const { groups } = this;
    const end = ceilDiv(contextLen, this.#pageSize);
    for (let g = 0; g < groups.length; g++) {
      const { isState, pool } = groups[g]!;
      const table = request.tables[g]!;
      while (!isState && table.numPages > end) pool.releaseEmpty(table.pages[--table.numPages]!);
    }
  }

  /** Gives back the pages before `end`, the oldest first; in the directory they stay cached. */
  dropBefore(request: Request, g: number, end: number): void {
    const group = this.groups[g]!;
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
    const { groups } = this;
    for (let g = 0; g < groups.length; g++) {
      const group = groups[g]!;
      if (group.kind === "window")
        this.dropBefore(request, g, group.firstVisible(Math.min(request.numCommitted, request.stateEnd)));
    }
  }

  /** All of them. `isGarbage`: what is not in the directory may hold anything, and is not worth keeping. */
  giveBack(request: Request, isGarbage: boolean): void {
    const { groups } = this;
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

  // --- pages and the directory ----------------------------------------------------------------------------------------

  /** Writes `count` pages of group g to out[offset ..]; all or nothing. Their old content is forgotten. */
  tryTake(g: number, out: Int32Array, offset: number, count: number): boolean {
    if (!this.groups[g]!.pool.tryAcquire(out, offset, count)) return false;
    for (let i = 0; i < count; i++) this.#evict(g, out[offset + i]!);
    return true;
  }

  /** The entry of page `index` of the request, whose identity is known; made if there is none. */
  entryFor(request: Request, index: number): number {
    const directory = this.directory!;
    const { hashes, tokens, media } = request;
    const entry = directory.find(hashes, index, tokens);
    if (entry !== NO_ENTRY) return entry;
    return directory.insert(hashes, index, tokens, mediaWords(media, index, directory.pageSize));
  }

  /** Enters our page of group g, or takes the one that is there already in its place: returns the page to hold. */
  publish(g: number, entry: number, page: number): number {
    const group = this.groups[g]!;
    const directory = this.directory!;
    const twin = directory.pageOf(entry, g);
    if (twin === NULL_PAGE) {
      directory.setPage(entry, g, page);
      group.setEntry(page, entry);
      return page;
    }
    if (twin !== page) {
      group.retain(twin);
      group.pool.releaseEmpty(page);
    }
    return twin;
  }

  /** Takes one group's page out of an entry; the page, which nobody owns, is the next to be taken. */
  drop(g: number, entry: number): void {
    const directory = this.directory!;
    this.groups[g]!.drop(directory.pageOf(entry, g));
    directory.setPage(entry, g, NULL_PAGE);
    if (directory.isEmpty(entry)) directory.remove(entry);
  }

  #evict(g: number, page: number): void {
    const { groups, directory } = this;
    const entry = groups[g]!.evict(page);
    if (entry === NO_ENTRY || directory === null) return;
    this.numEvictions++;
    if (this.#tier !== null) this.#spill(this.#tier, entry, g);
    directory.setPage(entry, g, NULL_PAGE);
    if (groups[g]!.isFull) {
      for (let other = 0; other < groups.length; other++) groups[other]!.drop(directory.pageOf(entry, other));
      directory.remove(entry);
    } else if (directory.isEmpty(entry)) {
      directory.remove(entry);
    }
  }

  /** What the entry is about to lose with its page of group g. */
  #spill(tier: HostTier, entry: number, g: number): void {
    const directory = this.directory!;
    const [hash, parent] = [directory.hashOf(entry), directory.parentHashOf(entry)];
    const record = { hash, parent, tokens: directory.tokensOf(entry) };
    for (let other = 0; other < this.groups.length; other++) {
      const page = directory.pageOf(entry, other);
      if (page !== NULL_PAGE && (other === g || this.groups[g]!.isFull)) tier.spill(record, other, page);
    }
  }

  #mostTokens(group: CacheGroup): number {
    if (group.isState) return Infinity;
    const isBounded =
      group.kind === "window" && group.pagesTotal > ceilDiv(group.window + this.#maxChunk, this.#pageSize);
    return isBounded ? Infinity : group.pagesTotal * this.#pageSize;
  }
}
