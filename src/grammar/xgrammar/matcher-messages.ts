// What crosses between the engine's thread and a matcher's. Masks go through memory that both see:
//
//   shared   [0] how many masks were written so far: n + 1 after n tokens; FAILED when the answer cannot go on
//            [1] microseconds that the last mask took
//            [2 ..] the mask, one bit per token
//   ahead    [0] of the guesses asked for last: their ticket, how many masks behind them were written so far, whether that is all
//            [1] the ticket whose masks are still wanted
//            [2 ..] the masks, one after another
//   control  [0] the id of the message that the thread is at; IDLE between messages
//            [1] how many messages it has begun
//            [2] the thread's id in the system; 0 where that cannot be told

import type { ErrorCode, ErrorDetails } from "../../core/errors.js";
import type { ThreadClass } from "../../threads/thread-class.js";
import type { ConstraintSpec } from "../constraint.js";
import type { MatcherCode } from "./module.js";
import type { PackedTexts } from "./token-texts.js";

/** Comes once; messages before it wait for it. */
export interface CodeMessage {
  readonly type: "code";
  readonly code: MatcherCode;
}

export type ToMatcher =
  /** Can this be used? Makes its grammar and compiles it. */
  | { readonly type: "check"; readonly id: number; readonly spec: ConstraintSpec }
  /** Begins an answer, or takes one up again after `tokens`. */
  | {
      readonly type: "open";
      readonly id: number;
      readonly ebnf: string;
      readonly tokens: readonly number[];
      readonly shared: Int32Array;
    }
  | { readonly type: "accept"; readonly id: number; readonly tokens: readonly number[] }
  /** Writes the masks behind each of the tokens as long as these are allowed, and forgets them again. */
  | {
      readonly type: "foresee";
      readonly id: number;
      readonly tokens: readonly number[];
      readonly ahead: Int32Array;
      readonly ticket: number;
    }
  | { readonly type: "close"; readonly id: number };

/** The answer to a check. */
export interface FromMatcher {
  readonly id: number;
  readonly verdict: Verdict;
}

export type Verdict =
  /** `ms`: of the thread's own time. */
  | { readonly ok: true; readonly ebnf: string; readonly ms: number }
  | { readonly ok: false; readonly code: ErrorCode; readonly details: ErrorDetails };

export interface MatcherInit {
  readonly vocabulary: PackedTexts;
  readonly control: Int32Array; // [3]
  readonly turn: ThreadClass;
}

export const HEADER = 2; // words of `shared` and `ahead` before the masks

const MAX_AHEAD = 31;

/** What ahead[0] says. */
export function aheadState(ticket: number, numWritten: number, isLast: boolean): number {
  return (ticket * (MAX_AHEAD + 1) + numWritten) * 2 + (isLast ? 1 : 0);
}

/** Of the guesses with this ticket; none while an earlier one is there. */
export function numWrittenOf(state: number, ticket: number): number {
  return state >> 6 === ticket ? (state >> 1) & MAX_AHEAD : 0;
}

/** No further mask of this ticket will come. */
export function isLastOf(state: number, ticket: number): boolean {
  return state >> 6 === ticket && (state & 1) === 1;
}
export const FAILED = -1;
export const IDLE = -1;
