// What a checkpoint says about making vectors or scores of texts, beside the model itself: pooling, dense layers after it,
// normalisation, prompts, the longest text it was trained on, the tokens whose logits are a verdict. Read from the files of a
// sentence-transformers folder (hf/sentence-transformers.ts) or from GGUF metadata.

import type { Pooling } from "../core/pooling.js";

/** y = act(weight x + bias): `${name}.weight`, in a file of its own, or (null) among the model's tensors. */
export interface DenseModule {
  readonly file: string | null;
  readonly name: string;
  readonly inputs: number;
  readonly outputs: number;
  readonly hasBias: boolean;
  readonly activation: DenseActivation;
}

export type DenseActivation = "identity" | "tanh" | "relu" | "gelu" | "sigmoid" | "silu";

/** The score of a pair is a logit after the prompt, less another one. */
export interface VerdictTokens {
  readonly yes: number;
  /** null: the logit as it is. */
  readonly no: number | null;
}

export interface TextRecipe {
  /** null: nothing is said. */
  readonly pooling: Pooling | null;
  readonly dense: readonly DenseModule[];
  /** What is put before a text, by its name. */
  readonly prompts: Readonly<Record<string, string>>;
  readonly defaultPrompt: string | null;
  /** Tokens of the longest text; null: what the model takes. */
  readonly maxLength: number | null;
  readonly verdict: VerdictTokens | null;
  /** Pairs are put to the model as a question, not as two texts. */
  readonly isAsked: boolean;
  /** The question, with {query} and {document} in it; null: that of the chat template, or the usual one. */
  readonly question: string | null;
  /** What the scores of labels go through; null: what is usual. */
  readonly scoreActivation: "sigmoid" | "softmax" | "identity" | null;
}

export const NO_RECIPE: TextRecipe = {
  pooling: null,
  dense: [],
  prompts: {},
  defaultPrompt: null,
  maxLength: null,
  verdict: null,
  isAsked: false,
  question: null,
  scoreActivation: null,
};
