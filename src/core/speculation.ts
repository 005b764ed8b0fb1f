// What a request may say of speculation. It changes how fast an answer comes, never which.

/**
 * Where guesses come from: ngram, the request's own tokens; suffix, also earlier answers of its client; draft, a smaller model that
 * was loaded beside it; auto, what the engine does.
 */
export type SpeculationMethod = "auto" | "off" | "ngram" | "suffix" | "draft";

export const SPECULATION_METHODS: readonly SpeculationMethod[] = ["auto", "off", "ngram", "suffix", "draft"];

/** The methods that have weights, loaded with the engine. */
export type PredictorMethod = "draft";

export function isPredictor(method: SpeculationMethod): method is PredictorMethod {
  return method === "draft";
}

/** Of one request; what is left out is the engine's. */
export interface Speculation {
  readonly method?: SpeculationMethod;
  /** Guesses that a step may try for it, at most; 0: none. */
  readonly tokens?: number;
  /** Token ids of what its answer will be like in large part: guesses come from them too. */
  readonly prediction?: readonly number[];
}
