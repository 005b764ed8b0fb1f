// The packed rows that a device samples by: one fixed struct per row and one array of lists behind them (tokens for penalties,
// biases, forbidden tokens, masks). The layout is that of `struct SamplingRow` in native/cpu/src/sample-row.h, field by field; a
// test compares the two. A device copies both arrays as they are; nothing else describes sampling to it.
//
// Penalties are about the row's tokens so far. They stay on the device (Device.reserveHistory), so that a step brings new ones alone:
//
//   tokens     |<- numHeld: in the history, from `history` on ->|<- numTokens: in the lists, from `tokens` on ->|
//              |<- numPrompt ->|<------------------------------- the answer ----------------------------------->|
//
// Before it samples, a device writes the listed tokens behind the held ones. A listed token -(i + 1) is token i of the flight ahead
// (`previous` of Device.stage), which the host may not know yet. Rows of one call may write the same tokens to the same place.

import { SAMPLING, type SamplingParams } from "./sampling.js";

/** Word (4 bytes) of each field in a row; `uniform` takes two. */
export const FIELD = {
  uniform: 0,
  temperature: 2,
  topP: 3,
  minP: 4,
  repetitionPenalty: 5,
  presencePenalty: 6,
  frequencyPenalty: 7,
  topK: 8,
  logitRow: 9,
  given: 10,
  numTop: 11,
  tokens: 12,
  numTokens: 13,
  history: 14,
  numHeld: 15,
  numPrompt: 16,
  bias: 17,
  numBias: 18,
  forbidden: 19,
  numForbidden: 20,
  mask: 21,
} as const;

/** Words of a row. */
export const ROW_WORDS = 22;

/** Most alternatives of a row that a device reports. */
export const MAX_TOP_LOGPROBS = SAMPLING.logprobs.max;

/** The words of a greedy row without edits. */
const GREEDY = greedyRow();

function greedyRow(): Int32Array {
  const ints = new Int32Array(ROW_WORDS);
  const floats = new Float32Array(ints.buffer);
  floats[FIELD.topP] = floats[FIELD.repetitionPenalty] = 1;
  ints[FIELD.given] = ints[FIELD.numTop] = ints[FIELD.history] = ints[FIELD.mask] = -1;
  return ints;
}

export class SamplingRows {
  count = 0;
  numLists = 0;
  /** The rows as integers, single and double floats. */
  ints = new Int32Array(0); // [count, ROW_WORDS]
  floats = new Float32Array(0);
  doubles = new Float64Array(0); // [count, ROW_WORDS / 2]
  lists = new Int32Array(1024); // [numLists]
  readonly #listFloats = new Float32Array(1);
  readonly #listBits = new Int32Array(this.#listFloats.buffer);

  constructor(capacity = 16) {
    this.#growRows(capacity);
  }

  clear(): void {
    this.count = 0;
    this.numLists = 0;
  }

  /** Appends a greedy row without edits that draws from `logitRow`; the methods below are about the last one. */
  add(logitRow: number): number {
    const row = this.count++;
    if (this.count * ROW_WORDS > this.ints.length) this.#growRows(2 * this.count);
    const at = row * ROW_WORDS;
    const { ints } = this;
    for (let i = 0; i < ROW_WORDS; i++) ints[at + i] = GREEDY[i]!;
    ints[at + FIELD.logitRow] = logitRow;
    return row;
  }

  /** How a token is drawn, and what is reported of it. */
  setDraw(sampling: SamplingParams, uniform: number): void {
    const at = (this.count - 1) * ROW_WORDS;
    this.doubles[at / 2] = uniform;
    this.floats[at + FIELD.temperature] = sampling.temperature;
    this.floats[at + FIELD.topP] = sampling.topP;
    this.floats[at + FIELD.minP] = sampling.minP;
    this.ints[at + FIELD.topK] = sampling.topK;
    this.ints[at + FIELD.numTop] = sampling.logprobs ?? -1;
  }

  /** No draw: reports how probable `token` is, and the `numTop` most probable ones. */
  setGiven(token: number, numTop: number): void {
    const at = (this.count - 1) * ROW_WORDS;
    this.ints[at + FIELD.given] = token;
    this.ints[at + FIELD.numTop] = numTop;
  }

