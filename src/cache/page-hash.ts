// The identity of a page: 128 bits that name its tokens and everything before them, the same on every machine.
//
//   id(page i) = BLAKE2s-128(tokens of page i as little-endian 32-bit words, salt and personalization = id(page i - 1))
//   id(page 0) is chained to the root = BLAKE2s-128(the request's salt as UTF-8)
//
// BLAKE2s (RFC 7693) takes 16 bytes beside the message in its parameter block, so the parent costs nothing: a page of 16 tokens
// is one compression, a third of a microsecond. A cryptographic hash, because prompts come from strangers: nobody can make two
// prefixes of one identity and have the pages of one taken for the other's.

import type { MediumSpan } from "../core/media.js";

/** 32-bit words of an identity. */
export const HASH_WORDS = 4;
const DIGEST_BYTES = 16;
const BLOCK_WORDS = 16;

const IV = Int32Array.of(
  0x6a09e667,
  0xbb67ae85,
  0x3c6ef372,
  0xa54ff53a,
  0x510e527f,
  0x9b05688c,
  0x1f83d9ab,
  0x5be0cd19,
);

/** Which word of the block each of a round's sixteen places takes, for the ten rounds. */
const SIGMA = Uint8Array.from(
  [
    "0123456789abcdef",
    "ea489fd61c02b753",
    "b8c052fdae367194",
    "7931dcbe265a40f8",
    "905724afe1bc683d",
    "2c6a0b834d75fe19",
    "c51fed4a0763928b",
    "db7ec13950f4862a",
    "6fe9b308c2d714a5",
    "a2847615fb9e3cd0",
  ].flatMap((round) => [...round].map((word) => Number.parseInt(word, 16))),
);

const NO_PARENT = new Int32Array(HASH_WORDS);
// One hash at a time: the state lives here, not on the heap.
const h = new Int32Array(8);
const m = new Int32Array(BLOCK_WORDS);

/** out[at ..+4) = identity of the page words[offset ..+count) that follows the identity parent[parentAt ..+4). */
export function hashPage(
  out: Int32Array,
  at: number,
  parent: Int32Array,
  parentAt: number,
  words: Int32Array,
  offset: number,
  count: number,
): void {
  begin(DIGEST_BYTES, parent, parentAt);
  absorb(words, offset, count, 4 * count);
  for (let i = 0; i < HASH_WORDS; i++) out[at + i] = h[i]!;
}

/** out[at ..+4) = the root of a salt. Off the hot path. */
export function hashSalt(out: Int32Array, at: number, salt: string): void {
  const bytes = new TextEncoder().encode(salt);
  out.set(blake2s(bytes, DIGEST_BYTES, NO_PARENT), at);
}

/** The digest of bytes as words, for salts and for tests against other implementations. */
export function blake2s(bytes: Uint8Array, digestBytes: number, parent: Int32Array): Int32Array {
  const words = new Int32Array(Math.ceil(bytes.length / 4));
  for (let i = 0; i < bytes.length; i++) words[i >> 2]! |= bytes[i]! << (8 * (i & 3));
  begin(digestBytes, parent, 0);
  absorb(words, 0, words.length, bytes.length);
  return h.slice(0, digestBytes / 4);
}

/** Sequential mode, no key; the parent stands where salt (8 bytes) and personalization (8 bytes) go. */
function begin(digestBytes: number, parent: Int32Array, parentAt: number): void {
  h.set(IV);
  h[0]! ^= digestBytes | (1 << 16) | (1 << 24);
  for (let i = 0; i < HASH_WORDS; i++) h[4 + i]! ^= parent[parentAt + i]!;
}

function absorb(words: Int32Array, offset: number, count: number, byteLength: number): void {
  let done = 0;
  do {
    const here = Math.min(BLOCK_WORDS, count - done);
    for (let i = 0; i < here; i++) m[i] = words[offset + done + i]!;
    m.fill(0, here);
    done += here;
    const isLast = done === count;
    compress(isLast ? byteLength : 4 * done, isLast);
  } while (done < count);
}

