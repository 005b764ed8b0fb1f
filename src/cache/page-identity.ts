// The identity of a page of a prompt with media: that of its tokens, followed by what overlaps them. Placeholder tokens look alike, so
// without it the pages of two pictures would be taken for each other's.
//
//   id(page) = BLAKE2s-128(media words, parent = BLAKE2s-128(tokens, parent = id of the page before it))      without media: the inner one
//
// A medium's words: its id, where it begins and ends, counted from the page's first token, and whether its tokens see each other.

import type { MediumSpan } from "../core/media.js";
import { HASH_WORDS, hashPage } from "./page-hash.js";

export const MEDIUM_WORDS = HASH_WORDS + 3;
const NO_WORDS = new Int32Array(0);

/** out[at ..+4) = identity of page `index` of the tokens, which follows the identity parent[parentAt ..+4). */
export function identifyPage(
  out: Int32Array,
  at: number,
  parent: Int32Array,
  parentAt: number,
  tokens: Int32Array,
  index: number,
  pageSize: number,
  media: readonly MediumSpan[],
): void {
  hashPage(out, at, parent, parentAt, tokens, index * pageSize, pageSize);
  if (media.length > 0) addMedia(out, at, mediaWords(media, index, pageSize));
}

/** Adds media to the identity out[at ..+4) of the tokens they overlap. */
export function addMedia(out: Int32Array, at: number, words: Int32Array): void {
  if (words.length > 0) hashPage(out, at, out, at, words, 0, words.length);
}

/** Of the media that overlap page `index`, in their order. */
export function mediaWords(media: readonly MediumSpan[], index: number, pageSize: number): Int32Array {
  const first = index * pageSize;
  let words: number[] | null = null;
  for (const { start, end, id, isWhole } of media) {
    if (start >= first + pageSize || end <= first) continue;
    words ??= [];
    words.push(...id, start - first, end - first, isWhole === true ? 1 : 0);
  }
  return words === null ? NO_WORDS : Int32Array.from(words);
}
