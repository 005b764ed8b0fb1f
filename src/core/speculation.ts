// What a request may say of speculation. It changes how fast an answer comes, never which.

/**
 * Where guesses come from: ngram, the request's own tokens; suffix, also earlier answers of its client; mtp, a head that the
 * model's checkpoint carries; eagle3, a head that was trained for it; draft, a smaller model; auto, what the engine does.
 */
export type SpeculationMethod = "auto" | "off" | "ngram" | "suffix" | "mtp" | "eagle3" | "draft";

export const SPECULATION_METHODS: readonly SpeculationMethod[] = [
  "auto",
  "off",
  "ngram",
  "suffix",
  "mtp",
  "eagle3",
  "draft",
];

/** The methods that have weights, loaded with the engine. */
export type PredictorMethod = "mtp" | "eagle3" | "draft";

export function isPredictor(method: SpeculationMethod): method is PredictorMethod {
  return method === "mtp" || method === "eagle3" || method === "draft";
}

/** Of one request; what is left out is the engine's. */
export interface Speculation {
  readonly method?: SpeculationMethod;
  /** Guesses that a step may try for it, at most; 0: none. */
  readonly tokens?: number;
  /** Token ids of what its answer will be like in large part: guesses come from them too. */
  readonly prediction?: readonly number[];
}
