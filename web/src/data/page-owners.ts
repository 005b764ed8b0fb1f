// Who owns each page, turned around from the cache's picture: page -> requests, and page -> its node of the prefix tree. The pages
// of all cache groups stand in one list, group after group.

import type { CacheView, TrieNode } from "./wire.js";

export interface PageView {
  /** Which of the groups it is of, and its id there. */
  readonly group: number;
  readonly page: number;
  readonly state: "null" | "free" | "cached" | "used";
  /** Ids of the requests that own it. */
  readonly owners: readonly string[];
  /** How many own it; more than `owners` when one of them began after the picture of the requests was taken. */
  readonly numOwners: number;
  readonly node: TrieNode | null;
}

export interface PageCounts {
  readonly free: number;
  readonly cached: number;
  readonly used: number;
  /** Of the used ones, those with more than one owner. */
  readonly shared: number;
}

/** The pages [start, start + numPages) of the map: one cache group of the model. */
export interface GroupBand {
  readonly name: string;
  readonly start: number;
  readonly numPages: number;
}

export interface PageMapView {
  readonly pageSize: number;
  readonly groups: readonly GroupBand[];
  readonly pages: readonly PageView[];
  readonly counts: PageCounts;
}

const NOBODY: readonly string[] = [];

export function viewPages(cache: CacheView): PageMapView {
  const counts = { free: 0, cached: 0, used: 0, shared: 0 };
  const pages: PageView[] = [];
  const groups = cache.groups.map(({ kind, window, pages: own }, g): GroupBand => {
    const start = pages.length;
    const owners = ownersOf(cache, g);
    const nodes = new Map(cache.nodes.map((node) => [node.pages[g]!, node]));
    for (const [page, { state, owners: numOwners }] of own.entries()) {
      if (state !== "null") counts[state]++;
      if (numOwners > 1) counts.shared++;
      const node = state === "null" ? null : (nodes.get(page) ?? null);
      pages.push({ group: g, page, state, owners: owners.get(page) ?? NOBODY, numOwners, node });
    }
    return { name: window > 0 ? `${kind} of ${window}` : kind, start, numPages: own.length };
  });
  return { pageSize: cache.pageSize, groups, pages, counts };
}

/** The requests that own each page of a group. */
function ownersOf(cache: CacheView, group: number): Map<number, string[]> {
  const owners = new Map<number, string[]>();
  for (const { id, tables } of cache.requests) {
    for (const page of tables[group] ?? []) {
      const list = owners.get(page);
      if (list === undefined) owners.set(page, [id]);
      else list.push(id);
    }
  }
  return owners;
}
