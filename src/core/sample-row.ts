// What a device does with one sampling row: edits of the logits in their order (bias, penalties, forbidden tokens, mask), the choice
// (choose-token.ts), log-probabilities. The oracle of every device, what the reference device runs, and what the host runs for rows
// whose logits a caller's hook edits.
//
// Logits that are no finite numbers: NaN counts as -infinity. Where the largest is infinite the lowest of its ids is chosen, whatever the
// filters. Where none is above -infinity, token 0 is if its logit is NaN; else there is no token (GPUs may give none in both cases).
// Log-probabilities of a row whose largest logit is not finite are NaN.

import { type ChoiceRule, chooseToken } from "./choose-token.js";
import { FIELD, MAX_TOP_LOGPROBS, ROW_WORDS, type SamplingRows } from "./sampling-rows.js";

/** What sampling rows give, by row. */
export interface Sampled {
  /** -1: every token is forbidden. */
  readonly ids: Int32Array; // [n]
  /** Of the token, before any edit. Written, like the next two, for rows that ask for log-probabilities. */
  readonly logprobs: Float32Array; // [n]
  /** The most probable tokens, best first, ties to the lower id. */
  readonly topIds: Int32Array; // [n, MAX_TOP_LOGPROBS]
  readonly topLogprobs: Float32Array; // [n, MAX_TOP_LOGPROBS]
}

export function createSampled(n: number): Sampled {
  return {
    ids: new Int32Array(n),
    logprobs: new Float32Array(n),
    topIds: new Int32Array(n * MAX_TOP_LOGPROBS),
    topLogprobs: new Float32Array(n * MAX_TOP_LOGPROBS),
  };
}

/** Of a device that keeps no tokens. */
export const NO_HISTORY = new Int32Array(0);

/** What a device does first with the rows of a call: the tokens that they bring for penalties go to the history, behind those held there. */
export function keepTokens(history: Int32Array, { ints, lists, count }: SamplingRows): void {
  for (let at = 0; at < count * ROW_WORDS; at += ROW_WORDS) {
    if (ints[at + FIELD.history]! < 0) continue;
    const from = ints[at + FIELD.tokens]!;
    const to = ints[at + FIELD.history]! + ints[at + FIELD.numHeld]!;
    for (let i = 0; i < ints[at + FIELD.numTokens]!; i++) history[to + i] = lists[from + i]!;
  }
}

/**
 * Samples row `row` into entry `to` of `out`. logits [V] are those of its logit row as the model gave them; `history` has the tokens that
 * rows have left (keepTokens); `hook` edits the copy that is chosen from, last.
 */
export function sampleRow(
  out: Sampled,
  to: number,
  logits: Float32Array,
  rows: SamplingRows,
  row: number,
  history: Int32Array = NO_HISTORY,
  hook: ((values: Float32Array) => void) | null = null,
): void {
  const { ints, floats, doubles } = rows;
  const at = row * ROW_WORDS;
  let token = ints[at + FIELD.given]!;
  if (token < 0) {
    const values = editedLogits(logits, rows, at, history);
    hook?.(values);
    const rule: ChoiceRule = {
      temperature: floats[at + FIELD.temperature]!,
      topK: ints[at + FIELD.topK]!,
      topP: floats[at + FIELD.topP]!,
      minP: floats[at + FIELD.minP]!,
    };
    token = chooseToken(values, rule, doubles[at / 2]!);
    if (values[token] === Number.NEGATIVE_INFINITY) token = -1;
  }
  out.ids[to] = token;
  const numTop = ints[at + FIELD.numTop]!;
  if (numTop < 0) return;
  const logTotal = logSumExp(logits);
  out.logprobs[to] = token < 0 ? Number.NEGATIVE_INFINITY : logits[token]! - logTotal;
  const best = largest(logits, numTop);
  for (let i = 0; i < numTop; i++) {
    const id = best[i] ?? -1;
    out.topIds[to * MAX_TOP_LOGPROBS + i] = id;
    out.topLogprobs[to * MAX_TOP_LOGPROBS + i] = id < 0 ? Number.NEGATIVE_INFINITY : logits[id]! - logTotal;
  }
}

