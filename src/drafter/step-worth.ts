// Whether a further guess pays. A step takes a time of its own and a time for each token; `stepTokens` tokens take as long as the step itself.
// So a step of n tokens takes n + stepTokens, and gives as many tokens as are expected of it: each row's own, and of a guess its probability.
// A guess is worth its time while it gives more per time than the step does without it. Few rows on a device that waits for its weights: nearly
// any guess. A full batch: only what is all but certain.

/** Bounds of what was measured: a machine is never so quick, or so slow, that all or nothing pays. */
const LEAST_STEP_TOKENS = 2;
const MOST_STEP_TOKENS = 256;
/** Where nothing is measured. */
const USUAL_STEP_TOKENS = 32;

export class StepWorth {
  #numTokens = 0;
  #expected = 0;
  #stepTokens = 0;

  /** A step of so many tokens, none of them a guess. `stepTokens` Infinity: not known. */
  begin(numTokens: number, stepTokens: number): void {
    this.#numTokens = numTokens;
    this.#expected = numTokens;
    const known = stepTokens === Number.POSITIVE_INFINITY ? USUAL_STEP_TOKENS : stepTokens;
    this.#stepTokens = Math.max(LEAST_STEP_TOKENS, Math.min(MOST_STEP_TOKENS, known));
  }

  /** A guess that comes true with this probability is worth its time. */
  pays(probability: number): boolean {
    return probability * (this.#numTokens + this.#stepTokens) > this.#expected;
  }

  add(probability: number): void {
    this.#numTokens++;
    this.#expected += probability;
  }
}
