// The directory of cached prefixes. An entry is one page boundary of a prefix, found by the chained identity of the page before it
// (page-hash.ts), and says where each cache group keeps that page: a page id, for the state group the slot of a snapshot, or
// nothing. On a hit the tokens of the page and the parent's identity are compared too.
//
// The directory keeps no order of use and no locks: reference counts and queues of the groups' pools do both (cache-group.ts). An
// entry need not have its parent here: a window or a state can be resumed without what came before.

import { NULL_PAGE } from "../core/ids.js";
import { HASH_WORDS } from "./page-hash.js";
import type { PrefixJournal } from "./prefix-journal.js";

export const NO_ENTRY = -1;
const NO_WORDS = new Int32Array(0);

export class PageDirectory {
  readonly numGroups: number; // G
  numEntries = 0;
  /** Hears of every entry that comes or goes; null: nobody follows. */
  journal: PrefixJournal | null = null;
  readonly pageSize: number; // P
  readonly #capacity: number; // E
  readonly #hash: Int32Array; // [E, 4] identity
  readonly #parent: Int32Array; // [E, 4] identity of the page before it
  readonly #root: Int32Array; // [E] first word of the root: tells tenants apart
  readonly #tokens: Int32Array; // [E, P]
  /** Of the entries whose tokens media overlap: their words (page-hash.ts), which the identity names too. */
  readonly #media = new Map<number, Int32Array>();
  readonly #pages: Int32Array; // [E, G] NULL_PAGE: the group does not have it
  readonly #bucket: Int32Array; // [power of two] first entry of the bucket
  readonly #next: Int32Array; // [E] next entry of the same bucket, or of the free list
  #free = 0;

  constructor(capacity: number, pageSize: number, numGroups: number) {
    this.numGroups = numGroups;
    this.pageSize = pageSize;
    this.#capacity = capacity;
    this.#hash = new Int32Array(capacity * HASH_WORDS);
    this.#parent = new Int32Array(capacity * HASH_WORDS);
    this.#root = new Int32Array(capacity);
    this.#tokens = new Int32Array(capacity * pageSize);
    this.#pages = new Int32Array(capacity * numGroups);
    this.#bucket = new Int32Array(2 ** Math.ceil(Math.log2(Math.max(2, capacity)))).fill(NO_ENTRY);
    this.#next = Int32Array.from({ length: capacity }, (_, i) => (i + 1 < capacity ? i + 1 : NO_ENTRY));
  }

  /** The entry of page `index` of a sequence. `hashes` holds the root first, then the identity of each page. */
  find(hashes: Int32Array, index: number, tokens: Int32Array): number {
    const at = (index + 1) * HASH_WORDS;
    let entry = this.#bucket[this.#bucketOf(hashes, at)]!;
    while (entry !== NO_ENTRY && !this.#matches(entry, hashes, at, tokens, index * this.pageSize)) {
      entry = this.#next[entry]!;
    }
    return entry;
  }

  /** An entry without pages for page `index`; the caller knows from find() that there is none. */
  insert(hashes: Int32Array, index: number, tokens: Int32Array, media: Int32Array = NO_WORDS): number {
    const at = (index + 1) * HASH_WORDS;
    return this.#insert(hashes, at, hashes, at - HASH_WORDS, hashes[0]!, tokens, index * this.pageSize, media);
  }

  /** The same for a page that comes from elsewhere, with its identity and that of the page before it. */
  restore(
    hash: Int32Array,
    parent: Int32Array,
    root: number,
    tokens: Int32Array,
    media: Int32Array = NO_WORDS,
  ): number {
    return this.#insert(hash, 0, parent, 0, root, tokens, 0, media);
  }

