// Which prefixes came and went, for those that follow them from elsewhere: a router that sends requests where their prefix is. An
// entry is named by the first 64 bits of its identity; who follows uses them as hints, never as proof.

/** 32-bit words of a change: 1 added or 0 evicted, then the first two words of the identity. */
export const CHANGE_WORDS = 3;

export interface PrefixChange {
  /** true: all that is held, and nothing else is. */
  readonly isSnapshot: boolean;
  readonly changes: Int32Array; // [n, CHANGE_WORDS] in the order in which they happened
}

export class PrefixJournal {
  #changes = new Int32Array(256 * CHANGE_WORDS);
  #count = 0;

  get isEmpty(): boolean {
    return this.#count === 0;
  }

  note(isAdded: boolean, hashes: Int32Array, at: number): void {
    const base = this.#count * CHANGE_WORDS;
    if (base === this.#changes.length) {
      const grown = new Int32Array(2 * base);
      grown.set(this.#changes);
      this.#changes = grown;
    }
    this.#changes[base] = isAdded ? 1 : 0;
    this.#changes[base + 1] = hashes[at]!;
    this.#changes[base + 2] = hashes[at + 1]!;
    this.#count++;
  }

  /** What happened since the last call. */
  take(): Int32Array {
    const taken = this.#changes.slice(0, this.#count * CHANGE_WORDS);
    this.#count = 0;
    return taken;
  }
}

/** The name under which an entry is known to those who follow: a number that a Set can hold, 53 of the 64 bits. */
export function prefixKey(first: number, second: number): number {
  return (first >>> 0) + (second & 0x1fffff) * 2 ** 32;
}
