// What a caller may ask of sampling, and its defaults. Checked once at the border (engine/client/validate.ts); trusted after it.

export interface SamplingParams {
  /** 0 is greedy. */
  readonly temperature: number;
  /** 0 is off. */
  readonly topK: number;
  readonly topP: number;
  readonly minP: number;
  readonly repetitionPenalty: number;
  readonly presencePenalty: number;
  readonly frequencyPenalty: number;
  /** Added to the logits of these tokens: pairs of id and bias. */
  readonly logitBias: readonly (readonly [number, number])[];
  readonly seed: number;
  readonly n: number;
  readonly maxTokens: number;
  readonly minTokens: number;
  readonly stop: readonly string[];
  readonly stopTokenIds: readonly number[];
  readonly ignoreEos: boolean;
  /** Number of alternatives beside the chosen token's logprob; null: no logprobs. */
  readonly logprobs: number | null;
  /** The same for every prompt token after the first. */
  readonly promptLogprobs: number | null;
}

export const SAMPLING_DEFAULTS: Omit<SamplingParams, "seed" | "maxTokens"> = {
  temperature: 1,
  topK: 0,
  topP: 1,
  minP: 0,
  repetitionPenalty: 1,
  presencePenalty: 0,
  frequencyPenalty: 0,
  logitBias: [],
  n: 1,
  minTokens: 0,
  stop: [],
  stopTokenIds: [],
  ignoreEos: false,
  logprobs: null,
  promptLogprobs: null,
};

/** A token with its log-probability (natural log). */
export interface TokenLogprob {
  readonly id: number;
  readonly logprob: number;
}

export interface PositionLogprobs extends TokenLogprob {
  /** The most probable alternatives, best first. */
  readonly top: readonly TokenLogprob[];
}
