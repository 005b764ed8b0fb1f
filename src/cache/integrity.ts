// Proof that the cache's pools balance: recounts owners from the requests themselves and compares with what pools and directory
// believe. Used by tests each step and by the engine when idle; never on the hot path.

import { NULL_PAGE } from "../core/ids.js";
import { ceilDiv } from "../core/math.js";
import type { Request } from "../core/request.js";
import type { CacheGroup } from "./cache-group.js";
import type { CacheStats } from "./cache-manager.js";
import type { GroupPools } from "./group-pools.js";
import { NO_ENTRY, type PageDirectory, sameWords } from "./page-directory.js";
import { HASH_WORDS } from "./page-hash.js";
import type { PageTransfers } from "./page-transfer.js";

export function checkIntegrity(
  stats: CacheStats,
  pageSize: number,
  pools: GroupPools,
  live: Iterable<Request>,
  transfers: PageTransfers,
): void {
  const requests = [...live];
  for (const request of requests) checkRequest(request, pageSize, pools);
  for (const [g, group] of pools.groups.entries()) {
    const owners = ownersOf(requests, g, group);
    transfers.countOwners(owners, g);
    const place = checkQueue(group);
    checkPages(stats, g, pools, owners, place);
    if (pools.directory !== null && group.isFull) checkOrder(g, group, pools.directory, owners, place);
  }
  if (pools.directory !== null) checkDirectory(pools, pools.directory);
  const numEntries = pools.directory?.numEntries ?? 0;
  demand(stats.entries === numEntries, () => `the directory has ${numEntries} entries, ${stats.entries} are counted`);
}

/** How many requests own each page of group g. */
function ownersOf(requests: readonly Request[], g: number, group: CacheGroup): Int32Array {
  const owners = new Int32Array(group.pool.numPages); // [numPages]
  for (const request of requests) {
    const seen = new Set<number>();
    const own = (page: number): void => {
      demand(page > NULL_PAGE && page < group.pool.numPages, () => `${request.id} owns page ${page}, outside the pool`);
      demand(!seen.has(page), () => `${request.id} owns page ${page} twice`);
      seen.add(page);
      owners[page]!++;
    };
    const table = request.tables[g];
    if (table === undefined) continue;
    for (let i = table.first; i < table.numPages; i++) own(table.pages[i]!);
    if (group.isState) for (const { slot } of request.pendingSnapshots) own(slot);
  }
  return owners;
}

/** Place of each page in the free queue, -1 for those that are owned. */
function checkQueue({ pool }: CacheGroup): Int32Array {
  const place = new Int32Array(pool.numPages).fill(-1); // [numPages]
  const queue = pool.freeQueue();
  demand(queue.length === pool.numFree, () => `the free queue has ${queue.length} pages, ${pool.numFree} are counted`);
  for (const [index, page] of queue.entries()) {
    demand(place[page] === -1, () => `page ${page} is in the free queue twice`);
    place[page] = index;
  }
  return place;
}

function checkPages(stats: CacheStats, g: number, pools: GroupPools, owners: Int32Array, place: Int32Array): void {
  const group = pools.groups[g]!;
  const { pool } = group;
  let numFree = 0;
  let numCached = 0;
  let numUsed = 0;
  for (let page = 1; page < pool.numPages; page++) {
    const counted = pool.refs(page);
    demand(counted === owners[page], () => `page ${page} has ${owners[page]} owners, ${counted} are counted`);
    demand((place[page] !== -1) === (owners[page] === 0), () => `page ${page} is both owned and free, or neither`);
    const entry = group.entryOf(page);
    if (owners[page]! > 0) numUsed++;
    else if (entry !== NO_ENTRY) numCached++;
    else numFree++;
    if (entry === NO_ENTRY) continue;
    demand(
      pools.directory!.pageOf(entry, g) === page,
      () => `entry ${entry} does not know its page ${page} of group ${g}`,
    );
  }
  const { pagesFree, pagesCached, pagesUsed } = stats.groups[g]!;
  demand(
    pagesFree === numFree && pagesCached === numCached && pagesUsed === numUsed,
    () => `free/cached/used are ${numFree}/${numCached}/${numUsed}, counted ${pagesFree}/${pagesCached}/${pagesUsed}`,
  );
}

