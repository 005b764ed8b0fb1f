// Pages on their way out of the cache or into it: to disk, to another machine, and back. A transfer owns its pages as a request does,
// so that nobody evicts or writes them meanwhile; what arrives is found by requests only once it has been published.

import { NULL_PAGE } from "../core/ids.js";
import { type MediumSpan, NO_MEDIA } from "../core/media.js";
import type { CacheGroup } from "./cache-group.js";
import type { GroupPools } from "./group-pools.js";
import { NO_ENTRY, type PageDirectory } from "./page-directory.js";
import { addMedia, HASH_WORDS, hashPage, hashSalt, identifyPage } from "./page-hash.js";

/** A page boundary of a prefix, as it is known on every machine. */
export interface PageRecord {
  readonly hash: Int32Array; // [4] identity
  readonly parent: Int32Array; // [4] identity of the page before it
  /** First word of the salt's root: tells tenants apart. */
  readonly root: number;
  readonly tokens: Int32Array; // [P]
  /** Of the media that overlap the tokens: their words (page-hash.ts). */
  readonly media: Int32Array;
}

/** One record and its pages here. */
export interface TransferItem {
  readonly record: PageRecord;
  readonly pages: Int32Array; // [G] NULL_PAGE: the group has none
}

export class PageTransfer {
  readonly items: TransferItem[] = [];
}

export class PageTransfers {
  readonly #pools: GroupPools;
  readonly #open = new Set<PageTransfer>();

  constructor(pools: GroupPools) {
    this.#pools = pools;
  }

  /** Everything cached and owned by nobody, the hottest first and a page before those that follow it. */
  lend(): PageTransfer {
    const { groups, directory } = this.#pools;
    const transfer = this.begin();
    if (directory === null) return transfer;
    // A full group's queue has every prefix, ends first; without one, the first group stands for all.
    const group = groups.find((one) => one.isFull) ?? groups[0]!;
    const queue = group.pool.freeQueue();
    for (let i = queue.length - 1; i >= 0; i--) {
      const entry = group.entryOf(queue[i]!);
      if (entry === NO_ENTRY) continue;
      this.#lend(transfer, directory, entry);
    }
    return transfer;
  }

  /** The leading pages of a prompt that are cached, one after another, whoever owns them. */
  lendPrefix(prompt: Int32Array, salt: string, media: readonly MediumSpan[] = NO_MEDIA): PageTransfer {
    const { directory } = this.#pools;
    const transfer = this.begin();
    if (directory === null) return transfer;
    const { pageSize } = directory;
    const hashes = new Int32Array((Math.floor(prompt.length / pageSize) + 1) * HASH_WORDS);
    hashSalt(hashes, 0, salt);
    for (let i = 0; (i + 1) * pageSize <= prompt.length; i++) {
      identifyPage(hashes, (i + 1) * HASH_WORDS, hashes, i * HASH_WORDS, prompt, i, pageSize, media);
      const entry = directory.find(hashes, i, prompt);
      if (entry === NO_ENTRY) break;
      this.#lend(transfer, directory, entry);
    }
    return transfer;
  }

  #lend(transfer: PageTransfer, directory: PageDirectory, entry: number): void {
    const { groups } = this.#pools;
    const pages = Int32Array.from(groups, (_, g) => directory.pageOf(entry, g));
    for (let g = 0; g < groups.length; g++) if (pages[g] !== NULL_PAGE) groups[g]!.retain(pages[g]!);
    const [hash, parent] = [directory.hashOf(entry), directory.parentHashOf(entry)];
    const [tokens, media] = [directory.tokensOf(entry), directory.mediaOf(entry)];
    const record = { hash, parent, root: directory.saltTagOf(entry), tokens, media };
    transfer.items.push({ record, pages });
  }

  begin(): PageTransfer {
    const transfer = new PageTransfer();
    this.#open.add(transfer);
    return transfer;
  }

  /**
   * A page for the record in each group of `wanted` that has one to give: an empty one, or, if `mayEvict`, the coldest. The caller writes
   * their content and publishes. null: a full group has none, the record is here already, or its identity is not that of its tokens and media.
   */
  receive(
    transfer: PageTransfer,
    record: PageRecord,
    wanted: readonly boolean[],
    mayEvict = false,
  ): TransferItem | null {
    const { groups, directory } = this.#pools;
    if (directory === null || !hasValidIdentity(record) || directory.has(record.hash)) return null;
    const hasRoom = (group: CacheGroup): boolean => (mayEvict ? group.pool.numFree : group.numEmpty) > 0;
    const takes = groups.map((group, g) => wanted[g] === true && hasRoom(group));
    if (!takes.includes(true) || groups.some((group, g) => group.isFull && !takes[g])) return null;
    const pages = new Int32Array(groups.length);
    for (let g = 0; g < groups.length; g++) if (takes[g]) this.#pools.tryTake(g, pages, g, 1);
    const item = { record, pages };
    transfer.items.push(item);
    return item;
  }

  /** The item's pages hold what its record says: from now on requests find them. */
  publish({ record, pages }: TransferItem): void {
    const { groups, directory } = this.#pools;
    const entry = directory!.restore(record.hash, record.parent, record.root, record.tokens, record.media);
    for (let g = 0; g < groups.length; g++) if (pages[g] !== NULL_PAGE) this.#pools.publish(g, entry, pages[g]!);
  }

  /** Gives all pages back. The first items were the hottest and stay longest. */
  end(transfer: PageTransfer): void {
    const { groups } = this.#pools;
    this.#open.delete(transfer);
    for (let i = transfer.items.length - 1; i >= 0; i--) {
      const { pages } = transfer.items[i]!;
      for (let g = 0; g < groups.length; g++) {
        if (pages[g] === NULL_PAGE) continue;
        if (groups[g]!.entryOf(pages[g]!) === NO_ENTRY) groups[g]!.pool.releaseEmpty(pages[g]!);
        else groups[g]!.release(pages[g]!);
      }
    }
  }

  /** Adds the pages of group g that transfers own. */
  countOwners(owners: Int32Array, g: number): void {
    for (const { items } of this.#open) for (const { pages } of items) if (pages[g] !== NULL_PAGE) owners[pages[g]!]!++;
  }
}

/** Whether the identity is that of the tokens and media after the parent: nothing else is ever published under it. */
function hasValidIdentity({ hash, parent, tokens, media }: PageRecord): boolean {
  const expected = new Int32Array(HASH_WORDS);
  hashPage(expected, 0, parent, 0, tokens, 0, tokens.length);
  addMedia(expected, 0, media);
  return expected.every((word, i) => word === hash[i]);
}
