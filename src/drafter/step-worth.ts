// Whether a further guess pays. A step takes a time of its own and a time for each token; `stepTokens` tokens take as long as the step itself.
// So a step of n tokens takes n + stepTokens, and gives as many tokens as are expected of it: each row's own, and of a guess its probability.
// A guess is worth its time while it gives more per time than the step does without it. Few rows on a device that waits for its weights: nearly
// any guess. A full batch: only what is all but certain. A guess that had to be computed by a model of its own takes that time, too.

/** Bounds of what was measured: a machine is never so quick, or so slow, that all or nothing pays. */
const LEAST_STEP_TOKENS = 2;
const MOST_STEP_TOKENS = 256;
/** Where nothing is measured. */
const USUAL_STEP_TOKENS = 32;

export class StepWorth {
  #numTokens = 0;
  #expected = 0;
  #stepTokens = 0;
  #tokenMs = 0;

  /** A step of so many tokens, none of them a guess. `stepTokens` Infinity, `tokenMs` 0: not known. */
  begin(numTokens: number, stepTokens: number, tokenMs = 0): void {
    this.#numTokens = numTokens;
    this.#expected = numTokens;
    this.#tokenMs = tokenMs;
    const known = stepTokens === Number.POSITIVE_INFINITY ? USUAL_STEP_TOKENS : stepTokens;
    this.#stepTokens = Math.max(LEAST_STEP_TOKENS, Math.min(MOST_STEP_TOKENS, known));
  }

  /** A time in tokens of a step; 0 where that is not known. */
  tokensIn(ms: number): number {
    return this.#tokenMs === 0 ? 0 : ms / this.#tokenMs;
  }

  /** A guess that comes true with this probability, and takes as long as `cost` tokens of the step, is worth its time. */
  pays(probability: number, cost = 1): boolean {
    return probability * (this.#numTokens + this.#stepTokens) > cost * this.#expected;
  }

  add(probability: number, cost = 1): void {
    this.#numTokens += cost;
    this.#expected += probability;
  }
}
