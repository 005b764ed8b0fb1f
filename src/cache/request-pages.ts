// What the cache keeps on a request: its tables, and the identities of its pages.

import { PageTable, type Request } from "../core/request.js";
import { sameWords } from "./page-directory.js";
import { HASH_WORDS, hashSalt, identifyPage } from "./page-hash.js";

/** A table for each group. Tables live as long as the request, so this allocates once. */
export function openTables(request: Request, numGroups: number): void {
  while (request.tables.length < numGroups) request.tables.push(new PageTable());
}

export function forgetPages(request: Request): void {
  for (let g = 0; g < request.tables.length; g++) request.tables[g]!.clear();
  request.numSharedPages = 0;
  request.numComputed = 0;
  request.numRewound = 0;
}

/** Leading tokens whose K and V the parent has and the child needs. */
export function commonLen(parent: Request, child: Request): number {
  const limit = Math.min(parent.numCommitted, child.numTokens);
  let length = 0;
  while (length < limit && parent.tokens[length] === child.tokens[length]) length++;
  return length;
}

/** Identities of the first numPages pages, each computed once in the request's life: tokens below numTokens never change. */
export function hashPages(request: Request, numPages: number, pageSize: number): void {
  if (numPages <= request.numHashedPages) return;
  const needed = (numPages + 1) * HASH_WORDS;
  if (needed > request.hashes.length) {
    const isFirst = request.hashes.length === 0;
    // For all that its tokens have room for: it grows when they do.
    const grown = new Int32Array((1 + Math.floor(request.tokens.length / pageSize)) * HASH_WORDS);
    grown.set(request.hashes);
    if (isFirst) hashSalt(grown, 0, request.salt);
    request.hashes = grown;
  }
  const { hashes, tokens, media } = request;
  for (let i = request.numHashedPages; i < numPages; i++) {
    identifyPage(hashes, (i + 1) * HASH_WORDS, hashes, i * HASH_WORDS, tokens, i, pageSize, media);
  }
  request.numHashedPages = numPages;
}

/** A child's first numPages pages are its parent's. */
export function adoptHashes(child: Request, parent: Request, numPages: number): void {
  if (numPages <= child.numHashedPages) return;
  child.hashes = parent.hashes.slice(0, (numPages + 1) * HASH_WORDS);
  child.numHashedPages = numPages;
}

/** Page `index` is the same for both, and so is everything before it. Both have all its tokens. */
export function haveSamePage(a: Request, b: Request, index: number, pageSize: number): boolean {
  hashPages(a, index + 1, pageSize);
  hashPages(b, index + 1, pageSize);
  return sameWords(a.hashes, (index + 1) * HASH_WORDS, b.hashes, (index + 1) * HASH_WORDS);
}
