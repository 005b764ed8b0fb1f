// The identity of a page: 128 bits that name its tokens and everything before them, the same on every machine.
//
//   id(page i) = BLAKE2s-128(tokens of page i as little-endian 32-bit words, salt and personalization = id(page i - 1))
//   id(page 0) is chained to the root = BLAKE2s-128(the request's salt as UTF-8)
//
// BLAKE2s (RFC 7693) takes 16 bytes beside the message in its parameter block, so the parent costs nothing: a page of 16 tokens
// is one compression, about a microsecond. A cryptographic hash, because prompts come from strangers: nobody can make two
// prefixes of one identity and have the pages of one taken for the other's.

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
const v = new Int32Array(16);
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
  out.set(blake2s(bytes, DIGEST_BYTES, NO_PARENT).subarray(0, HASH_WORDS), at);
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

/** `length` counts the message's bytes so far. */
function compress(length: number, isLast: boolean): void {
  for (let i = 0; i < 8; i++) {
    v[i] = h[i]!;
    v[i + 8] = IV[i]!;
  }
  v[12]! ^= length;
  if (isLast) v[14] = ~v[14]!;
  for (let s = 0; s < SIGMA.length; s += 16) {
    mix(0, 4, 8, 12, s);
    mix(1, 5, 9, 13, s + 2);
    mix(2, 6, 10, 14, s + 4);
    mix(3, 7, 11, 15, s + 6);
    mix(0, 5, 10, 15, s + 8);
    mix(1, 6, 11, 12, s + 10);
    mix(2, 7, 8, 13, s + 12);
    mix(3, 4, 9, 14, s + 14);
  }
  for (let i = 0; i < 8; i++) h[i]! ^= v[i]! ^ v[i + 8]!;
}

function mix(a: number, b: number, c: number, d: number, s: number): void {
  let va = v[a]!;
  let vb = v[b]!;
  let vc = v[c]!;
  let vd = v[d]!;
  va = (va + vb + m[SIGMA[s]!]!) | 0;
  vd ^= va;
  vd = (vd >>> 16) | (vd << 16);
  vc = (vc + vd) | 0;
  vb ^= vc;
  vb = (vb >>> 12) | (vb << 20);
  va = (va + vb + m[SIGMA[s + 1]!]!) | 0;
  vd ^= va;
  vd = (vd >>> 8) | (vd << 24);
  vc = (vc + vd) | 0;
  vb ^= vc;
  vb = (vb >>> 7) | (vb << 25);
  v[a] = va;
  v[b] = vb;
  v[c] = vc;
  v[d] = vd;
}
