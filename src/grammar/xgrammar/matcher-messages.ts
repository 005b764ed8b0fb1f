// What crosses between the engine's thread and a matcher's. Masks go through memory that both see:
//
//   shared   [0] how many masks were written so far: n + 1 after n tokens; FAILED when the answer cannot go on
//            [1] microseconds that the last mask took
//            [2 ..] the mask, one bit per token
//   control  [0] the id of the message that the thread is at; IDLE between messages
//            [1] how many messages it has begun
//            [2] the thread's id in the system; 0 where that cannot be told

import type { ErrorCode, ErrorDetails } from "../../core/errors.js";
import type { Turn } from "../../threads/turn.js";
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
  | { readonly type: "accept"; readonly id: number; readonly token: number }
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
  readonly turn: Turn;
}

export const HEADER = 2; // words of `shared` before the mask
export const FAILED = -1;
export const IDLE = -1;
