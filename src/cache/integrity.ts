// Proof that the cache's books balance: recounts owners from the requests themselves and compares with what pool and trie
// believe. Used by tests each step and by the engine when idle; never on the hot path.

import { NULL_PAGE } from "../core/ids.js";
import { ceilDiv } from "../core/math.js";
import type { Request } from "../core/request.js";
import type { CacheStats } from "./cache-manager.js";
import type { PagePool } from "./page-pool.js";
import type { PrefixTrie } from "./prefix-trie.js";

export function checkIntegrity(
  stats: CacheStats,
  pageSize: number,
  pool: PagePool,
  trie: PrefixTrie | null,
  live: Iterable<Request>,
): void {
  const owners = new Int32Array(pool.numPages); // [numPages]
  for (const request of live) {
    checkRequest(request, pageSize, trie);
    const seen = new Set<number>();
    for (let i = 0; i < request.numPages; i++) {
      const page = request.pages[i]!;
      demand(page > NULL_PAGE && page < pool.numPages, () => `${request.id} owns page ${page}, outside the pool`);
      demand(!seen.has(page), () => `${request.id} owns page ${page} twice`);
      seen.add(page);
      owners[page]!++;
    }
  }

  const place = new Int32Array(pool.numPages).fill(-1); // [numPages] place in the free queue
  const queue = pool.freeQueue();
  demand(queue.length === pool.numFree, () => `the free queue has ${queue.length} pages, ${pool.numFree} are counted`);
  for (const [index, page] of queue.entries()) {
    demand(place[page] === -1, () => `page ${page} is in the free queue twice`);
    place[page] = index;
  }

  let numFree = 0;
  let numCached = 0;
  let numUsed = 0;
  let numNodes = 0;
  const children = new Int32Array(pool.numPages); // [numPages]
  for (let page = 1; page < pool.numPages; page++) {
    demand(
      pool.refs(page) === owners[page],
      () => `page ${page} has ${owners[page]} owners, ${pool.refs(page)} are counted`,
    );
    demand((place[page] !== -1) === (owners[page] === 0), () => `page ${page} is both owned and free, or neither`);
    const isNode = trie?.has(page) ?? false;
    if (owners[page]! > 0) numUsed++;
    else if (isNode) numCached++;
    else numFree++;
    if (trie === null || !isNode) continue;
    numNodes++;
    const parent = trie.parentOf(page);
    children[parent]!++;
    demand(trie.find(trie.saltOf(page), parent, trie.tokensOf(page), 0) === page, () => `node ${page} cannot be found`);
    if (parent === NULL_PAGE) continue;
    demand(trie.has(parent), () => `node ${page} has lost its parent ${parent}`);
    demand(owners[parent]! >= owners[page]!, () => `node ${page} has more owners than its parent ${parent}`);
    demand(
      owners[parent]! > 0 || place[page]! < place[parent]!,
      () => `node ${page} would be evicted after its parent ${parent}`,
    );
  }
  for (let page = 1; page < pool.numPages; page++) {
    const counted = trie?.numChildrenOf(page) ?? 0;
    demand(counted === children[page], () => `node ${page} has ${children[page]} children, ${counted} are counted`);
  }
  demand(
    stats.pagesFree === numFree && stats.pagesCached === numCached && stats.pagesUsed === numUsed,
    () =>
      `free/cached/used are ${numFree}/${numCached}/${numUsed}, counted ${stats.pagesFree}/${stats.pagesCached}/${stats.pagesUsed}`,
  );
  demand(stats.trieNodes === numNodes, () => `the trie has ${numNodes} nodes, ${stats.trieNodes} are counted`);
}

function checkRequest(request: Request, pageSize: number, trie: PrefixTrie | null): void {
  const { id, pages, numPages, numSharedPages, numComputed } = request;
  demand(numComputed <= request.numExpected, () => `${id} computed ${numComputed} of ${request.numExpected} tokens`);
  demand(numPages >= ceilDiv(numComputed, pageSize), () => `${id} has ${numPages} pages for ${numComputed} tokens`);
  demand(numSharedPages <= numPages, () => `${id} shares ${numSharedPages} of ${numPages} pages`);
  demand(numSharedPages * pageSize <= request.numLanded, () => `${id} shares pages it has not computed`);
  for (let i = 0; i < numPages; i++) {
    const page = pages[i]!;
    const isNode = trie?.has(page) ?? false;
    demand(isNode === i < numSharedPages, () => `${id}: page ${page} at ${i} is ${isNode ? "" : "not "}in the trie`);
    if (trie === null || !isNode) continue;
    demand(
      trie.parentOf(page) === (i === 0 ? NULL_PAGE : pages[i - 1]),
      () => `${id}: page ${page} has another parent`,
    );
    demand(trie.saltOf(page) === request.salt, () => `${id} shares page ${page} with another tenant`);
    const held = trie.tokensOf(page);
    for (let j = 0; j < pageSize; j++) {
      demand(held[j] === request.tokens[i * pageSize + j], () => `${id}: page ${page} holds other tokens`);
    }
  }
}

function demand(isTrue: boolean, message: () => string): void {
  if (!isTrue) throw new Error(`cache integrity: ${message()}`);
}
