// What a device does for one draw: edits of the logits in their order (bias, penalties, forbidden tokens, mask), the choice
// (choose-token.ts), log-probabilities. The oracle of every device, what the reference device runs, and what the host runs for rows
// whose logits a caller's hook edits.
//
// Logits that are no finite numbers: NaN counts as -infinity. Where the largest is infinite the lowest of its ids is chosen, whatever the
// filters. Where none is above -infinity there is no token.
// Log-probabilities of a row whose largest logit is not finite are NaN.

import { type ChoiceRule, chooseToken } from "./choose-token.js";
import { DRAW, DRAW_WORDS, type Draws, FLAG, MAX_TOP_LOGPROBS, ROW, ROW_WORDS, tokensOfRow } from "./draws.js";
import { uniformOf } from "./random.js";

/** What draws give, by draw. */
export interface Sampled {
  /** -1: every token is forbidden, or has no number for its logit. */
  readonly ids: Int32Array; // [n]
  /** Of the token, before any edit. Written, like the next two, for draws that ask for log-probabilities. */
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

/** Of a device that keeps no rows. */
export const NO_ROWS: Int32Array = new Int32Array(0);

/** What a device does first with the draws of a call: rows that are new are written. */
export function writeRows(rows: Int32Array, { lists, writes, numWrites }: Draws): void {
  for (let i = 0; i < 3 * numWrites; i += 3) {
    for (let w = 0; w < writes[i + 2]!; w++) rows[writes[i]! + w] = lists[writes[i + 1]! + w]!;
  }
}

/** And then: the tokens that draws list for penalties go to their rows, behind those held there. */
export function keepTokens(rows: Int32Array, { ints, lists, count }: Draws): void {
  for (let at = 0; at < count * DRAW_WORDS; at += DRAW_WORDS) {
    const row = ints[at + DRAW.row]!;
    const numTokens = ints[at + DRAW.numTokens]!;
    if (row < 0 || numTokens === 0) continue;
    const to = row + tokensOfRow(rows, row) + ints[at + DRAW.position]! - rows[row + ROW.first]! - numTokens;
    for (let i = 0; i < numTokens; i++) rows[to + i] = lists[ints[at + DRAW.tokens]! + i]!;
  }
}

/**
 * Gives entry `to` of `out` what draw `draw` asks for. logits [V] are those of its logit row as the model gave them; `rows` are the device's;
 * `hook` edits the copy that is chosen from, last; `xtc` leaves out the most probable tokens. Both are the host's alone.
 */
export function sampleRow(
  out: Sampled,
  to: number,
  logits: Float32Array,
  draws: Draws,
  draw: number,
  rows: Int32Array = NO_ROWS,
  hook: ((values: Float32Array) => void) | null = null,
  xtc: Xtc | null = null,
): void {
  const { ints } = draws;
  const at = draw * DRAW_WORDS;
  let token = ints[at + DRAW.given]!;
  if (token < 0) {
    const values = logits.slice();
    edit(values, draws, at, rows);
    hook?.(values);
    token = choose(values, draws, at, rows, xtc);
    if (!(values[token]! > Number.NEGATIVE_INFINITY)) token = -1;
  }
  out.ids[to] = token;
  const numTop = ints[at + DRAW.numTop]!;
  if (numTop < 0) return;
  const max = logits.reduce((a, b) => (b > a ? b : a), Number.NEGATIVE_INFINITY);
  // The largest first: beside a huge one the logarithm would be lost.
  const logSum = logSumExp(logits, max);
  out.logprobs[to] = token < 0 ? Number.NEGATIVE_INFINITY : logits[token]! - max - logSum;
  const best = largest(logits, numTop);
  for (let i = 0; i < numTop; i++) {
    const id = best[i] ?? -1;
    out.topIds[to * MAX_TOP_LOGPROBS + i] = id;
    out.topLogprobs[to * MAX_TOP_LOGPROBS + i] = id < 0 ? Number.NEGATIVE_INFINITY : logits[id]! - max - logSum;
  }
}

/** The words of a draw's row, from the row on. */
function rowOf({ ints, lists }: Draws, at: number, rows: Int32Array): Int32Array {
  const row = ints[at + DRAW.row]!;
  return row < 0 ? lists.subarray(-row - 1) : rows.subarray(row);
}

/** Of a draw that XTC is for. */
export interface Xtc {
  readonly probability: number;
  readonly threshold: number;
}

/** Of the draw's random numbers the one that says whether XTC leaves anything out. */
const XTC_STREAM = 1;

function choose(values: Float32Array, draws: Draws, at: number, rows: Int32Array, xtc: Xtc | null): number {
  const { ints } = draws;
  if ((ints[at + DRAW.flags]! & FLAG.isDrawn) === 0) return chooseToken(values, GREEDY, 0);
  const row = rowOf(draws, at, rows);
  const floats = floatsOf(row);
  const uniformIn = (stream: number): number =>
    uniformOf(row[ROW.seedLow]!, row[ROW.seedHigh]!, ints[at + DRAW.sample]!, ints[at + DRAW.position]!, stream);
  const rule: ChoiceRule = {
    temperature: floats[ROW.temperature]!,
    topK: row[ROW.topK]!,
    topP: floats[ROW.topP]!,
    minP: floats[ROW.minP]!,
    ...(xtc !== null && uniformIn(XTC_STREAM) < xtc.probability ? { xtcThreshold: xtc.threshold } : {}),
  };
  return chooseToken(values, rule, uniformIn(0));
}

const GREEDY: ChoiceRule = { temperature: 0, topK: 0, topP: 1, minP: 0 };

function floatsOf(row: Int32Array): Float32Array {
  return new Float32Array(row.buffer, row.byteOffset, row.length);
}

function edit(values: Float32Array, draws: Draws, at: number, rows: Int32Array): void {
  const { ints, lists } = draws;
  const flags = ints[at + DRAW.flags]!;
  if ((flags & (FLAG.bias | FLAG.penalties | FLAG.stops)) !== 0) {
    const row = rowOf(draws, at, rows);
    const floats = floatsOf(row);
    const stops = ROW_WORDS + 2 * row[ROW.numBias]!;
    if ((flags & FLAG.bias) !== 0) {
      for (let i = ROW_WORDS; i < stops; i += 2) values[row[i]!]! += floats[i + 1]!;
    }
    if ((flags & FLAG.penalties) !== 0) {
      const count = ints[at + DRAW.position]! - row[ROW.first]!;
      const isBrought = ints[at + DRAW.row]! < 0;
      const first = isBrought ? ints[at + DRAW.tokens]! : tokensOfRow(row, 0);
      const tokens = (isBrought ? lists : row).subarray(first, first + count);
      const numPrompt = row[ROW.numPrompt]!;
      penalize(values, tokens.subarray(0, numPrompt), tokens.subarray(numPrompt), {
        repetition: floats[ROW.repetitionPenalty]!,
        presence: floats[ROW.presencePenalty]!,
        frequency: floats[ROW.frequencyPenalty]!,
      });
    }
    if ((flags & FLAG.stops) !== 0) {
      for (let i = stops; i < stops + row[ROW.numStops]!; i++) {
        if (row[i]! < values.length) values[row[i]!] = Number.NEGATIVE_INFINITY;
      }
    }
  }
  const mask = ints[at + DRAW.mask]!;
  if (mask >= 0) {
    for (let id = 0; id < values.length; id++) {
      if ((lists[mask + (id >> 5)]! & (1 << (id & 31))) === 0) values[id] = Number.NEGATIVE_INFINITY;
    }
  }
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

/** Of the differences to the largest. */
function logSumExp(logits: Float32Array, max: number): number {
  let sum = 0;
  for (let i = 0; i < logits.length; i++) {
    const weight = Math.exp(logits[i]! - max);
    if (!Number.isNaN(weight)) sum += weight;
  }
  return Math.log(sum);
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
