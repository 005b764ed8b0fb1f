// How long steps take here, and how many tokens fit into a given time. Measured as the steps land, so it follows the model, the device
// and how busy the machine is.

import type { Step } from "./step.js";

/** An estimate moves towards what it sees by at most this factor: one slow step says little. */
const MAX_CHANGE = 1.25;
/** Where a step of decodes alone takes longer than the target, prompts may stretch it to so many times that. */
const MAX_STRETCH = 3;

export class StepPace {
  readonly #targetMs: number;
  #msPerToken = 0; // of steps with chunks; 0: not known yet
  #decodeMs = 0; // of steps without

  /** 0: no target. */
  constructor(targetMs: number) {
    this.#targetMs = targetMs;
  }

  observe(step: Step, ms: number): void {
    if (!(ms > 0)) return;
    if (step.numTokens === step.numRows) this.#decodeMs = follow(this.#decodeMs, ms);
    else this.#msPerToken = follow(this.#msPerToken, ms / step.numTokens);
  }

  /** Tokens of a step that takes as long as it should. */
  get targetTokens(): number {
    if (this.#targetMs === 0 || this.#msPerToken === 0) return Number.POSITIVE_INFINITY;
    return Math.max(this.#targetMs, MAX_STRETCH * this.#decodeMs) / this.#msPerToken;
  }
}

function follow(estimate: number, seen: number): number {
  if (estimate === 0) return seen;
  return Math.min(estimate * MAX_CHANGE, Math.max(estimate / MAX_CHANGE, seen));
}