  /**
   * Penalties over tokens[0 .. numTokens), of which the first promptLen are the prompt. Of those they are about (`penalizedFrom`), the first
   * numHeld are in the history from `history` on; -1: the row brings all of them and leaves none.
   */
  setPenalties(
    sampling: SamplingParams,
    tokens: Int32Array,
    promptLen: number,
    numTokens: number,
    history = -1,
    numHeld = 0,
  ): void {
    const at = (this.count - 1) * ROW_WORDS;
    const first = penalizedFrom(sampling, promptLen);
    this.floats[at + FIELD.repetitionPenalty] = sampling.repetitionPenalty;
    this.floats[at + FIELD.presencePenalty] = sampling.presencePenalty;
    this.floats[at + FIELD.frequencyPenalty] = sampling.frequencyPenalty;
    this.ints[at + FIELD.tokens] = this.numLists;
    this.ints[at + FIELD.numTokens] = numTokens - first - numHeld;
    this.ints[at + FIELD.history] = history;
    this.ints[at + FIELD.numHeld] = numHeld;
    this.ints[at + FIELD.numPrompt] = promptLen - first;
    this.#append(tokens, first + numHeld, numTokens);
  }

  setBias(bias: SamplingParams["logitBias"]): void {
    const at = (this.count - 1) * ROW_WORDS;
    this.ints[at + FIELD.bias] = this.numLists;
    this.ints[at + FIELD.numBias] = bias.length;
    this.#reserve(2 * bias.length);
    for (let i = 0; i < bias.length; i++) {
      this.#listFloats[0] = bias[i]![1];
      this.lists[this.numLists++] = bias[i]![0];
      this.lists[this.numLists++] = this.#listBits[0]!;
    }
  }

  setForbidden(ids: Int32Array): void {
    const at = (this.count - 1) * ROW_WORDS;
    this.ints[at + FIELD.forbidden] = this.numLists;
    this.ints[at + FIELD.numForbidden] = ids.length;
    this.#append(ids, 0, ids.length);
  }

  /** Only tokens whose bit is set can be chosen. */
  setMask(mask: Int32Array): void {
    this.ints[(this.count - 1) * ROW_WORDS + FIELD.mask] = this.numLists;
    this.#append(mask, 0, mask.length);
  }

  #append(from: Int32Array, start: number, end: number): void {
    this.#reserve(end - start);
    const { lists, numLists } = this;
    for (let i = start; i < end; i++) lists[numLists + i - start] = from[i]!;
    this.numLists += end - start;
  }

  #reserve(more: number): void {
    const needed = this.numLists + more;
    if (needed <= this.lists.length) return;
    const grown = new Int32Array(Math.max(needed, 2 * this.lists.length));
    grown.set(this.lists);
    this.lists = grown;
  }

  #growRows(capacity: number): void {
    const grown = new ArrayBuffer(capacity * ROW_WORDS * 4);
    new Int32Array(grown).set(this.ints);
    this.ints = new Int32Array(grown);
    this.floats = new Float32Array(grown);
    this.doubles = new Float64Array(grown);
  }
}

/** The first token that penalties are about: only repetition counts those of the prompt. */
export function penalizedFrom(sampling: SamplingParams, promptLen: number): number {
  return sampling.repetitionPenalty === 1 ? promptLen : 0;
}

/** The most alternatives that any row reports; -1: all report nothing but their token. */
export function mostAlternatives({ ints, count }: SamplingRows): number {
  let most = -1;
  for (let row = 0; row < count; row++) most = Math.max(most, ints[row * ROW_WORDS + FIELD.numTop]!);
  return most;
}

/** Whether a row draws from the logits as they are and reports nothing but its token. */
export function isPlainRow({ ints }: SamplingRows, row: number): boolean {
  const at = row * ROW_WORDS;
  return (
    ints[at + FIELD.given]! < 0 &&
    ints[at + FIELD.numTop]! < 0 &&
    ints[at + FIELD.mask]! < 0 &&
    ints[at + FIELD.numHeld]! + ints[at + FIELD.numTokens]! + ints[at + FIELD.numBias]! === 0 &&
    ints[at + FIELD.numForbidden] === 0
  );
}
