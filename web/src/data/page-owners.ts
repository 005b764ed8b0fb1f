// Who owns each page, turned around from the cache's picture: page -> requests, and page -> its node of the trie.

import type { CacheView, TrieNode } from "./wire.js";

export interface PageView {
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

export interface PageMapView {
  readonly pageSize: number;
  readonly pages: readonly PageView[];
  readonly counts: PageCounts;
}

const NOBODY: readonly string[] = [];

export function viewPages(cache: CacheView): PageMapView {
  const owners = new Map<number, string[]>();
  for (const { id, pages } of cache.requests) {
    for (const page of pages) {
      const list = owners.get(page);
      if (list === undefined) owners.set(page, [id]);
      else list.push(id);
    }
  }
  const nodes = new Map(cache.nodes.map((node) => [node.page, node]));
  const counts = { free: 0, cached: 0, used: 0, shared: 0 };
  const pages = cache.pages.map(({ state, owners: numOwners }, page): PageView => {
    if (state !== "null") counts[state]++;
    if (numOwners > 1) counts.shared++;
    return { state, owners: owners.get(page) ?? NOBODY, numOwners, node: nodes.get(page) ?? null };
  });
  return { pageSize: cache.pageSize, pages, counts };
}
