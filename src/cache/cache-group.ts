// One cache group's side of the pools: its pool, which of its pages are in the directory, and which pages of a sequence it needs.
// A page is free (holds nothing), cached (in the directory, owned by nobody, evictable) or used (owned).

import { type VisibleRule, visibleStart } from "../core/attention-plan.js";
import type { CacheKind } from "../core/cache-spec.js";
import { NULL_PAGE } from "../core/ids.js";
import { NO_ENTRY } from "./page-directory.js";
import { PagePool } from "./page-pool.js";

export interface GroupOptions {
  readonly kind: CacheKind;
  /** Pages, or slots of states; counting the null page 0. */
  readonly numPages: number;
  /** How far back a token sees, in tokens: one of the two for a window group. */
  readonly window?: number;
  readonly attentionChunk?: number;
}

/** How full one cache group is. */
export interface GroupStats {
  readonly kind: CacheKind;
  /** Without the null page: free + cached + used. */
  readonly pagesTotal: number;
  /** Owned by nobody, holding nothing. */
  readonly pagesFree: number;
  /** Owned by nobody, in the directory, evictable. */
  readonly pagesCached: number;
  readonly pagesUsed: number;
}

export type PageCounts = Omit<GroupStats, "kind">;

export class CacheGroup {
  readonly kind: CacheKind;
  readonly pool: PagePool;
  /** Every page of a prefix is needed to resume it: full and latent. */
  readonly isFull: boolean;
  readonly isState: boolean;
  /** In the directory and owned by nobody. */
  numCached = 0;
  readonly #pageSize: number;
  readonly #visible: Pick<VisibleRule, "window" | "attentionChunk">;
  readonly #entryOf: Int32Array; // [numPages] directory entry of a page, NO_ENTRY for none

  constructor(options: GroupOptions, pageSize: number) {
    const { kind, numPages, window = 0, attentionChunk = 0 } = options;
    this.kind = kind;
    this.pool = new PagePool(numPages);
    this.isFull = kind === "full" || kind === "latent";
    this.isState = kind === "state";
    this.#pageSize = pageSize;
    this.#visible = { window, attentionChunk };
    this.#entryOf = new Int32Array(numPages).fill(NO_ENTRY);
  }

  /** Most tokens a token sees; 0: all before it. */
  get window(): number {
    return this.#visible.window + this.#visible.attentionChunk;
  }

  get pagesTotal(): number {
    return this.pool.numPages - 1;
  }

  /** Pages that hold nothing. */
  get numEmpty(): number {
    return this.pool.numFree - this.numCached;
  }

  /** The first page of a sequence that a token at `position` or later can see. */
  firstVisible(position: number): number {
    return Math.floor(visibleStart(this.#visible, position) / this.#pageSize);
  }

  entryOf(page: number): number {
    return this.#entryOf[page]!;
  }

  isOwned(page: number): boolean {
    return this.pool.refs(page) > 0;
  }

  retain(page: number): void {
    if (this.pool.refs(page) === 0 && this.#entryOf[page] !== NO_ENTRY) this.numCached--;
    this.pool.retain(page);
  }

  release(page: number): void {
    this.pool.release(page);
    if (this.pool.refs(page) === 0 && this.#entryOf[page] !== NO_ENTRY) this.numCached++;
  }

  /** The page's content is in the directory from now on. The caller owns it. */
  setEntry(page: number, entry: number): void {
    this.#entryOf[page] = entry;
  }

  /** The page just taken from the queue leaves the directory: returns the entry that had it. */
  evict(page: number): number {
    const entry = this.#entryOf[page]!;
    if (entry === NO_ENTRY) return entry;
    this.#entryOf[page] = NO_ENTRY;
    this.numCached--;
    return entry;
  }

  /** A cached page that nobody will find any more: the next to be taken. */
  drop(page: number): void {
    if (page === NULL_PAGE) return;
    this.evict(page);
    this.pool.demote(page);
  }

  stats(): GroupStats {
    const { numFree } = this.pool;
    return {
      kind: this.kind,
      pagesTotal: this.pagesTotal,
      pagesFree: this.numEmpty,
      pagesCached: this.numCached,
      pagesUsed: this.pagesTotal - numFree,
    };
  }
}
