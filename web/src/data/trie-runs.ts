// The cached prefixes as people read them: chains of pages that branch nowhere are one run, so a tree of thousands of pages is a tree of
// few runs. A run also ends where the number of owners changes, so that what requests share is seen.

import type { TrieNode } from "./wire.js";

export interface TrieRun {
  /** Consecutive pages, root side first. */
  readonly pages: readonly number[];
  /** Requests that own each of these pages. */
  readonly refs: number;
  /** What its tokens spell; null when the server does not tell. */
  readonly text: string | null;
  readonly saltHash: string;
  /** Position of its first token. */
  readonly start: number;
  readonly children: readonly TrieRun[];
  /** Pages of the run and everything below. */
  readonly numPages: number;
}

export function toRuns(nodes: readonly TrieNode[], pageSize: number): TrieRun[] {
  const childrenOf = new Map<number, TrieNode[]>();
  for (const node of nodes) {
    const siblings = childrenOf.get(node.parent);
    if (siblings === undefined) childrenOf.set(node.parent, [node]);
    else siblings.push(node);
  }

  const runsUnder = (parent: number, start: number): TrieRun[] =>
    (childrenOf.get(parent) ?? []).map((first) => runFrom(first, start)).sort(busyThenLarge);

  const runFrom = (first: TrieNode, start: number): TrieRun => {
    const pages = [pageOf(first)];
    let text = first.text ?? null;
    let last = first;
    for (;;) {
      const below = childrenOf.get(last.id) ?? [];
      const only = below[0];
      if (below.length !== 1 || only === undefined || only.refs !== first.refs) break;
      pages.push(pageOf(only));
      if (text !== null) text += only.text ?? "";
      last = only;
    }
    const children = runsUnder(last.id, start + pages.length * pageSize);
    const numPages = children.reduce((sum, child) => sum + child.numPages, pages.length);
    return { pages, refs: first.refs, text, saltHash: first.saltHash, start, children, numPages };
  };

  return runsUnder(0, 0);
}

/** Its page in the first group that has it. */
function pageOf(node: TrieNode): number {
  return node.pages.find((page) => page > 0) ?? 0;
}

/** What requests use now comes first; then the larger; then by page, so that the order is one. */
function busyThenLarge(a: TrieRun, b: TrieRun): number {
  return Number(b.refs > 0) - Number(a.refs > 0) || b.numPages - a.numPages || a.pages[0]! - b.pages[0]!;
}
