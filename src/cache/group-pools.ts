// All groups together: taking pages, and what a page taken from the queue makes the directory forget.
//
// Whoever holds a page of a full group holds all pages before it and releases them after it, so in the group's queue every page
// stands before its parent: eviction takes the ends of prefixes, oldest first. A prefix that lost a page of a full group cannot be
// resumed from there on, so its whole entry goes, with what other groups keep under it. A window's page or a state's
// snapshot goes alone.

import { NULL_PAGE } from "../core/ids.js";
import type { Request } from "../core/request.js";
import { CacheGroup, type GroupOptions } from "./cache-group.js";
import type { HostTier } from "./host-tier.js";
import { NO_ENTRY, PageDirectory } from "./page-directory.js";
import { mediaWords } from "./page-identity.js";

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
  /** Where evicted pages go; null: they are lost. */
  readonly #tier: HostTier | null;
  numEvictions = 0;

  constructor(groups: readonly GroupOptions[], pageSize: number, prefixCaching: boolean, tier: HostTier | null = null) {
    this.#tier = tier;
    this.groups = groups.map((group) => new CacheGroup(group, pageSize));
    this.hasFull = this.groups.some((group) => group.isFull);
    this.hasPages = this.groups.some((group) => !group.isState);
    this.stateIndex = this.groups.findIndex((group) => group.isState);
    // An entry has a page in every full group; without full groups, one somewhere. One more is being made.
    const sizes = this.groups.filter((group) => group.isFull || !this.hasFull).map((group) => group.pagesTotal);
    const capacity = 1 + (this.hasFull ? Math.min(...sizes) : sizes.reduce((sum, size) => sum + size, 0));
    this.directory = prefixCaching ? new PageDirectory(capacity, pageSize, groups.length) : null;
  }

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
}
