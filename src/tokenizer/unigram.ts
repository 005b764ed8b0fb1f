// Unigram tokenisation: of all ways to cut a text into tokens, the one whose scores add up to the most. What no token covers is an
// unknown token, at a price; neighbours of that kind are one.

/** How much worse than the worst token an unknown character is. */
const UNKNOWN_PENALTY = 10;

export interface UnigramVocab {
  readonly ids: ReadonlyMap<string, number>;
  readonly scores: readonly number[]; // [V]
  readonly unkId: number;
  /** The least of all scores that count. */
  readonly worstScore: number;
}

export class Unigram {
  readonly #vocab: UnigramVocab;
  readonly #maxLength: number;
  readonly #unknownScore: number;

  constructor(vocab: UnigramVocab) {
    this.#vocab = vocab;
    let longest = 1;
    for (const token of vocab.ids.keys()) longest = Math.max(longest, token.length);
    this.#maxLength = longest;
    this.#unknownScore = vocab.worstScore - UNKNOWN_PENALTY;
  }

  encode(text: string, out: number[]): void {
    const { ids, scores, unkId } = this.#vocab;
    const n = text.length;
    const best = new Float64Array(n + 1).fill(Number.NEGATIVE_INFINITY);
    const tokenAt = new Int32Array(n + 1); // the token that ends here
    const startOf = new Int32Array(n + 1);
    const offer = (end: number, score: number, token: number, start: number): void => {
      if (score <= best[end]!) return;
      best[end] = score;
      tokenAt[end] = token;
      startOf[end] = start;
    };
    best[0] = 0;
    for (let at = 0; at < n; ) {
      const char = text.codePointAt(at)! > 0xffff ? 2 : 1;
      let isCovered = false;
      for (let length = 1; length <= this.#maxLength && at + length <= n; length++) {
        const id = ids.get(text.slice(at, at + length));
        if (id === undefined) continue;
        if (length === char) isCovered = true;
        offer(at + length, best[at]! + scores[id]!, id, at);
      }
      if (!isCovered) offer(at + char, best[at]! + this.#unknownScore, unkId, at);
      at += char;
    }
    const found: number[] = [];
    for (let end = n; end > 0; end = startOf[end]!) {
      if (tokenAt[end] !== unkId || found.at(-1) !== unkId) found.push(tokenAt[end]!);
    }
    for (let i = found.length - 1; i >= 0; i--) out.push(found[i]!);
  }
}
