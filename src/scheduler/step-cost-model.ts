// How long a step takes here: so much for itself and so much for each token, both measured as steps land. They follow the model, the
// device and how busy the machine is.

/** What is seen counts as at most so far from what was expected: one slow step says little. */
const MAX_SURPRISE = 0.25;
/** How much of a surprise is believed. */
const LEARNING_RATE = 0.5;
/** A step of so many tokens says as much about the tokens as about the step itself; shorter ones more about the step. */
const EVEN_TOKENS = 32;

export class StepCostModel {
  readonly #targetMs: number;
  #stepMs = 0;
  #tokenMs = 0; // 0: not known

  /** 0: no target. */
  constructor(targetMs: number) {
    this.#targetMs = targetMs;
  }

  observe(numTokens: number, ms: number): void {
    if (!(ms > 0)) return;
    if (this.#tokenMs === 0) {
      if (numTokens >= EVEN_TOKENS) this.#tokenMs = ms / numTokens;
      return;
    }
    const expected = this.#stepMs + this.#tokenMs * numTokens;
    const most = MAX_SURPRISE * expected;
    // Both parts move towards the line of what was seen, by the shortest way (normalised least mean squares).
    const length = numTokens / EVEN_TOKENS;
    const move = (LEARNING_RATE * Math.max(-most, Math.min(most, ms - expected))) / (1 + length * length);
    this.#stepMs = Math.max(0, this.#stepMs + move);
    this.#tokenMs = Math.max(this.#tokenMs / 2, this.#tokenMs + (move * length) / EVEN_TOKENS);
  }

  /**
   * Tokens of a step that takes as long as it should; as many at least as take as long as the step itself: where that is expensive, fewer save
   * little.
   */
  get targetTokens(): number {
    const { stepTokens } = this;
    const most = this.#tokensIn(this.#targetMs - this.#stepMs);
    return most > stepTokens ? most : stepTokens;
  }

  /** Decodes that take half of it. */
  get targetDecodes(): number {
    return this.#tokensIn((this.#targetMs - this.#stepMs) / 2);
  }

  /** What a token takes; 0: not known, or nobody wants to know. */
  get tokenMs(): number {
    return this.#targetMs === 0 ? 0 : this.#tokenMs;
  }

  /** Tokens that take as long as the step itself. */
  get stepTokens(): number {
    return this.#tokensIn(this.#stepMs);
  }

  #tokensIn(ms: number): number {
    if (this.#targetMs === 0 || this.#tokenMs === 0) return Number.POSITIVE_INFINITY;
    return Math.floor(Math.max(0, ms) / this.#tokenMs);
  }
}
