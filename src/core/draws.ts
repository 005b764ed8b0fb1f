// What a device samples by. How a request is sampled lies in its row on the device (Device.reserveRows), written when the request first
// draws; a step sends draws: which row, which logits, which position. The layouts are those of `struct Draw` and `struct Row` in
// native/cpu/src/sample-row.h, field by field; a test compares them.
//
//   row   |<- ROW_WORDS: the rule ->|<- biases: pairs of a token and f32 bits ->|<- stop ids ->|<- tokens that penalties are about ->|
//
// Penalties are about the request's tokens [first, position). A draw lists those at the end of them that its row has not:
//
//   tokens     |<----------- in the row ---------->|<- numTokens: in the lists, from `tokens` on ->| position
//              |<- numPrompt ->|<-------------------------- the answer --------------------------->|
//
// Before it samples, a device writes the listed tokens behind those of the row. A listed token -(i + 1) is token i of the flight ahead
// (`previous` of Device.stage), which the host may not know yet. Draws of one call may write the same tokens to the same place. Where there
// is no room on the device, a draw brings its row in the lists, and all tokens.

import { SAMPLING, type SamplingParams } from "./sampling.js";

/** Word (4 bytes) of each field of a draw. */
export const DRAW = {
  /** Where its row begins in the device's rows; -(i + 1): in the lists, from i on. Looked at where `flags` say so. */
  row: 0,
  logitRow: 1,
  /** Of the token that is drawn. */
  position: 2,
  /** Which sample of its call it is; -1: the seed is the random number itself. */
  sample: 3,
  flags: 4,
  /** A token to report on instead of drawing one; -1: none. */
  given: 5,
  /** Alternatives to report; -1: no log-probabilities. */
  numTop: 6,
  tokens: 7,
  numTokens: 8,
  /** Of a bit for each token, in the lists; -1: none. */
  mask: 9,
  /** Counts the draws whose logits are edited; -1: they are not. */
  edited: 10,
} as const;
export const DRAW_WORDS = 11;

/** What a draw takes of its row; with none of it the most probable token is taken. */
export const FLAG = { isDrawn: 1, bias: 2, penalties: 4, stops: 8 } as const;
const EDITS = FLAG.bias | FLAG.penalties | FLAG.stops;

/** Word of each field of a row. */
export const ROW = {
  seedLow: 0,
  seedHigh: 1,
  temperature: 2,
  topP: 3,
  minP: 4,
  repetitionPenalty: 5,
  presencePenalty: 6,
  frequencyPenalty: 7,
  topK: 8,
  /** Position of the first token that penalties are about. */
  first: 9,
  /** Tokens from there on that are the prompt's. */
  numPrompt: 10,
  numBias: 11,
  numStops: 12,
} as const;
export const ROW_WORDS = 13;

/** Most alternatives of a draw that a device reports. */
export const MAX_TOP_LOGPROBS = SAMPLING.logprobs.max;

/** The words of a request's row, up to its tokens. */
export function rowWordsOf(sampling: SamplingParams, promptLen: number, stopIds: Int32Array): Int32Array {
  const { seed, logitBias } = sampling;
  const words = new Int32Array(ROW_WORDS + 2 * logitBias.length + stopIds.length);
  const floats = new Float32Array(words.buffer);
  const first = penalizedFrom(sampling, promptLen);
  words[ROW.seedLow] = seed >>> 0;
  words[ROW.seedHigh] = Math.floor(seed / 2 ** 32) >>> 0;
  floats[ROW.temperature] = Math.abs(sampling.temperature); // -0 is 0
  floats[ROW.topP] = sampling.topP;
  floats[ROW.minP] = sampling.minP;
  floats[ROW.repetitionPenalty] = sampling.repetitionPenalty;
  floats[ROW.presencePenalty] = sampling.presencePenalty;
  floats[ROW.frequencyPenalty] = sampling.frequencyPenalty;
  words[ROW.topK] = sampling.topK;
  words[ROW.first] = first;
  words[ROW.numPrompt] = promptLen - first;
  words[ROW.numBias] = logitBias.length;
  words[ROW.numStops] = stopIds.length;
  for (const [i, [token, bias]] of logitBias.entries()) {
    words[ROW_WORDS + 2 * i] = token;
    floats[ROW_WORDS + 2 * i + 1] = bias;
  }
  words.set(stopIds, ROW_WORDS + 2 * logitBias.length);
  return words;
}

/** What each draw of the request takes of its row; stops are forbidden by position. */
export function flagsOf(sampling: SamplingParams): number {
  return (
    (sampling.temperature > 0 ? FLAG.isDrawn : 0) |
    (sampling.logitBias.length > 0 ? FLAG.bias : 0) |
    (hasPenalties(sampling) ? FLAG.penalties : 0)
  );
}

