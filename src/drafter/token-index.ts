// Where in a text its last tokens occurred before: the match finder of LZ77. Positions whose last few tokens hash alike are chained, newest
// first, so looking something up takes a bounded number of comparisons, and adding a token takes one.
//
//   heads   [hash of a gram]  the newest position where such a gram ends
//   links   [position]        the position before it in the same chain
//
// The text is a list that grows, or a ring that keeps its last tokens.

/** Positions that one search looks at. */
const MAX_CANDIDATES = 32;
const NONE = -1;

export class TokenIndex {
  readonly #gram: number;
  readonly #isRing: boolean;
  #heads: Int32Array; // [a power of two]
  #links: Int32Array; // [capacity]
  #mask: number; // a position -> its place in the text; all ones in a list
  /** Tokens that were added, those included that a ring has lost. */
  numTokens = 0;

  // What find() found.
  /** Tokens that agree; 0: nothing was found. */
  matchLen = 0;
  /** The position after them. */
  matchEnd = 0;

  /** `gram`: the shortest match. `ring`: tokens that are kept, a power of two; left out: all. */
  constructor(gram: number, ring = 0) {
    this.#gram = gram;
    this.#isRing = ring > 0;
    this.#mask = ring > 0 ? ring - 1 : -1;
    const capacity = ring > 0 ? ring : 256;
    this.#heads = new Int32Array(capacity).fill(NONE);
    this.#links = new Int32Array(capacity);
  }

  /** Takes in the tokens of the text up to `end`. */
  extend(text: Int32Array, end: number): void {
    if (!this.#isRing && end > this.#links.length) this.#grow(text, end);
    for (let at = this.numTokens; at < end; at++) this.#add(text, at);
    this.numTokens = end;
  }

  /**
   * The longest match of the tokens before `end` of `tokens`, up to `longest` of them; of equals, the newest. A match ends before the last
   * token of the text, so that something comes after it.
   */
  find(text: Int32Array, tokens: Int32Array, end: number, longest: number): void {
    this.matchLen = 0;
    if (end < this.#gram) return;
    const oldest = this.#isRing ? this.numTokens - this.#links.length : 0;
    let at = this.#heads[this.#hash(tokens, end - 1, -1)]!;
    for (let i = 0; i < MAX_CANDIDATES && at >= oldest && at !== NONE; i++) {
      const length = at + 1 < this.numTokens ? this.#agree(text, at, oldest, tokens, end, longest) : 0;
      if (length >= this.#gram && length > this.matchLen) {
        this.matchLen = length;
        this.matchEnd = at + 1;
        if (length >= longest) return;
      }
      at = this.#links[at & this.#mask]!;
    }
  }

  /** How many tokens up to `at` are those before `end` of `tokens`. */
  #agree(text: Int32Array, at: number, oldest: number, tokens: Int32Array, end: number, longest: number): number {
    const most = Math.min(longest, end, at + 1 - oldest);
    let length = 0;
    while (length < most && text[(at - length) & this.#mask] === tokens[end - 1 - length]) length++;
    return length;
  }

  #add(text: Int32Array, at: number): void {
    if (at < this.#gram - 1) return;
    const hash = this.#hash(text, at, this.#mask);
    this.#links[at & this.#mask] = this.#heads[hash]!;
    this.#heads[hash] = at;
  }

  /** Of the gram that ends at `at`. */
  #hash(text: Int32Array, at: number, mask: number): number {
    let hash = 0;
    for (let i = at - this.#gram + 1; i <= at; i++)
      hash = Math.imul(hash ^ text[i & mask]!, 0x9e3779b1) ^ (hash >>> 15);
    return (hash ^ (hash >>> 16)) & (this.#heads.length - 1);
  }

  #grow(text: Int32Array, end: number): void {
    let capacity = this.#links.length;
    while (capacity < end) capacity *= 2;
    this.#heads = new Int32Array(capacity).fill(NONE);
    this.#links = new Int32Array(capacity);
    for (let at = 0; at < this.numTokens; at++) this.#add(text, at);
  }
}