  has(hash: Int32Array): boolean {
    let entry = this.#bucket[this.#bucketOf(hash, 0)]!;
    while (entry !== NO_ENTRY && !sameWords(this.#hash, entry * HASH_WORDS, hash, 0)) entry = this.#next[entry]!;
    return entry !== NO_ENTRY;
  }

  #insert(
    hashes: Int32Array,
    at: number,
    parents: Int32Array,
    parentAt: number,
    root: number,
    tokens: Int32Array,
    from: number,
    media: Int32Array,
  ): number {
    const entry = this.#free;
    if (entry === NO_ENTRY) throw new Error(`the directory's ${this.#capacity} entries are all in use`);
    this.#free = this.#next[entry]!;
    const base = entry * HASH_WORDS;
    for (let i = 0; i < HASH_WORDS; i++) {
      this.#hash[base + i] = hashes[at + i]!;
      this.#parent[base + i] = parents[parentAt + i]!;
    }
    this.#root[entry] = root;
    if (media.length > 0) this.#media.set(entry, media);
    const { numGroups } = this;
    this.#pages.fill(NULL_PAGE, entry * numGroups, (entry + 1) * numGroups);
    for (let i = 0; i < this.pageSize; i++) this.#tokens[entry * this.pageSize + i] = tokens[from + i]!;
    const bucket = this.#bucketOf(hashes, at);
    this.#next[entry] = this.#bucket[bucket]!;
    this.#bucket[bucket] = entry;
    this.numEntries++;
    this.journal?.note(true, this.#hash, base);
    return entry;
  }

  remove(entry: number): void {
    const bucket = this.#bucketOf(this.#hash, entry * HASH_WORDS);
    if (this.#bucket[bucket] === entry) {
      this.#bucket[bucket] = this.#next[entry]!;
    } else {
      let before = this.#bucket[bucket]!;
      while (this.#next[before] !== entry) before = this.#next[before]!;
      this.#next[before] = this.#next[entry]!;
    }
    this.#next[entry] = this.#free;
    this.#free = entry;
    this.#media.delete(entry);
    this.numEntries--;
    this.journal?.note(false, this.#hash, entry * HASH_WORDS);
  }

  pageOf(entry: number, group: number): number {
    return this.#pages[entry * this.numGroups + group]!;
  }

  setPage(entry: number, group: number, page: number): void {
    this.#pages[entry * this.numGroups + group] = page;
  }

  /** No group has anything of it. */
  isEmpty(entry: number): boolean {
    for (let g = 0; g < this.numGroups; g++) if (this.pageOf(entry, g) !== NULL_PAGE) return false;
    return true;
  }

  // --- off the hot path: what the dashboard and checkIntegrity() read ---

  /** All entries, in order of their ids. */
  entries(): number[] {
    const isFree = new Uint8Array(this.#capacity);
    for (let entry = this.#free; entry !== NO_ENTRY; entry = this.#next[entry]!) isFree[entry] = 1;
    return Array.from({ length: this.#capacity }, (_, entry) => entry).filter((entry) => isFree[entry] === 0);
  }

  /** The entry before this one; NO_ENTRY when it begins a sequence or stands alone. */
  parentOf(entry: number): number {
    const base = entry * HASH_WORDS;
    let parent = this.#bucket[this.#bucketOf(this.#parent, base)]!;
    while (parent !== NO_ENTRY && !sameWords(this.#hash, parent * HASH_WORDS, this.#parent, base)) {
      parent = this.#next[parent]!;
    }
    return parent;
  }

  hashOf(entry: number): Int32Array {
    return this.#hash.slice(entry * HASH_WORDS, (entry + 1) * HASH_WORDS);
  }

  parentHashOf(entry: number): Int32Array {
    return this.#parent.slice(entry * HASH_WORDS, (entry + 1) * HASH_WORDS);
  }

  saltTagOf(entry: number): number {
    return this.#root[entry]!;
  }

  tokensOf(entry: number): Int32Array {
    return this.#tokens.slice(entry * this.pageSize, (entry + 1) * this.pageSize);
  }

  mediaOf(entry: number): Int32Array {
    return this.#media.get(entry) ?? NO_WORDS;
  }

  #bucketOf(words: Int32Array, at: number): number {
    return words[at]! & (this.#bucket.length - 1);
  }

  #matches(entry: number, hashes: Int32Array, at: number, tokens: Int32Array, offset: number): boolean {
    const base = entry * HASH_WORDS;
    if (!sameWords(this.#hash, base, hashes, at) || !sameWords(this.#parent, base, hashes, at - HASH_WORDS))
      return false;
    const from = entry * this.pageSize;
    for (let i = 0; i < this.pageSize; i++) if (this.#tokens[from + i] !== tokens[offset + i]) return false;
    return true;
  }
}

export function sameWords(a: Int32Array, aAt: number, b: Int32Array, bAt: number): boolean {
  for (let i = 0; i < HASH_WORDS; i++) if (a[aAt + i] !== b[bAt + i]) return false;
  return true;
}
