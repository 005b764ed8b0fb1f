// What a row of a flight gives its request once it has landed. One type for all kinds of request; a chunk in the middle of a prompt
// gives nothing (null) or scores.

import type { Sampled } from "./sample-row.js";
import type { PositionLogprobs } from "./sampling.js";

/** Tokens: one, or several where the draws agreed with drafts. Reused from row to row: valid until the next outcome is read. */
export interface Run {
  readonly kind: "run";
  /** The draws: entries [first, first + count), with log-probabilities when asked for. */
  sampled: Sampled;
  first: number;
  count: number;
}

/** The prompt as one vector: an embedding. */
export interface Vector {
  readonly kind: "vector";
  readonly values: Float32Array; // [hidden]
}

/** How probable the prompt's own tokens are: those after the positions from `first` on. */
export interface Scores {
  readonly kind: "scores";
  readonly first: number;
  readonly entries: PositionLogprobs[];
}

/** The prompt is computed, and no answer was asked for. */
export interface PromptEnd {
  readonly kind: "promptEnd";
}

/** What went wrong in this row alone: its constraint, its hook. It ends the request and no other. */
export interface Fault {
  readonly kind: "fault";
  readonly error: unknown;
}

export type Outcome = Run | Vector | Scores | PromptEnd | Fault;
