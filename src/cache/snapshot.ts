// A picture of the cache for the dashboard: every page of every group and every directory entry, as plain data that crosses threads.

import type { CacheKind } from "../core/cache-spec.js";
import { NULL_PAGE } from "../core/ids.js";
import type { GroupPools } from "./group-pools.js";
import { NO_ENTRY } from "./page-directory.js";
import { HASH_WORDS, hashSalt } from "./page-hash.js";

/** What a page is: never given out, empty, a cached prefix that nobody owns, or owned by requests. */
export type PageState = "null" | "free" | "cached" | "used";

/** Every page and every cached prefix at one moment. */
export interface CacheSnapshot {
  readonly pageSize: number;
  /** One per cache group of the model, in its order. */
  readonly groups: readonly GroupSnapshot[];
  /** Page boundaries of cached prefixes. */
  readonly nodes: readonly PrefixNode[];
}

/** The pages of one cache group. */
export interface GroupSnapshot {
  readonly kind: CacheKind;
  /** Tokens; 0 is no window. */
  readonly window: number;
  /** Indexed by page id (state: slot); page 0 is the null page. */
  readonly pages: readonly { readonly state: PageState; readonly owners: number }[];
}

/** One page boundary of a cached prefix. */
export interface PrefixNode {
  /** From 1 on. */
  readonly id: number;
  /** Page of each group, 0 where it has none; for the state group the slot of the snapshot. */
  readonly pages: readonly number[]; // [G]
  /** Id of the boundary before this one; 0 for one that begins a sequence or stands alone. */
  readonly parent: number;
  readonly tokens: readonly number[]; // [pageSize]
  /** Requests that own its pages now. */
  readonly refs: number;
  /** Tells tenants apart without naming them; "" for the unsalted. */
  readonly saltHash: string;
}

export function takeSnapshot(pageSize: number, pools: GroupPools): CacheSnapshot {
  const { directory } = pools;
  const groups = pools.groups.map((group) => ({
    kind: group.kind,
    window: group.window,
    pages: Array.from({ length: group.pool.numPages }, (_, page) => {
      const owners = group.pool.refs(page);
      const isCached = group.entryOf(page) !== NO_ENTRY;
      const state: PageState = page === NULL_PAGE ? "null" : owners > 0 ? "used" : isCached ? "cached" : "free";
      return { state, owners };
    }),
  }));
  if (directory === null) return { pageSize, groups, nodes: [] };
  const entries = directory.entries();
  const unsalted = new Int32Array(HASH_WORDS);
  hashSalt(unsalted, 0, "");
  const nodes = entries.map((entry) => {
    const pages = pools.groups.map((_, g) => directory.pageOf(entry, g));
    const root = directory.saltTagOf(entry);
    return {
      id: entry + 1,
      pages,
      parent: directory.parentOf(entry) + 1,
      tokens: Array.from(directory.tokensOf(entry)),
      refs: Math.max(...pages.map((page, g) => pools.groups[g]!.pool.refs(page))),
      saltHash: root === unsalted[0] ? "" : (root >>> 0).toString(16).padStart(8, "0"),
    };
  });
  return { pageSize, groups, nodes };
}
