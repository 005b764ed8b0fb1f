// What every peer is given: prompts of token ids, drawn from a seed, the same for all.

import { makeTrace, promptNumbers } from "../../dist/src/cli/bench/trace.js";

export const PREFILL_LEN = 512;
/** Tokens behind each decoding sequence; one more is its next input. */
export const CONTEXT_LEN = 128;

/** Numbered prompts that never repeat within a run, so that no cache knows them. */
export class Prompts {
  #seed;
  #vocabSize;
  #count = 0;

  constructor(seed, vocabSize) {
    this.#seed = seed;
    this.#vocabSize = vocabSize;
  }

  next(len) {
    return promptNumbers(this.#seed, this.#count++, len, 0, this.#vocabSize);
  }
}

/** A ragged serving mix: `count` requests of 16-512 tokens after a common system prompt, answers of 16-128. */
export function servingMix({ seed, count, systemLen, vocabSize }) {
  const trace = makeTrace({
    seed,
    numRequests: count,
    inputLen: { min: 16, max: 512 },
    outputLen: { min: 16, max: 128 },
    rate: 0,
    arrival: "fixed",
  });
  return trace.map(({ promptLen, outputLen }, i) => ({
    prompt: promptNumbers(seed, i, systemLen + promptLen, systemLen, vocabSize),
    outputLen,
  }));
}
