// What crosses between the engine's thread and the matcher's. Masks go through memory that both see:
//
//   shared   [0] how many masks were written so far: n + 1 after n tokens; FAILED when the answer cannot go on
//            [1 ..] the mask, one bit per token

export type ToMatcher =
  /** Is this grammar usable? Also compiles it ahead of its use. */
  | { readonly type: "check"; readonly seq: number; readonly ebnf: string }
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

export interface FromMatcher {
  readonly seq: number;
  /** Why the grammar cannot be used; null when it can. */
  readonly error: string | null;
}

export const FAILED = -1;
