// Changes to a row of logits before the choice, in their order: bias, penalties, suppressed stops, grammar mask, caller's hook.

import type { Request } from "../core/request.js";
import type { SamplingParams } from "../core/sampling.js";

export class LogitsEditor {
  readonly #counts: Int32Array; // [V] occurrences of a token among the generated ones; zero between calls
  readonly #seen: Uint8Array; // [V] 1: the token occurs in the prompt or the answer; zero between calls

  constructor(vocabSize: number) {
    this.#counts = new Int32Array(vocabSize);
    this.#seen = new Uint8Array(vocabSize);
  }

  addBias(logits: Float32Array, bias: readonly (readonly [number, number])[]): void {
    for (const [id, value] of bias) logits[id]! += value;
  }

  /**
   * Repetition (multiplicative, over prompt and answer), frequency and presence (additive, over the answer), as OpenAI and
   * Hugging Face define them.
   */
  penalize(logits: Float32Array, request: Request): void {
    const { tokens, numTokens, promptLen } = request;
    const { repetitionPenalty, frequencyPenalty, presencePenalty } = request.sampling;
    const counts = this.#counts;
    const seen = this.#seen;
    for (let i = promptLen; i < numTokens; i++) counts[tokens[i]!]!++;
    for (let i = 0; i < numTokens; i++) {
      const id = tokens[i]!;
      if (seen[id] === 1) continue;
      seen[id] = 1;
      const logit = logits[id]!;
      let edited = logit > 0 ? logit / repetitionPenalty : logit * repetitionPenalty;
      if (counts[id]! > 0) edited -= presencePenalty + frequencyPenalty * counts[id]!;
      logits[id] = edited;
    }
    for (let i = 0; i < numTokens; i++) {
      counts[tokens[i]!] = 0;
      seen[tokens[i]!] = 0;
    }
  }

  forbid(logits: Float32Array, ids: ArrayLike<number>): void {
    for (let i = 0; i < ids.length; i++) if (ids[i]! < logits.length) logits[ids[i]!] = Number.NEGATIVE_INFINITY;
  }

  /** Keeps the tokens whose bit is set; ids past the mask's end are forbidden. */
  applyMask(logits: Float32Array, mask: Int32Array): void {
    for (let id = 0; id < logits.length; id++) {
      if (((mask[id >> 5] ?? 0) & (1 << (id & 31))) === 0) logits[id] = Number.NEGATIVE_INFINITY;
    }
  }
}

export function hasPenalties(sampling: SamplingParams): boolean {
  const { repetitionPenalty, frequencyPenalty, presencePenalty } = sampling;
  return repetitionPenalty !== 1 || frequencyPenalty !== 0 || presencePenalty !== 0;
}
