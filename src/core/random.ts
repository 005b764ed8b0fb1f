// A counter-based generator (Philox 4x32, 10 rounds): the n-th number is computed from its key and counter, with no state.
// A draw depends on (seed, sample, position) alone, so it is the same whatever else is in the batch.

const M0 = 0xd2511f53;
const M1 = 0xcd9e8d57;
const W0 = 0x9e3779b9;
const W1 = 0xbb67ae85;

/** Fills out[0..3] with the block of `counter` under `key`. */
export function philox4x32(
  out: Uint32Array,
  c0: number,
  c1: number,
  c2: number,
  c3: number,
  k0: number,
  k1: number,
): void {
  for (let round = 0; round < 10; round++) {
    const hi0 = mulHigh(M0, c0);
    const lo0 = Math.imul(M0, c0) >>> 0;
    const hi1 = mulHigh(M1, c2);
    const lo1 = Math.imul(M1, c2) >>> 0;
    c0 = (hi1 ^ c1 ^ k0) >>> 0;
    c1 = lo1;
    c2 = (hi0 ^ c3 ^ k1) >>> 0;
    c3 = lo0;
    k0 = (k0 + W0) >>> 0;
    k1 = (k1 + W1) >>> 0;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

/** The high half of the 64-bit product of two unsigned 32-bit numbers. */
function mulHigh(a: number, b: number): number {
  const aLow = a & 0xffff;
  const aHigh = a >>> 16;
  const bLow = b & 0xffff;
  const bHigh = b >>> 16;
  const low = aLow * bLow;
  const mid = aHigh * bLow + (low >>> 16); // below 2^32 + 2^16: exact in a double
  const cross = aLow * bHigh + (mid % 0x10000);
  return (aHigh * bHigh + Math.floor(mid / 0x10000) + Math.floor(cross / 0x10000)) >>> 0;
}

const block = new Uint32Array(4);

/** A number in [0, 1) with 53 random bits for the token at `position` of sample `sampleIndex`. */
export function uniformAt(seed: number, sampleIndex: number, position: number): number {
  return uniformOf(seed >>> 0, Math.floor(seed / 0x100000000) >>> 0, sampleIndex, position);
}

/** The same of a seed in two words. Sample -1: the words themselves are what the generator gave. `stream`: other numbers of the same draw. */
export function uniformOf(
  seedLow: number,
  seedHigh: number,
  sampleIndex: number,
  position: number,
  stream = 0,
): number {
  if (sampleIndex < 0) return fraction(seedLow, seedHigh);
  philox4x32(block, position, sampleIndex, stream, 0, seedLow >>> 0, seedHigh >>> 0);
  return fraction(block[0]!, block[1]!);
}

function fraction(a: number, b: number): number {
  return ((a >>> 5) * 0x4000000 + (b >>> 6)) / 0x20000000000000;
}
