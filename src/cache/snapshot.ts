// A picture of the cache for the dashboard: every page and every trie node, as plain data that crosses threads.

import type { PagePool } from "./page-pool.js";
import type { PrefixTrie } from "./prefix-trie.js";

export type PageState = "null" | "free" | "cached" | "used";

export interface CacheSnapshot {
  readonly pageSize: number;
  /** Indexed by page id; page 0 is the null page. */
  readonly pages: readonly { readonly state: PageState; readonly owners: number }[];
  readonly nodes: readonly TrieNodeSnapshot[];
}

export interface TrieNodeSnapshot {
  readonly page: number;
  /** Page of the parent node, 0 for a node that begins a sequence. */
  readonly parent: number;
  readonly tokens: readonly number[]; // [pageSize]
  /** Requests that own the page now. */
  readonly refs: number;
  /** Tells tenants apart without naming them; "" for the unsalted. */
  readonly saltHash: string;
}

export function takeSnapshot(pageSize: number, pool: PagePool, trie: PrefixTrie | null): CacheSnapshot {
  const pages: { state: PageState; owners: number }[] = [{ state: "null", owners: 0 }];
  const nodes: TrieNodeSnapshot[] = [];
  for (let page = 1; page < pool.numPages; page++) {
    const owners = pool.refs(page);
    const isNode = trie?.has(page) ?? false;
    pages.push({ state: owners > 0 ? "used" : isNode ? "cached" : "free", owners });
    if (trie !== null && isNode) {
      nodes.push({
        page,
        parent: trie.parentOf(page),
        tokens: Array.from(trie.tokensOf(page)),
        refs: owners,
        saltHash: hashSalt(trie.saltOf(page)),
      });
    }
  }
  return { pageSize, pages, nodes };
}

function hashSalt(salt: string): string {
  if (salt === "") return "";
  let hash = 0;
  for (let i = 0; i < salt.length; i++) hash = Math.imul(hash ^ salt.charCodeAt(i), 0x9e3779b1) ^ (hash >>> 13);
  return (hash >>> 0).toString(16).padStart(8, "0");
}
