// The last answers of one client, for guesses about its next ones. A ring of tokens: what is new takes the place of what is oldest.

import { TokenIndex } from "./token-index.js";

/** Between answers: no token, so nothing agrees with it. */
const SEPARATOR = -1;

export class AnswerHistory {
  readonly tokens: Int32Array; // [capacity] a ring
  readonly index: TokenIndex;

  /** `capacity`: a power of two. */
  constructor(gram: number, capacity: number) {
    this.tokens = new Int32Array(capacity).fill(SEPARATOR);
    this.index = new TokenIndex(gram, capacity);
  }

  /** Takes in tokens[first .. end), of which no more are kept than there is room for. */
  add(tokens: Int32Array, first: number, end: number): void {
    const from = Math.max(first, end - this.tokens.length + 1);
    for (let i = from; i < end; i++) this.#push(tokens[i]!);
    this.#push(SEPARATOR);
  }

  /** The token at a position of the ring; -1: the answer has ended there, or it is not there yet. */
  at(position: number): number {
    return position < this.index.numTokens ? this.tokens[position & (this.tokens.length - 1)]! : SEPARATOR;
  }

  #push(token: number): void {
    const at = this.index.numTokens;
    this.tokens[at & (this.tokens.length - 1)] = token;
    this.index.extend(this.tokens, at + 1);
  }
}