/** `length` counts the message's bytes so far. The sixteen words of the state are locals: they stay in registers, which a table of them does not. */
function compress(length: number, isLast: boolean): void {
  let v0 = h[0]!;
  let v1 = h[1]!;
  let v2 = h[2]!;
  let v3 = h[3]!;
  let v4 = h[4]!;
  let v5 = h[5]!;
  let v6 = h[6]!;
  let v7 = h[7]!;
  let v8 = IV[0]!;
  let v9 = IV[1]!;
  let v10 = IV[2]!;
  let v11 = IV[3]!;
  let v12 = IV[4]! ^ length;
  let v13 = IV[5]!;
  let v14 = isLast ? ~IV[6]! : IV[6]!;
  let v15 = IV[7]!;
  for (let s = 0; s < SIGMA.length; s += 16) {
    v0 = (v0 + v4 + m[SIGMA[s + 0]!]!) | 0;
    v12 = rotate(v12 ^ v0, 16);
    v8 = (v8 + v12) | 0;
    v4 = rotate(v4 ^ v8, 12);
    v0 = (v0 + v4 + m[SIGMA[s + 1]!]!) | 0;
    v12 = rotate(v12 ^ v0, 8);
    v8 = (v8 + v12) | 0;
    v4 = rotate(v4 ^ v8, 7);
    v1 = (v1 + v5 + m[SIGMA[s + 2]!]!) | 0;
    v13 = rotate(v13 ^ v1, 16);
    v9 = (v9 + v13) | 0;
    v5 = rotate(v5 ^ v9, 12);
    v1 = (v1 + v5 + m[SIGMA[s + 3]!]!) | 0;
    v13 = rotate(v13 ^ v1, 8);
    v9 = (v9 + v13) | 0;
    v5 = rotate(v5 ^ v9, 7);
    v2 = (v2 + v6 + m[SIGMA[s + 4]!]!) | 0;
    v14 = rotate(v14 ^ v2, 16);
    v10 = (v10 + v14) | 0;
    v6 = rotate(v6 ^ v10, 12);
    v2 = (v2 + v6 + m[SIGMA[s + 5]!]!) | 0;
    v14 = rotate(v14 ^ v2, 8);
    v10 = (v10 + v14) | 0;
    v6 = rotate(v6 ^ v10, 7);
    v3 = (v3 + v7 + m[SIGMA[s + 6]!]!) | 0;
    v15 = rotate(v15 ^ v3, 16);
    v11 = (v11 + v15) | 0;
    v7 = rotate(v7 ^ v11, 12);
    v3 = (v3 + v7 + m[SIGMA[s + 7]!]!) | 0;
    v15 = rotate(v15 ^ v3, 8);
    v11 = (v11 + v15) | 0;
    v7 = rotate(v7 ^ v11, 7);
    v0 = (v0 + v5 + m[SIGMA[s + 8]!]!) | 0;
    v15 = rotate(v15 ^ v0, 16);
    v10 = (v10 + v15) | 0;
    v5 = rotate(v5 ^ v10, 12);
    v0 = (v0 + v5 + m[SIGMA[s + 9]!]!) | 0;
    v15 = rotate(v15 ^ v0, 8);
    v10 = (v10 + v15) | 0;
    v5 = rotate(v5 ^ v10, 7);
    v1 = (v1 + v6 + m[SIGMA[s + 10]!]!) | 0;
    v12 = rotate(v12 ^ v1, 16);
    v11 = (v11 + v12) | 0;
    v6 = rotate(v6 ^ v11, 12);
    v1 = (v1 + v6 + m[SIGMA[s + 11]!]!) | 0;
    v12 = rotate(v12 ^ v1, 8);
    v11 = (v11 + v12) | 0;
    v6 = rotate(v6 ^ v11, 7);
    v2 = (v2 + v7 + m[SIGMA[s + 12]!]!) | 0;
    v13 = rotate(v13 ^ v2, 16);
    v8 = (v8 + v13) | 0;
    v7 = rotate(v7 ^ v8, 12);
    v2 = (v2 + v7 + m[SIGMA[s + 13]!]!) | 0;
    v13 = rotate(v13 ^ v2, 8);
    v8 = (v8 + v13) | 0;
    v7 = rotate(v7 ^ v8, 7);
    v3 = (v3 + v4 + m[SIGMA[s + 14]!]!) | 0;
    v14 = rotate(v14 ^ v3, 16);
    v9 = (v9 + v14) | 0;
    v4 = rotate(v4 ^ v9, 12);
    v3 = (v3 + v4 + m[SIGMA[s + 15]!]!) | 0;
    v14 = rotate(v14 ^ v3, 8);
    v9 = (v9 + v14) | 0;
    v4 = rotate(v4 ^ v9, 7);
  }
  h[0]! ^= v0 ^ v8;
  h[1]! ^= v1 ^ v9;
  h[2]! ^= v2 ^ v10;
  h[3]! ^= v3 ^ v11;
  h[4]! ^= v4 ^ v12;
  h[5]! ^= v5 ^ v13;
  h[6]! ^= v6 ^ v14;
  h[7]! ^= v7 ^ v15;
}

function rotate(word: number, right: number): number {
  return (word >>> right) | (word << (32 - right));
}

// --- media: the identity of its tokens, followed by what overlaps them. Placeholder tokens look alike, so without it the pages of two
// pictures would be taken for each other's.
//
//   id(page) = BLAKE2s-128(media words, parent = BLAKE2s-128(tokens, parent = id of the page before it))      without media: the inner one
//
// A medium's words: its id, where it begins and ends, counted from the page's first token, and whether its tokens see each other.

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

// --- the root: what the pages of a request depend on beside its tokens. Who may share them (the caller's salt), and the adapter that computed
// them, stand in one string, so that directory, disk, transfers and routers tell adapters apart as they do tenants.

/** No salt of a caller may contain it: none can pass for another salt with an adapter. */
export const SALT_END = "\0";

/** `adapter`: the identity of its numbers; "": none. */
export function pageSalt(salt: string, adapter: string): string {
  return adapter === "" ? salt : `${salt}${SALT_END}${adapter}`;
}
