// DRY ("don't repeat yourself"): a token that would go on with a repetition is made less likely, the more the longer what is repeated.
//
//   tokens   ... a b c X ... a b c |     X, which followed the same three tokens before, loses multiplier * base^(3 - allowedLength)
//
// What is repeated holds no breaker, so that the form of a text (lines, lists, names before a colon) may repeat itself. The rule is that of
// llama.cpp and text-generation-webui, with one difference: a breaker is a token whose text holds one of the breaking texts.

export interface DryRule {
  readonly multiplier: number;
  readonly base: number;
  /** Repetitions shorter than this are free. */
  readonly allowedLength: number;
  /** Of the last so many tokens; -1: of all. */
  readonly lastTokens: number;
  isBreaker(token: number): boolean;
}

/** The most that a token may lose: more would be infinite in 32 bits. */
const MOST = 1e30;

export class Dry {
  readonly #rule: DryRule;
  readonly #breakers = new Map<number, boolean>();
  #lengths = new Int32Array(0);

  constructor(rule: DryRule) {
    this.#rule = rule;
  }

  /** Lowers the logits [V] of what would go on with a repetition in `tokens`, which the next token follows. */
  edit(logits: Float32Array, tokens: Int32Array): void {
    const { multiplier, base, allowedLength, lastTokens } = this.#rule;
    const seen = lastTokens < 0 ? tokens : tokens.subarray(Math.max(0, tokens.length - lastTokens));
    const most = this.#unbroken(seen);
    if (most < Math.max(1, allowedLength)) return;
    const longest = new Map<number, number>(); // by the token that followed
    const lengths = this.#lengthsOf(seen);
    for (let back = 1; back < seen.length; back++) {
      const length = Math.min(lengths[back]!, most);
      if (length < Math.max(1, allowedLength)) continue;
      const next = seen[seen.length - back]!;
      if (length > (longest.get(next) ?? 0) && !this.#isBreaker(next)) longest.set(next, length);
    }
    for (const [token, length] of longest)
      logits[token]! -= Math.min(MOST, multiplier * base ** (length - allowedLength));
  }

  /** Tokens at the end with no breaker among them. */
  #unbroken(tokens: Int32Array): number {
    let count = 0;
    while (count < tokens.length && !this.#isBreaker(tokens[tokens.length - 1 - count]!)) count++;
    return count;
  }

  #isBreaker(token: number): boolean {
    let isBreaker = this.#breakers.get(token);
    if (isBreaker === undefined) {
      isBreaker = this.#rule.isBreaker(token);
      this.#breakers.set(token, isBreaker);
    }
    return isBreaker;
  }

  /** Entry `back`: how many tokens before the last `back` of them are the same as those at the end. The Z function, from the end. */
  #lengthsOf(tokens: Int32Array): Int32Array {
    const n = tokens.length;
    if (this.#lengths.length < n) this.#lengths = new Int32Array(Math.max(n, 2 * this.#lengths.length));
    const lengths = this.#lengths;
    let from = 0;
    let to = 0;
    for (let i = 1; i < n; i++) {
      let length = i < to ? Math.min(to - i, lengths[i - from]!) : 0;
      while (i + length < n && tokens[n - 1 - length] === tokens[n - 1 - i - length]) length++;
      if (i + length > to) {
        from = i;
        to = i + length;
      }
      lengths[i] = length;
    }
    return lengths;
  }
}

/** Whether `tokens` end with one pattern of `min` to `max` tokens, `count` times in a row. */
export function endsInLoop(tokens: Int32Array, count: number, min: number, max: number): boolean {
  const end = tokens.length;
  for (let size = Math.max(1, min); size <= max && size * count <= end; size++) {
    const first = end - size * count;
    let at = end - size - 1;
    while (at >= first && tokens[at] === tokens[at + size]) at--;
    if (at < first) return true;
  }
  return false;
}
