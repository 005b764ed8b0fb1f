// Brings evicted pages back from host memory. The request owns empty pages for the tokens it is about to compute; those whose content
// the host tier has are written instead of computed, and published like computed ones. So this takes no page that the request would not
// take anyway, and one that ends meanwhile leaves nothing behind.

import { NULL_PAGE } from "../core/ids.js";
import type { Request } from "../core/request.js";
import type { GroupPools } from "./group-pools.js";
import type { HostEntry, HostTier } from "./host-tier.js";
import { NO_ENTRY } from "./page-directory.js";
import { hashPages } from "./request-pages.js";
import type { StateSlots } from "./state-slots.js";

export class Refill {
  readonly #pools: GroupPools;
  readonly #tier: HostTier;
  readonly #states: StateSlots | null;
  readonly #pageSize: number;
  /** What the tier has of each page that was walked. */
  readonly #found: (HostEntry | null)[] = [];

  constructor(pools: GroupPools, tier: HostTier, states: StateSlots | null, pageSize: number) {
    this.#pools = pools;
    this.#tier = tier;
    this.#states = states;
    this.#pageSize = pageSize;
  }

  /**
   * Writes the request's next pages from `from` on, as far as directory and tier together have them, and returns the boundary they
   * reach. `publish` is called once their content is in place, with the request's numComputed at the boundary.
   */
  fill(request: Request, from: number, publish: (request: Request) => void): number {
    const end = this.#furthest(request, from);
    if (end === from) return from;
    const slot = this.#states === null ? NULL_PAGE : this.#takeSlot(request, end);
    if (slot === null) return from;
    try {
      if (slot !== NULL_PAGE) this.#restoreState(this.#found.at(-1)!, slot);
      this.#restorePages(request, from, end);
    } catch {
      // A device that cannot write says so in its next flight; the tokens are computed.
      if (slot !== NULL_PAGE) this.#pools.groups[this.#pools.stateIndex]!.pool.releaseEmpty(slot);
      return from;
    }
    request.numComputed = end * this.#pageSize;
    publish(request);
    this.#states?.resumeFrom(request, end, slot);
    return end;
  }

  /** The last boundary at which every group can resume, at least `from`. One token is left to compute, as with any hit. */
  #furthest(request: Request, from: number): number {
    const { groups, directory } = this.#pools;
    let limit = Math.floor((request.numTokens - 1) / this.#pageSize);
    for (let g = 0; g < groups.length; g++) {
      if (!groups[g]!.isState) limit = Math.min(limit, request.tables[g]!.numPages);
    }
    this.#found.length = 0;
    let end = from;
    for (let i = from; i < limit; i++) {
      hashPages(request, i + 1, this.#pageSize);
      const entry = directory!.find(request.hashes, i, request.tokens);
      const found = this.#tier.find(request.hashes, i, request.tokens);
      let hasState = true;
      let hasPages = true;
      for (let g = 0; g < groups.length; g++) {
        const isHere = found?.pages[g] != null || (entry !== NO_ENTRY && directory!.pageOf(entry, g) !== NULL_PAGE);
        if (groups[g]!.isState) hasState = isHere;
        else if (!isHere) hasPages = false;
      }
      if (!hasPages) break;
      this.#found.push(found);
      if (hasState) end = i + 1;
    }
    this.#found.length = end - from;
    // The beginning of a prefix last, so that it outlives its end.
    for (let i = this.#found.length - 1; i >= 0; i--) if (this.#found[i] !== null) this.#tier.touch(this.#found[i]!);
    return end;
  }

  /** A slot for the state at `end`, NULL_PAGE when the directory has that state; null: no slot can be had. */
  #takeSlot(request: Request, end: number): number | null {
    const { directory, stateIndex } = this.#pools;
    const entry = directory!.find(request.hashes, end - 1, request.tokens);
    if (entry !== NO_ENTRY && directory!.pageOf(entry, stateIndex) !== NULL_PAGE) return NULL_PAGE;
    return this.#states!.tryTake();
  }

  /** The slot may have been another snapshot's, which took the place of the one that was found. */
  #restoreState(found: HostEntry, slot: number): void {
    if (found.pages[this.#pools.stateIndex] === null) throw new Error("the state was dropped");
    this.#tier.restore(found, this.#pools.stateIndex, slot);
  }

  /** Where the directory has a page, publishing puts it in the place of ours. */
  #restorePages(request: Request, from: number, end: number): void {
    const { groups, directory } = this.#pools;
    for (let i = from; i < end; i++) {
      const entry = directory!.find(request.hashes, i, request.tokens);
      for (let g = 0; g < groups.length; g++) {
        if (groups[g]!.isState || (entry !== NO_ENTRY && directory!.pageOf(entry, g) !== NULL_PAGE)) continue;
        this.#tier.restore(this.#found[i - from]!, g, request.tables[g]!.pages[i]!);
      }
    }
  }
}
