// The second tier: pages that were evicted from the device's pools, kept in host memory by identity. It pays where the device has
// memory of its own: bringing a page back is a copy, not a forward.
//
// Each group has the share of the tier that its pool has of all pools, and drops its own least recently used page when that is full. The
// memory is taken block by block as the tier fills, and a dropped page's place is used again. A page stays here when it is brought
// back, so evicting it again costs nothing. Whatever is found must have the tokens and the parent that are asked for. The bytes are
// moved by the memory handed in; nothing else is known of the device.

import { sameWords } from "./page-directory.js";
import { HASH_WORDS } from "./page-hash.js";
import type { PageRecord } from "./page-transfer.js";

/** Where the groups' pages are, and host memory to keep them in. Copies may be queued; they happen in the order of the calls. */
export interface PageMemory {
  readonly pageBytes: readonly number[]; // [G] of a page, or of a slot of states
  readonly numPages: readonly number[]; // [G] of a pool
  /** Host memory for `save`; null: not now, it would hold up the steps. Throws when there is no more. */
  allocHost(bytes: number): Uint8Array | null;
  /** Keeps the content of a page that is about to get another. */
  save(out: Uint8Array, group: number, page: number): void;
  /** The opposite: what save() wrote goes to a page that belongs to the caller. */
  load(group: number, page: number, bytes: Uint8Array): void;
}

/** Pages that the device had no room for, kept in host memory. */
export interface HostTierStats {
  /** Of all groups together. */
  readonly pages: number;
  readonly bytes: number;
  readonly maxBytes: number;
  /** Pages read from the device so far. */
  readonly spilled: number;
  /** Pages written back to it so far. */
  readonly restored: number;
}

/** One page boundary of a prefix. */
export interface HostEntry {
  readonly key: string;
  readonly parent: Int32Array; // [4]
  readonly tokens: Int32Array; // [P]
  readonly pages: (Uint8Array | null)[]; // [G]
}

/** One group's places. */
interface Shelf {
  maxPages: number;
  /** Places there are, used or free. */
  numPages: number;
  readonly free: Uint8Array[];
  /** Entries that have a page here, the least recently used first. */
  readonly used: Set<HostEntry>;
}

/** Memory is taken in blocks of this size: locking one in place takes a few milliseconds. */
const BLOCK_BYTES = 4 * 2 ** 20;

export class HostTier {
  readonly #maxBytes: number;
  readonly #memory: PageMemory;
  readonly #entries = new Map<string, HostEntry>();
  readonly #shelves: readonly Shelf[]; // [G]
  #numSpilled = 0;
  #numRestored = 0;

  constructor(maxBytes: number, memory: PageMemory) {
    this.#maxBytes = maxBytes;
    this.#memory = memory;
    const { pageBytes, numPages } = memory;
    const poolBytes = pageBytes.reduce((sum, bytes, g) => sum + bytes * numPages[g]!, 0);
    this.#shelves = numPages.map((count) => ({
      maxPages: Math.floor((maxBytes * count) / poolBytes),
      numPages: 0,
      free: [],
      used: new Set(),
    }));
  }

  /** The page, which is about to be given to another, is kept. A device that cannot read it says so in its next flight. */
  spill(record: Omit<PageRecord, "root" | "media">, group: number, page: number): void {
    const key = keyOf(record.hash, 0);
    const { parent, tokens } = record;
    const entry = this.#entries.get(key) ?? { key, parent, tokens, pages: this.#shelves.map(() => null) };
    if (entry.pages[group] !== null) {
      this.touch(entry);
      return;
    }
    const bytes = this.#placeIn(group);
    if (bytes === undefined) return;
    try {
      this.#memory.save(bytes, group, page);
    } catch {
      this.#shelves[group]!.free.push(bytes);
      return;
    }
    entry.pages[group] = bytes;
    this.#entries.set(key, entry);
    this.touch(entry);
    this.#numSpilled++;
  }

  /** What is kept of page `index` of a sequence; null: nothing. `hashes` holds the root first, then the identity of each page. */
  find(hashes: Int32Array, index: number, tokens: Int32Array): HostEntry | null {
    const entry = this.#entries.get(keyOf(hashes, (index + 1) * HASH_WORDS));
    if (entry === undefined || !sameWords(entry.parent, 0, hashes, index * HASH_WORDS)) return null;
    const size = entry.tokens.length;
    for (let i = 0; i < size; i++) if (entry.tokens[i] !== tokens[index * size + i]) return null;
    return entry;
  }

  /** It was of use now: the last to be dropped. */
  touch(entry: HostEntry): void {
    for (let g = 0; g < this.#shelves.length; g++) {
      if (entry.pages[g] === null) continue;
      const { used } = this.#shelves[g]!;
      used.delete(entry);
      used.add(entry);
    }
  }

  /** Writes what is kept of the group to a page that belongs to the caller. */
  restore(entry: HostEntry, group: number, page: number): void {
    this.#memory.load(group, page, entry.pages[group]!);
    this.#numRestored++;
  }

  stats(): HostTierStats {
    let pages = 0;
    let bytes = 0;
    for (let g = 0; g < this.#shelves.length; g++) {
      const { size } = this.#shelves[g]!.used;
      pages += size;
      bytes += size * this.#memory.pageBytes[g]!;
    }
    return { pages, bytes, maxBytes: this.#maxBytes, spilled: this.#numSpilled, restored: this.#numRestored };
  }

  /** A free place of the group, the least recently used one's if need be; undefined: the tier has none for it. */
  #placeIn(group: number): Uint8Array | undefined {
    const shelf = this.#shelves[group]!;
    if (shelf.free.length === 0) this.#grow(shelf, this.#memory.pageBytes[group]!);
    if (shelf.free.length === 0) for (const oldest of shelf.used) return this.#drop(oldest, group);
    return shelf.free.pop();
  }

  #grow(shelf: Shelf, size: number): void {
    const count = Math.min(shelf.maxPages - shelf.numPages, Math.max(1, Math.floor(BLOCK_BYTES / size)));
    if (count <= 0) return;
    let block: Uint8Array | null;
    try {
      block = this.#memory.allocHost(count * size);
    } catch {
      shelf.maxPages = shelf.numPages; // the host has no more: the tier stays as large as it is
      return;
    }
    if (block === null) return;
    for (let i = count - 1; i >= 0; i--) shelf.free.push(block.subarray(i * size, (i + 1) * size));
    shelf.numPages += count;
  }

  /** Takes the group's page out of an entry; returns its place. */
  #drop(entry: HostEntry, group: number): Uint8Array {
    const bytes = entry.pages[group]!;
    entry.pages[group] = null;
    this.#shelves[group]!.used.delete(entry);
    if (entry.pages.every((page) => page === null)) this.#entries.delete(entry.key);
    return bytes;
  }
}

function keyOf(hashes: Int32Array, at: number): string {
  return hashes.subarray(at, at + HASH_WORDS).join();
}
