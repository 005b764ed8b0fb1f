// The second tier: pages that were evicted from the device's pools, kept in host memory by identity, the least recently used dropped
// first. It pays where the device has memory of its own: bringing a page back is a copy, not a forward.
//
// A page stays here when it is brought back, so evicting it again costs nothing. Whatever is found must have the tokens and the
// parent that are asked for. The bytes are moved by the memory handed in; nothing else is known of the device.

import { sameWords } from "./page-directory.js";
import { HASH_WORDS } from "./page-hash.js";
import type { PageRecord } from "./page-transfer.js";

/** Where the groups' pages are. Both calls take their place among what is queued on the device. */
export interface PageMemory {
  readonly pageBytes: readonly number[]; // [G] of a page, or of a slot of states
  read(out: Uint8Array, group: number, page: number): void;
  write(group: number, page: number, bytes: Uint8Array): void;
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

export class HostTier {
  readonly #maxBytes: number;
  readonly #memory: PageMemory;
  readonly #entries = new Map<string, HostEntry>(); // the least recently used first
  #numPages = 0;
  #bytes = 0;
  #numSpilled = 0;
  #numRestored = 0;

  constructor(maxBytes: number, memory: PageMemory) {
    this.#maxBytes = maxBytes;
    this.#memory = memory;
  }

  /** The page, which is about to be given to another, is read and kept. A device that cannot read it says so in its next flight. */
  spill(record: Omit<PageRecord, "root">, group: number, page: number): void {
    const key = keyOf(record.hash, 0);
    const entry = this.#entries.get(key) ?? { ...record, key, pages: this.#memory.pageBytes.map(() => null) };
    const size = this.#memory.pageBytes[group]!;
    if (entry.pages[group] !== null) this.touch(entry);
    else if (this.#bytesOf(entry) + size <= this.#maxBytes) {
      const bytes = new Uint8Array(size);
      try {
        this.#memory.read(bytes, group, page);
      } catch {
        return;
      }
      this.touch(entry);
      for (const oldest of this.#entries.values()) {
        if (this.#bytes + size <= this.#maxBytes) break;
        this.#drop(oldest);
      }
      entry.pages[group] = bytes;
      this.#bytes += size;
      this.#numPages++;
      this.#numSpilled++;
    }
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
    this.#entries.delete(entry.key);
    this.#entries.set(entry.key, entry);
  }

  /** Writes what is kept of the group to a page that belongs to the caller. */
  restore(entry: HostEntry, group: number, page: number): void {
    this.#memory.write(group, page, entry.pages[group]!);
    this.#numRestored++;
  }

  stats(): HostTierStats {
    return {
      pages: this.#numPages,
      bytes: this.#bytes,
      maxBytes: this.#maxBytes,
      spilled: this.#numSpilled,
      restored: this.#numRestored,
    };
  }

  #bytesOf({ pages }: HostEntry): number {
    let sum = 0;
    for (const bytes of pages) sum += bytes?.length ?? 0;
    return sum;
  }

  #drop(entry: HostEntry): void {
    this.#entries.delete(entry.key);
    this.#bytes -= this.#bytesOf(entry);
    for (const bytes of entry.pages) if (bytes !== null) this.#numPages--;
  }
}

function keyOf(hashes: Int32Array, at: number): string {
  return hashes.subarray(at, at + HASH_WORDS).join();
}
