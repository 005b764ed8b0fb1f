// A child gets what it shares with its parent: the full pages by reference, a fresh page for each partial one, to be copied, and a copy
// of the state.

import { NULL_PAGE } from "../core/ids.js";
import { alignDown } from "../core/math.js";
import type { Request } from "../core/request.js";
import type { GroupPools } from "./group-pools.js";
import { adoptHashes, commonLen } from "./request-pages.js";
import type { StateSlots } from "./state-slots.js";

/** In each group g, the engine copies page from[g] to page to[g] before the next step; equal ones need no copy. */
export interface PageCopy {
  readonly from: readonly number[]; // [G]
  readonly to: readonly number[]; // [G]
}

/** A fork at a page boundary shares everything. */
export const NO_COPY: PageCopy = { from: [], to: [] };

export class PageFork {
  readonly #pools: GroupPools;
  readonly #states: StateSlots | null;
  readonly #pageSize: number; // P

  constructor(pools: GroupPools, states: StateSlots | null, pageSize: number) {
    this.#pools = pools;
    this.#states = states;
    this.#pageSize = pageSize;
  }

  /** The parent's full pages are published. null: there is no page, or nothing to share; the child is unchanged. */
  fork(parent: Request, child: Request): PageCopy | null {
    const { groups } = this.#pools;
    const numShared = this.#numShared(parent, child);
    if (numShared === 0 || !this.#canFork(parent, numShared)) return null;
    const numFull = Math.floor(numShared / this.#pageSize);
    const hasPartial = numFull * this.#pageSize < numShared;
    for (let g = 0; g < groups.length; g++) {
      const group = groups[g]!;
      const from = parent.tables[g]!;
      const to = child.tables[g]!;
      if (!group.isState) {
        to.reserve(numFull);
        to.first = group.firstVisible(numShared);
        to.numPages = numFull;
        for (let i = to.first; i < numFull; i++) {
          to.pages[i] = from.pages[i]!;
          group.retain(from.pages[i]!);
        }
      }
      if (group.isState || hasPartial) this.#pools.extend(to, g, 1);
    }
    this.#states?.fork(parent, child);
    if (this.#pools.directory !== null) {
      adoptHashes(child, parent, numFull);
      child.numSharedPages = numFull;
    }
    child.numComputed = numShared;
    if (!hasPartial) return NO_COPY;
    return { from: this.#pagesAt(parent, numFull), to: this.#pagesAt(child, numFull) };
  }

  /** A child that has more to compute than one generated token begins at a page boundary, like any prompt. */
  #numShared(parent: Request, child: Request): number {
    const numShared = commonLen(parent, child);
    const isDecode = numShared >= Math.max(child.promptLen, child.numTokens - 1);
    return isDecode ? numShared : alignDown(numShared, this.#pageSize);
  }

  /** Every group can resume the parent's sequence after numShared tokens, and has the page or slot that takes. */
  #canFork(parent: Request, numShared: number): boolean {
    const hasPartial = numShared % this.#pageSize !== 0;
    return this.#pools.groups.every((group, g) => {
      if (group.isState) return numShared === parent.numComputed && group.pool.numFree >= 1;
      if (parent.tables[g]!.first > group.firstVisible(numShared)) return false;
      return !hasPartial || group.pool.numFree >= 1;
    });
  }

  #pagesAt(request: Request, index: number): number[] {
    const { groups } = this.#pools;
    return request.tables.map((table, g) => (groups[g]!.isState ? NULL_PAGE : table.pages[index]!));
  }
}
