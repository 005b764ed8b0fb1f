// From requests to sampling rows: what a request asked for, packed for the device, which edits the logits and draws. Only a caller's
// hook needs the logits on the host; such a row is chosen here by the same rule.

import { errorFor } from "../core/errors.js";
import { uniformAt } from "../core/random.js";
import type { Request } from "../core/request.js";
import { createSampled, NO_HISTORY, type Sampled, sampleRow } from "../core/sample-row.js";
import type { PositionLogprobs, SamplingParams, TokenLogprob } from "../core/sampling.js";
import { MAX_TOP_LOGPROBS, penalizedFrom, SamplingRows } from "../core/sampling-rows.js";
import type { TokenConstraint } from "../grammar/constraint.js";
import { type HeldTokens, History } from "./history.js";

/** Edits one row of logits in place; given by the caller of an in-process engine. */
export type LogitsHook = (logits: Float32Array, context: { tokens: Int32Array; promptLen: number }) => void;

/** What sampling keeps for a request beside its parameters. */
export interface SamplingState {
  /** Ids that end the answer: forbidden until minTokens are out. */
  readonly stopIds: Int32Array;
  readonly constraint: TokenConstraint | null;
  readonly editLogits: LogitsHook | null;
  /** Its tokens on the device, for penalties; null: it has none, or a hook, for which the host chooses. */
  readonly held: HeldTokens | null;
}

/** What a row's draws give: entries [first, first + count) of what was sampled. One token, or several where the draws agreed with drafts. */
export interface Run {
  sampled: Sampled;
  first: number;
  count: number;
}

export class Sampler {
  readonly #mask: Int32Array; // [ceil(V / 32)]
  #hasMask = false;
  readonly #hookRows = new SamplingRows(1);
  readonly #hooked = createSampled(1);
  readonly #history: History;

  constructor(vocabSize: number, history = new History(0)) {
    this.#mask = new Int32Array(Math.ceil(vocabSize / 32));
    this.#history = history;
  }

  /** The rows to come are of another flight. */
  beginFlight(): void {
    this.#history.beginFlight();
  }

  /**
   * Appends the row that draws the request's token at `position` from row `logitRow` of a block, and returns its index. What a
   * constraint throws goes through; the row is there then, without its mask.
   */
  addRow(rows: SamplingRows, logitRow: number, request: Request, state: SamplingState, position: number): number {
    const row = rows.add(logitRow);
    rows.setDraw(request.sampling, uniformOf(request, request.sampleIndex, position));
    // Drafts are tried beside the row's first draw, and bring what that one did.
    const isDraft = request.numDrafted > 0 && position > request.numTokens;
    if (state.held !== null && !isDraft) this.#hold(state.held, request, position);
    this.#setEdits(rows, request, state, position, state.held === null ? 0 : state.held.numBefore);
    this.#hasMask = state.constraint?.fillMask(this.#mask, isDraft ? position - request.numTokens : 0) === true;
    if (this.#hasMask) rows.setMask(this.#mask);
    return row;
  }

  /** Appends the row of another sample of the request that addRow() was called for last: the same edits, a draw of its own. */
  addFork(rows: SamplingRows, logitRow: number, request: Request, state: SamplingState, sampleIndex: number): void {
    const { sampling, numTokens } = request;
    rows.add(logitRow);
    rows.setDraw(sampling, uniformOf(request, sampleIndex, numTokens));
    this.#setEdits(rows, request, state, numTokens, state.held === null ? 0 : state.held.count);
    if (this.#hasMask) rows.setMask(this.#mask);
  }

  /** The device will have all tokens before `position`; those that it has not are in the row to come. */
  #hold(held: HeldTokens, request: Request, position: number): void {
    const count = position - penalizedFrom(request.sampling, request.promptLen);
    this.#history.take(held, count + request.numDrafted);
    held.numBefore = held.count;
    if (held.at >= 0) held.count = count;
  }

  #setEdits(rows: SamplingRows, request: Request, state: SamplingState, position: number, numHeld: number): void {
    const { sampling, promptLen, tokens } = request;
    rows.setBias(sampling.logitBias);
    if (hasPenalties(sampling)) rows.setPenalties(sampling, tokens, promptLen, position, state.held?.at, numHeld);
    if (position - promptLen < sampling.minTokens) rows.setForbidden(state.stopIds);
  }

  /** Chooses the next token of a request with a hook. Throws when every token is forbidden, and what a constraint or hook throws. */
  choose(run: Run, logits: Float32Array, request: Request, state: SamplingState): void {
    const rows = this.#hookRows;
    const { tokens, numTokens, promptLen } = request;
    rows.clear();
    this.addRow(rows, 0, request, state, numTokens);
    sampleRow(this.#hooked, 0, logits, rows, 0, NO_HISTORY, (values) =>
      state.editLogits?.(values, { tokens: tokens.subarray(0, numTokens), promptLen }),
    );
    takeDrawn(run, this.#hooked, 0, request);
  }
}

/** Appends the row that guesses the request's token at `position`: by its rule and its number, without penalties and grammars. */
export function addGuess(
  rows: SamplingRows,
  logitRow: number,
  request: Request,
  position: number,
  hasSameIds: boolean,
): void {
  rows.add(logitRow);
  rows.setDraw(request.sampling, uniformOf(request, request.sampleIndex, position));
  if (hasSameIds) rows.setBias(request.sampling.logitBias);
}

/**
 * What the entries from `index` on give the request: the draw after its last token, then those after its drafts for as long as the draws
 * before them agree.
 */
export function takeDrawn(run: Run, sampled: Sampled, index: number, request: Request): void {
  const { tokens, numTokens, numDrafted, numGenerated } = request;
  if (sampled.ids[index]! < 0) throw errorFor("no_token_left", { index: numGenerated });
  run.sampled = sampled;
  run.first = index;
  run.count = 0;
  for (let i = 0; i <= numDrafted; i++) {
    const token = sampled.ids[index + i]!;
    if (token < 0) return; // the next step draws there again, and says what is wrong
    run.count++;
    if (token !== tokens[numTokens + i]) return;
  }
}

/** The number that a token is drawn by; the most probable one takes none. */
function uniformOf({ sampling }: Request, sampleIndex: number, position: number): number {
  return sampling.temperature === 0 ? 0 : uniformAt(sampling.seed, sampleIndex, position);
}

/** The report of entry `index`, with `numTop` alternatives. */
export function logprobsAt(sampled: Sampled, index: number, numTop: number): PositionLogprobs {
  const top: TokenLogprob[] = [];
  for (let i = index * MAX_TOP_LOGPROBS; i < index * MAX_TOP_LOGPROBS + numTop; i++) {
    if (sampled.topIds[i]! >= 0) top.push({ id: sampled.topIds[i]!, logprob: sampled.topLogprobs[i]! });
  }
  return { id: sampled.ids[index]!, logprob: sampled.logprobs[index]!, top };
}

/** Whether a token can be drawn before the one in front of it is known on the host. */
export function canRunAhead(sampling: SamplingParams, state: SamplingState): boolean {
  return sampling.maxTokens > 0 && state.constraint === null && state.editLogits === null;
}

export function hasPenalties({ repetitionPenalty, frequencyPenalty, presencePenalty }: SamplingParams): boolean {
  return repetitionPenalty !== 1 || frequencyPenalty !== 0 || presencePenalty !== 0;
}
