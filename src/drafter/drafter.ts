// Who guesses the next tokens of an answer. A row with guesses computes them all in one step and draws at every position; the run it gets is
// the longest prefix of its guesses that the draws agree with, and one token more. Draws depend on (seed, sample, position) alone, so a
// drafter decides how many tokens a step gives, never which.

import type { Request } from "../core/request.js";
import type { StepWorth } from "./step-worth.js";

/** The rows of a step; those whose guesses are deferred have numDrafted of them to come. */
export interface DraftedStep {
  readonly numRows: number;
  readonly rows: readonly Request[];
}

export interface Drafter {
  /**
   * Writes up to `most` guesses behind the request's tokens, from tokens[numTokens] on, where there is room for them, and returns how many.
   * Called once for a row of a step whose request knows all of its tokens.
   */
  propose(request: Request, most: number, worth: StepWorth): number;
  /**
   * What it proposes for this request is only how many: finish() writes the guesses of all such rows of the step, in pages that are theirs by
   * then. Left out: it never is.
   */
  isDeferred?(request: Request): boolean;
  finish?(step: DraftedStep): void;
  /** It would propose something for the request as it is; left out: it might. */
  foresees?(request: Request): boolean;
  /** The step has landed that tried `numDrafted` of its guesses; `numAccepted` of them became tokens. */
  observe?(request: Request, numDrafted: number, numAccepted: number): void;
  /** The request is over. */
  end?(request: Request): void;
}

/** Tokens that one row can get from one step: its guesses, and one more. */
export const MAX_RUN = 16;
