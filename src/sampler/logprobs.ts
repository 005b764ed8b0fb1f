// Log-probabilities of a row of logits, as the model gave it: before bias, penalties and temperature.

import type { PositionLogprobs, TokenLogprob } from "../core/sampling.js";

/** The chosen token's natural-log probability and the `numTop` most probable ones, best first, ties to the lower id. */
export function logprobsOf(logits: Float32Array, chosen: number, numTop: number): PositionLogprobs {
  const logTotal = logSumExp(logits);
  const top: TokenLogprob[] = [];
  for (const id of largest(logits, numTop)) top.push({ id, logprob: logits[id]! - logTotal });
  return { id: chosen, logprob: logits[chosen]! - logTotal, top };
}

function logSumExp(logits: Float32Array): number {
  let max = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < logits.length; i++) if (logits[i]! > max) max = logits[i]!;
  let sum = 0;
  for (let i = 0; i < logits.length; i++) sum += Math.exp(logits[i]! - max);
  return max + Math.log(sum);
}

/** Ids of the k largest logits by insertion into a short sorted list: k is at most a few dozen. */
function largest(logits: Float32Array, k: number): number[] {
  const ids: number[] = [];
  for (let id = 0; id < logits.length; id++) {
    if (ids.length === k && !(k > 0 && logits[id]! > logits[ids[k - 1]!]!)) continue;
    if (k === 0) break;
    let at = ids.length;
    while (at > 0 && logits[id]! > logits[ids[at - 1]!]!) at--;
    ids.splice(at, 0, id);
    if (ids.length > k) ids.pop();
  }
  return ids;
}
