// How long a token takes here, measured as steps land: it follows the model, the device and how busy the machine is.

/** The estimate moves towards what it sees by at most this factor: one slow step says little. */
const MAX_CHANGE = 1.25;
/** Shorter steps tell more of what every step takes than of what tokens take. */
const MIN_TOKENS = 32;

export class StepPace {
  readonly #targetMs: number;
  #msPerToken = 0; // 0: not known

  /** 0: no target. */
  constructor(targetMs: number) {
    this.#targetMs = targetMs;
  }

  observe(numTokens: number, ms: number): void {
    if (!(ms > 0) || numTokens < MIN_TOKENS) return;
    const seen = ms / numTokens;
    const known = this.#msPerToken;
    this.#msPerToken = known === 0 ? seen : Math.min(known * MAX_CHANGE, Math.max(known / MAX_CHANGE, seen));
  }

  /** Tokens of a step that takes as long as it should. */
  get targetTokens(): number {
    if (this.#targetMs === 0 || this.#msPerToken === 0) return Number.POSITIVE_INFINITY;
    return Math.floor(this.#targetMs / this.#msPerToken);
  }
}