/** In a full group a page leaves the cache before the page it follows. */
function checkOrder(
  g: number,
  group: CacheGroup,
  directory: PageDirectory,
  owners: Int32Array,
  place: Int32Array,
): void {
  for (const entry of directory.entries()) {
    const page = directory.pageOf(entry, g);
    demand(page !== NULL_PAGE, () => `entry ${entry} has lost its page of group ${g}`);
    demand(group.entryOf(page) === entry, () => `page ${page} of entry ${entry} is another's`);
    const parentEntry = directory.parentOf(entry);
    if (parentEntry === NO_ENTRY) continue;
    const parent = directory.pageOf(parentEntry, g);
    demand(owners[parent]! >= owners[page]!, () => `page ${page} has more owners than its parent ${parent}`);
    demand(
      owners[parent]! > 0 || place[page]! < place[parent]!,
      () => `page ${page} would be evicted after its parent ${parent}`,
    );
  }
}

function checkDirectory(pools: GroupPools, directory: PageDirectory): void {
  for (const entry of directory.entries()) {
    demand(!directory.isEmpty(entry), () => `entry ${entry} has no page`);
    for (const [g, group] of pools.groups.entries()) {
      const page = directory.pageOf(entry, g);
      if (page === NULL_PAGE) continue;
      demand(group.entryOf(page) === entry, () => `page ${page} of group ${g} does not know its entry ${entry}`);
    }
    const hashes = Int32Array.of(...directory.parentHashOf(entry), ...directory.hashOf(entry));
    demand(directory.find(hashes, 0, directory.tokensOf(entry)) === entry, () => `entry ${entry} cannot be found`);
    const isRoot = directory.parentHashOf(entry)[0] === directory.saltTagOf(entry);
    if (!pools.hasFull || isRoot) continue;
    demand(directory.parentOf(entry) !== NO_ENTRY, () => `entry ${entry} has lost its parent`);
  }
}

function checkRequest(request: Request, pageSize: number, pools: GroupPools): void {
  const { id, numSharedPages, numComputed, tables } = request;
  const numGiven = request.numTokensWithPending + request.numDrafted;
  demand(numComputed <= numGiven, () => `${id} computed ${numComputed} of ${numGiven} tokens`);
  demand(numSharedPages * pageSize <= request.numCommitted, () => `${id} shares pages it has not computed`);
  for (const [g, group] of pools.groups.entries()) {
    const table = tables[g];
    if (table === undefined) continue;
    const { pages, first, numPages } = table;
    if (group.isState) {
      demand(numPages <= 1 && (numPages === 1 || numComputed === 0), () => `${id} has ${numPages} states`);
      continue;
    }
    demand(numPages >= ceilDiv(numComputed, pageSize), () => `${id} has ${numPages} pages for ${numComputed} tokens`);
    demand(first <= numPages, () => `${id} lacks pages before ${first}`);
    demand(first <= group.firstVisible(request.numCommitted), () => `${id} has lost pages it still sees`);
    for (let i = 0; i < first; i++) demand(pages[i] === NULL_PAGE, () => `${id}: page ${i} is behind the window`);
    for (let i = first; i < numPages; i++) checkHeldPage(request, i, pages[i]!, group, pools, pageSize);
  }
}

function checkHeldPage(
  request: Request,
  index: number,
  page: number,
  group: CacheGroup,
  { directory }: GroupPools,
  pageSize: number,
): void {
  const { id, hashes, tokens } = request;
  const entry = group.entryOf(page);
  const isShared = index < request.numSharedPages;
  demand(
    (entry !== NO_ENTRY) === isShared,
    () => `${id}: page ${page} at ${index} is ${isShared ? "not " : ""}in the directory`,
  );
  if (directory === null || !isShared) return;
  const held = directory.tokensOf(entry);
  for (let j = 0; j < pageSize; j++) {
    demand(held[j] === tokens[index * pageSize + j], () => `${id}: page ${page} holds other tokens`);
  }
  const [hash, parent] = [directory.hashOf(entry), directory.parentHashOf(entry)];
  demand(sameWords(hash, 0, hashes, (index + 1) * HASH_WORDS), () => `${id}: page ${page} has another identity`);
  demand(sameWords(parent, 0, hashes, index * HASH_WORDS), () => `${id}: page ${page} has another parent`);
}

function demand(isTrue: boolean, message: () => string): void {
  if (!isTrue) throw new Error(`cache integrity: ${message()}`);
}