function editedLogits(
  logits: Float32Array,
  { ints, floats, lists }: SamplingRows,
  at: number,
  history: Int32Array,
): Float32Array {
  const values = logits.slice();
  const bits = new Int32Array(1);
  const bias = new Float32Array(bits.buffer);
  const firstBias = ints[at + FIELD.bias]!;
  for (let i = 0; i < ints[at + FIELD.numBias]!; i++) {
    bits[0] = lists[firstBias + 2 * i + 1]!;
    values[lists[firstBias + 2 * i]!]! += bias[0]!;
  }
  const kept = ints[at + FIELD.history]!;
  const first = kept < 0 ? ints[at + FIELD.tokens]! : kept;
  const count = ints[at + FIELD.numHeld]! + ints[at + FIELD.numTokens]!;
  const tokens = (kept < 0 ? lists : history).subarray(first, first + count);
  const numPrompt = ints[at + FIELD.numPrompt]!;
  penalize(values, tokens.subarray(0, numPrompt), tokens.subarray(numPrompt), {
    repetition: floats[at + FIELD.repetitionPenalty]!,
    presence: floats[at + FIELD.presencePenalty]!,
    frequency: floats[at + FIELD.frequencyPenalty]!,
  });
  const forbidden = ints[at + FIELD.forbidden]!;
  for (let i = forbidden; i < forbidden + ints[at + FIELD.numForbidden]!; i++) {
    if (lists[i]! < values.length) values[lists[i]!] = Number.NEGATIVE_INFINITY;
  }
  const mask = ints[at + FIELD.mask]!;
  if (mask >= 0) {
    for (let id = 0; id < values.length; id++) {
      if ((lists[mask + (id >> 5)]! & (1 << (id & 31))) === 0) values[id] = Number.NEGATIVE_INFINITY;
    }
  }
  return values;
}

/**
 * Repetition (multiplicative, over prompt and answer), frequency and presence (additive, over the answer), as OpenAI and
 * Hugging Face define them: once for each token that occurs.
 */
function penalize(
  values: Float32Array,
  prompt: Int32Array,
  answer: Int32Array,
  { repetition, presence, frequency }: { repetition: number; presence: number; frequency: number },
): void {
  const counts = new Map<number, number>();
  for (const id of prompt) counts.set(id, 0);
  for (const id of answer) counts.set(id, (counts.get(id) ?? 0) + 1);
  for (const [id, count] of counts) {
    const logit = values[id]!;
    const edited = logit > 0 ? logit / repetition : logit * repetition;
    values[id] = count > 0 ? edited - (presence + frequency * count) : edited;
  }
}

function logSumExp(logits: Float32Array): number {
  let max = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < logits.length; i++) if (logits[i]! > max) max = logits[i]!;
  let sum = 0;
  for (let i = 0; i < logits.length; i++) {
    const weight = Math.exp(logits[i]! - max);
    if (!Number.isNaN(weight)) sum += weight;
  }
  return max + Math.log(sum);
}

/** Ids of the k largest logits, NaN left out, by insertion into a short sorted list: k is at most a few dozen. */
function largest(logits: Float32Array, k: number): number[] {
  const ids: number[] = [];
  if (k === 0) return ids;
  for (let id = 0; id < logits.length; id++) {
    const logit = logits[id]!;
    if (Number.isNaN(logit) || (ids.length === k && logit <= logits[ids[k - 1]!]!)) continue;
    let at = ids.length;
    while (at > 0 && logit > logits[ids[at - 1]!]!) at--;
    ids.splice(at, 0, id);
    if (ids.length > k) ids.pop();
  }
  return ids;
}
