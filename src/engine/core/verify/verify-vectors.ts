// Verification of models that give vectors or scores: their numbers for a text, and the same again beside another text.

import { isOfOneToken, PooledState, type Pooling } from "../../../core/pooling.js";
import type { Model } from "../../../models/model.js";
import type { ModelRunner, RunRange } from "./model-runner.js";

/** What golden.json says of a text: pooled hidden states [hidden], or one number for each label. */
export interface GoldenVectors {
  readonly mean?: readonly number[];
  readonly first?: readonly number[];
  readonly last?: readonly number[];
  readonly scores?: readonly number[];
}

/** Tokens of the text that stands beside the one in question. */
export const OTHER_TEXT = 21;

export async function compareVectors(
  golden: GoldenVectors & { readonly prompt: readonly number[] },
  runner: Pick<ModelRunner, "runHidden">,
  model: Model,
): Promise<{ vectorDifference: number; neighbourDifference: number }> {
  const { prompt } = golden;
  const { hiddenSize, vocabSize } = model.spec;
  const whole = (sequence: number, tokens: readonly number[]): RunRange => {
    return { sequence, tokens, start: 0, end: tokens.length, logitsFrom: Number.POSITIVE_INFINITY };
  };
  const alone = await runner.runHidden([whole(0, prompt)]);
  const other = Array.from({ length: OTHER_TEXT }, (_, i) => (prompt[0]! + 7 * i) % vocabSize);
  const both = await runner.runHidden([whole(1, other), whole(0, prompt)]);
  const beside = both.subarray(OTHER_TEXT * hiddenSize);
  let vectorDifference = 0;
  const compare = (found: Float32Array, expected: readonly number[]): void => {
    vectorDifference = Math.max(vectorDifference, largestDifference(found, expected));
  };
  for (const pooling of ["mean", "first", "last"] as const) {
    if (golden[pooling] !== undefined) compare(pooled(alone, hiddenSize, pooling), golden[pooling]);
  }
  if (golden.scores !== undefined) {
    const { scorePooling = "last" } = model.spec;
    compare(model.scorer!(pooled(alone, hiddenSize, scorePooling)), golden.scores);
  }
  return { vectorDifference, neighbourDifference: largestDifference(beside, alone) };
}

/** `hidden` [T, hidden] */
function pooled(hidden: Float32Array, hiddenSize: number, pooling: Pooling): Float32Array {
  const state = new PooledState(pooling, hiddenSize);
  const numTokens = hidden.length / hiddenSize;
  const first = pooling === "last" ? numTokens - 1 : 0;
  const end = isOfOneToken(pooling) ? first + 1 : numTokens;
  for (let t = first; t < end; t++) state.add(hidden.subarray(t * hiddenSize), t); // it takes as many as it has
  return state.vector();
}

/** NaN where the lengths differ: nothing is close to that. */
export function largestDifference(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let largest = a.length === b.length ? 0 : Number.NaN;
  for (let i = 0; i < b.length; i++) largest = Math.max(largest, Math.abs(a[i]! - b[i]!));
  return largest;
}
