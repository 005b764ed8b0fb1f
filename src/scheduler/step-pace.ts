// How long steps take here, and how many tokens fit into a given time. Measured as the steps land, so it follows the model, the device
// and how busy the machine is.

import type { Step } from "./step.js";

/** An estimate moves towards what it sees by at most this factor: one slow step says little. */
const MAX_CHANGE = 1.25;
/** Where a step of decodes alone takes longer than the target, prompts may stretch it to so many times that. */
const MAX_STRETCH = 3;
/** Of a step with decodes, prompts take this part at least, whatever a step of decodes alone took last. */
const MIN_PART = 0.1;

export class StepPace {
  readonly #targetMs: number;
  #decodeMs = 0; // of a step without chunks; 0: not known
  #msPerToken = 0; // of prompt: by how much chunks make a step longer; 0: not known

  /** 0: no target. */
  constructor(targetMs: number) {
    this.#targetMs = targetMs;
  }

  observe(step: Step, ms: number): void {
    if (!(ms > 0)) return;
    const numPrompt = step.numTokens - step.numDecodes;
    if (numPrompt === 0) this.#decodeMs = follow(this.#decodeMs, ms);
    else if (step.numDecodes === 0) this.#msPerToken = follow(this.#msPerToken, ms / numPrompt);
    else this.#msPerToken = follow(this.#msPerToken, Math.max(ms - this.#decodeMs, MIN_PART * ms) / numPrompt);
  }

  /** Prompt tokens in a step of the length that it should have. */
  promptTokens(numDecodes: number): number {
    if (this.#targetMs === 0 || this.#msPerToken === 0) return Number.POSITIVE_INFINITY;
    const decodeMs = numDecodes === 0 ? 0 : this.#decodeMs;
    return Math.floor((Math.max(this.#targetMs, MAX_STRETCH * decodeMs) - decodeMs) / this.#msPerToken);
  }
}

function follow(estimate: number, seen: number): number {
  if (estimate === 0) return seen;
  return Math.min(estimate * MAX_CHANGE, Math.max(estimate / MAX_CHANGE, seen));
}