/** The first token that penalties are about: only repetition counts those of the prompt. */
export function penalizedFrom(sampling: SamplingParams, promptLen: number): number {
  return sampling.repetitionPenalty === 1 ? promptLen : 0;
}

function hasPenalties({ repetitionPenalty, frequencyPenalty, presencePenalty }: SamplingParams): boolean {
  return repetitionPenalty !== 1 || frequencyPenalty !== 0 || presencePenalty !== 0;
}

/** Where the row's tokens begin, counted from the row. */
export function tokensOfRow(words: Int32Array, row: number): number {
  return ROW_WORDS + 2 * words[row + ROW.numBias]! + words[row + ROW.numStops]!;
}

/** The draws of one call, with what is written to the device before it. */
export class Draws {
  count = 0;
  numLists = 0;
  numEdited = 0;
  /** Those that are not greedy. */
  numDrawn = 0;
  /** The most alternatives that any of them reports; -1: all report nothing but their token. */
  mostTop = -1;
  ints: Int32Array; // [count, DRAW_WORDS]
  lists = new Int32Array(1024); // [numLists]
  /** Rows that are new on the device: their place there, in the lists, and their words. */
  readonly writes: number[] = []; // [numWrites, 3]
  numWrites = 0;

  constructor(capacity = 16) {
    this.ints = new Int32Array(capacity * DRAW_WORDS);
  }

  clear(): void {
    this.count = this.numLists = this.numEdited = this.numDrawn = this.numWrites = 0;
    this.mostTop = -1;
  }

  /** Appends a draw; the methods below are about the last one. */
  add(row: number, logitRow: number, position: number, sample: number, flags: number, numTop: number): number {
    const draw = this.count++;
    if (this.count * DRAW_WORDS > this.ints.length) this.#growDraws();
    const { ints } = this;
    const at = draw * DRAW_WORDS;
    ints[at + DRAW.row] = row;
    ints[at + DRAW.logitRow] = logitRow;
    ints[at + DRAW.position] = position;
    ints[at + DRAW.sample] = sample;
    ints[at + DRAW.flags] = flags;
    ints[at + DRAW.given] = -1;
    ints[at + DRAW.numTop] = numTop;
    ints[at + DRAW.tokens] = ints[at + DRAW.numTokens] = 0;
    ints[at + DRAW.mask] = -1;
    ints[at + DRAW.edited] = (flags & EDITS) === 0 ? -1 : this.numEdited++;
    this.numDrawn += flags & FLAG.isDrawn;
    if (numTop > this.mostTop) this.mostTop = numTop;
    return draw;
  }

  /** The most probable token, and no report. */
  addGreedy(logitRow: number): number {
    return this.add(0, logitRow, 0, 0, 0, -1);
  }

  /** No draw: reports how probable `token` is, and the `numTop` most probable ones. */
  addGiven(logitRow: number, token: number, numTop: number): number {
    const draw = this.add(0, logitRow, 0, 0, 0, numTop);
    this.ints[draw * DRAW_WORDS + DRAW.given] = token;
    return draw;
  }

  /** The listed tokens: tokens[from .. to). */
  setTokens(tokens: Int32Array, from: number, to: number): void {
    const at = (this.count - 1) * DRAW_WORDS;
    this.ints[at + DRAW.tokens] = this.numLists;
    this.ints[at + DRAW.numTokens] = to - from;
    this.#append(tokens, from, to);
  }

  /** Only tokens whose bit is set can be chosen. */
  setMask(mask: Int32Array): void {
    const at = (this.count - 1) * DRAW_WORDS;
    this.ints[at + DRAW.mask] = this.numLists;
    if (this.ints[at + DRAW.edited]! < 0) this.ints[at + DRAW.edited] = this.numEdited++;
    this.#append(mask, 0, mask.length);
  }

  /** The row is written to the device, before any draw. */
  keepRow(at: number, words: Int32Array): void {
    const { writes } = this;
    const i = 3 * this.numWrites++;
    writes[i] = at;
    writes[i + 1] = this.numLists;
    writes[i + 2] = words.length;
    this.#append(words, 0, words.length);
  }

  /** The row comes with the draws; what they call it. */
  bringRow(words: Int32Array): number {
    this.#append(words, 0, words.length);
    return -(this.numLists - words.length + 1);
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

  #growDraws(): void {
    const grown = new Int32Array(2 * this.count * DRAW_WORDS);
    grown.set(this.ints);
    this.ints = grown;
  }
}

/** Whether a token is drawn from the logits as they are, and nothing but it reported. */
export function isPlainDraw({ ints }: Draws, draw: number): boolean {
  const at = draw * DRAW_WORDS;
  return ints[at + DRAW.given]! < 0 && ints[at + DRAW.numTop]! < 0 && ints[at + DRAW.edited]! < 0;
}
