// The prefix trie: which pages hold which tokens. A node is one full page, so the page id is the node id and every field is an
// array over pages. Children are found by a hash of (parent, tokens), then the tokens themselves are compared: a hash collision
// costs time, never a wrong page. Each salt has a root of its own; nodes under different roots are never found for each other.
//
// The trie keeps no order of use and no locks: reference counts and the queue of page-pool.ts do both. Whoever holds a node
// holds its ancestors, and releases them after it, so in the queue every node stands before its parent. The page at the
// front is therefore always a leaf: eviction takes leaves, oldest first, and parents become leaves.

import { NULL_PAGE } from "../core/ids.js";

const NOT_A_NODE = -1;

export class PrefixTrie {
  readonly #pageSize: number; // P
  readonly #numPages: number; // N
  numNodes = 0;

  // Ids: 1 .. N-1 are pages, N .. 2N-1 are roots. A root exists while it has a child, so there are fewer than N of them.
  readonly #parent: Int32Array; // [N] id of the parent, NOT_A_NODE for a page that is not in the trie
  readonly #numChildren: Int32Array; // [2N]
  readonly #tokens: Int32Array; // [N, P]
  readonly #hash: Int32Array; // [N]
  readonly #bucket: Int32Array; // [power of two] first node of the bucket, NULL_PAGE for none
  readonly #bucketNext: Int32Array; // [N] next node of the same bucket
  readonly #rootOf = new Map<string, number>();
  readonly #saltOf: string[] = []; // [root - N]
  readonly #freeRoots: number[] = [];

  constructor(numPages: number, pageSize: number) {
    this.#pageSize = pageSize;
    this.#numPages = numPages;
    this.#parent = new Int32Array(numPages).fill(NOT_A_NODE);
    this.#numChildren = new Int32Array(2 * numPages);
    this.#tokens = new Int32Array(numPages * pageSize);
    this.#hash = new Int32Array(numPages);
    this.#bucket = new Int32Array(2 ** Math.ceil(Math.log2(numPages)));
    this.#bucketNext = new Int32Array(numPages);
  }

  has(page: number): boolean {
    return this.#parent[page]! !== NOT_A_NODE;
  }

  /** The page that follows `parent` (NULL_PAGE: that begins a sequence of `salt`) with tokens[offset .. offset+P); NULL_PAGE when none does. */
  find(salt: string, parent: number, tokens: Int32Array, offset: number): number {
    const parentId = parent === NULL_PAGE ? this.#rootOf.get(salt) : parent;
    if (parentId === undefined) return NULL_PAGE;
    const hash = hashPage(parentId, tokens, offset, this.#pageSize);
    let page = this.#bucket[hash & (this.#bucket.length - 1)]!;
    while (page !== NULL_PAGE && !this.#matches(page, hash, parentId, tokens, offset)) page = this.#bucketNext[page]!;
    return page;
  }

  /** Enters `page` as that follower. The caller knows from find() that there is none, and holds `parent`. */
  insert(salt: string, parent: number, tokens: Int32Array, offset: number, page: number): void {
    const parentId = parent === NULL_PAGE ? this.#openRoot(salt) : parent;
    const hash = hashPage(parentId, tokens, offset, this.#pageSize);
    const bucket = hash & (this.#bucket.length - 1);
    const base = page * this.#pageSize;
    for (let i = 0; i < this.#pageSize; i++) this.#tokens[base + i] = tokens[offset + i]!;
    this.#parent[page] = parentId;
    this.#numChildren[parentId]!++;
    this.#hash[page] = hash;
    this.#bucketNext[page] = this.#bucket[bucket]!;
    this.#bucket[bucket] = page;
    this.numNodes++;
  }

  /** Forgets a leaf. */
  remove(page: number): void {
    if (this.#numChildren[page] !== 0) throw new Error(`page ${page} is evicted before its children`);
    const bucket = this.#hash[page]! & (this.#bucket.length - 1);
    if (this.#bucket[bucket] === page) {
      this.#bucket[bucket] = this.#bucketNext[page]!;
    } else {
      let before = this.#bucket[bucket]!;
      while (this.#bucketNext[before] !== page) before = this.#bucketNext[before]!;
      this.#bucketNext[before] = this.#bucketNext[page]!;
    }
    const parentId = this.#parent[page]!;
    this.#parent[page] = NOT_A_NODE;
    this.numNodes--;
    const left = --this.#numChildren[parentId]!;
    if (left === 0 && parentId >= this.#numPages) this.#closeRoot(parentId);
  }

  // --- off the hot path: what the dashboard and checkIntegrity() read ---

  /** The page before this one, NULL_PAGE when it begins a sequence. */
  parentOf(page: number): number {
    const id = this.#parent[page]!;
    return id >= this.#numPages ? NULL_PAGE : id;
  }

  numChildrenOf(page: number): number {
    return this.#numChildren[page]!;
  }

  saltOf(page: number): string {
    let id = page;
    while (id < this.#numPages) id = this.#parent[id]!;
    return this.#saltOf[id - this.#numPages]!;
  }

  tokensOf(page: number): Int32Array {
    return this.#tokens.slice(page * this.#pageSize, (page + 1) * this.#pageSize);
  }

  get numRoots(): number {
    return this.#rootOf.size;
  }

  #openRoot(salt: string): number {
    const open = this.#rootOf.get(salt);
    if (open !== undefined) return open;
    const root = this.#freeRoots.pop() ?? this.#numPages + this.#saltOf.length;
    this.#saltOf[root - this.#numPages] = salt;
    this.#rootOf.set(salt, root);
    return root;
  }

  /** A tenant that left nothing in the cache leaves no memory behind either. */
  #closeRoot(root: number): void {
    this.#rootOf.delete(this.#saltOf[root - this.#numPages]!);
    this.#saltOf[root - this.#numPages] = "";
    this.#freeRoots.push(root);
  }

  #matches(page: number, hash: number, parentId: number, tokens: Int32Array, offset: number): boolean {
    if (this.#hash[page] !== hash || this.#parent[page] !== parentId) return false;
    const base = page * this.#pageSize;
    for (let i = 0; i < this.#pageSize; i++) if (this.#tokens[base + i] !== tokens[offset + i]) return false;
    return true;
  }
}

/** 32 bits of (parent, page of tokens). */
export function hashPage(parentId: number, tokens: Int32Array, offset: number, pageSize: number): number {
  let hash = parentId;
  for (let i = offset; i < offset + pageSize; i++) {
    hash = Math.imul(hash ^ tokens[i]!, 0x9e3779b1);
    hash ^= hash >>> 15; // brings the high bits, where the product mixes best, down to the bucket's bits
  }
  return hash;
}
