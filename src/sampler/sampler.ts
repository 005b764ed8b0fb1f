// From requests to draws: what a request asked for lies in its row on the device, which edits the logits and draws. Only a caller's hook
// needs the logits on the host; such a token is chosen here by the same rule.

import { Draws, FLAG, MAX_TOP_LOGPROBS } from "../core/draws.js";
import { errorFor } from "../core/errors.js";
import type { Request } from "../core/request.js";
import { createSampled, NO_ROWS, type Sampled, sampleRow } from "../core/sample-row.js";
import type { PositionLogprobs, SamplingParams, TokenLogprob } from "../core/sampling.js";
import type { TokenConstraint } from "../grammar/constraint.js";
import { Dry } from "./dry.js";
import { type KeptRow, RowTable } from "./row-table.js";

/** Edits one row of logits in place; given by the caller of an in-process engine. */
export type LogitsHook = (logits: Float32Array, context: { tokens: Int32Array; promptLen: number }) => void;

/** What sampling keeps for a request beside its parameters. */
export interface SamplingState {
  /** Ids that end the answer: forbidden until minTokens are out. */
  readonly stopIds: Int32Array;
  readonly constraint: TokenConstraint | null;
  readonly editLogits: LogitsHook | null;
  /** What it is sampled by, and where that is on the device. */
  readonly row: KeptRow;
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
  readonly #hookDraws = new Draws(1);
  readonly #hooked = createSampled(1);
  readonly #table: RowTable;

  constructor(vocabSize: number, table = new RowTable(0)) {
    this.#mask = new Int32Array(Math.ceil(vocabSize / 32));
    this.#table = table;
  }

  /** The draws to come are of another flight. */
  beginFlight(): void {
    this.#table.beginFlight();
  }

  /**
   * Appends the draw of the request's token at `position` from row `logitRow` of a block. What a constraint throws goes through; the draw
   * is there then, without its mask.
   */
  addDraw(draws: Draws, logitRow: number, request: Request, state: SamplingState, position: number): void {
    const { row } = state;
    // Drafts are tried beside the row's first draw, and list the tokens that that one did.
    const isDraft = request.numDrafted > 0 && position > request.numTokens;
    if (!isDraft && state.editLogits === null)
      this.#keep(draws, request, row, flagsAt(state, request, position), position);
    this.#add(draws, logitRow, request, state, request.sampleIndex, position, row.numBefore);
    this.#hasMask = state.constraint?.fillMask(this.#mask, isDraft ? position - request.numTokens : 0) === true;
    if (this.#hasMask) draws.setMask(this.#mask);
  }

  /** Appends the draw of another sample of the request that addDraw() was called for last: the same edits, a number of its own. */
  addFork(draws: Draws, logitRow: number, request: Request, state: SamplingState, sampleIndex: number): void {
    this.#add(draws, logitRow, request, state, sampleIndex, request.numTokens, state.row.count);
    if (this.#hasMask) draws.setMask(this.#mask);
  }

  /** Appends the draw that guesses the request's token at `position`: by its rule and its number, without penalties and grammars. */
  addGuess(
    draws: Draws,
    logitRow: number,
    request: Request,
    { row }: SamplingState,
    position: number,
    hasSameIds: boolean,
  ): void {
    const flags = row.flags & (hasSameIds ? FLAG.isDrawn | FLAG.bias : FLAG.isDrawn);
    draws.add(placeOf(draws, row, flags), logitRow, position, request.sampleIndex, flags, -1);
  }

  /** The device will have the request's row with all penalised tokens before `position`; those that it has not are listed with the draw to come. */
  #keep(draws: Draws, request: Request, row: KeptRow, flags: number, position: number): void {
    if (flags === 0) return;
    const count = (flags & FLAG.penalties) === 0 ? 0 : position - request.penalizedFrom;
    if (this.#table.take(row, count + request.numDrafted)) draws.keepRow(row.at, row.words);
    row.numBefore = row.count;
    if (row.at >= 0) row.count = count;
  }

  #add(
    draws: Draws,
    logitRow: number,
    request: Request,
    state: SamplingState,
    sampleIndex: number,
    position: number,
    numHeld: number,
  ): void {
    const flags = flagsAt(state, request, position);
    draws.add(placeOf(draws, state.row, flags), logitRow, position, sampleIndex, flags, request.numTop);
    if ((flags & FLAG.penalties) !== 0) draws.setTokens(request.tokens, request.penalizedFrom + numHeld, position);
  }

  /** Chooses the next token of a request with a hook, or with rules that are the host's. Throws when every token is forbidden, and what a constraint or hook throws. */
  choose(run: Run, logits: Float32Array, request: Request, state: SamplingState): void {
    const draws = this.#hookDraws;
    const { tokens, numTokens, promptLen } = request;
    draws.clear();
    this.addDraw(draws, 0, request, state, numTokens);
    const { xtcProbability, xtcThreshold } = request.sampling;
    const xtc = xtcProbability > 0 ? { probability: xtcProbability, threshold: xtcThreshold } : null;
    const edit = (values: Float32Array): void =>
      state.editLogits?.(values, { tokens: tokens.subarray(0, numTokens), promptLen });
    sampleRow(this.#hooked, 0, logits, draws, 0, NO_ROWS, edit, xtc);
    takeDrawn(run, this.#hooked, 0, request);
  }
}

/** The hook of a request: the caller's, behind the rules that no device has. null: a device does all of it. */
export function hostHook(
  sampling: SamplingParams,
  own: LogitsHook | null,
  tokenText: (token: number) => string,
): LogitsHook | null {
  const { dryMultiplier, drySequenceBreakers, xtcProbability } = sampling;
  if (dryMultiplier === 0 || sampling.dryPenaltyLastN === 0)
    return own ?? (xtcProbability > 0 ? () => undefined : null);
  const dry = new Dry({
    multiplier: dryMultiplier,
    base: sampling.dryBase,
    allowedLength: sampling.dryAllowedLength,
    lastTokens: sampling.dryPenaltyLastN,
    isBreaker: (token) => {
      const text = tokenText(token);
      return drySequenceBreakers.some((breaker) => text.includes(breaker));
    },
  });
  return (logits, context) => {
    dry.edit(logits, context.tokens);
    own?.(logits, context);
  };
}

/** What a draw takes of the row: until enough tokens are out, what ends the answer is forbidden. */
function flagsAt({ row }: SamplingState, { minLength, penalizedFrom }: Request, position: number): number {
  const flags = position < minLength ? row.flags | FLAG.stops : row.flags;
  return position === penalizedFrom ? flags & ~FLAG.penalties : flags;
}

/** A draw that takes nothing of it has no use for a row. */
function placeOf(draws: Draws, row: KeptRow, flags: number): number {
  if (flags === 0) return 0;
  return row.at < 0 ? draws.bringRow(row.words) : row.at;
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

/** The report of entry `index`, with `numTop` alternatives. */
export function logprobsAt(sampled: Sampled, index: number, numTop: number): PositionLogprobs {
  const top: TokenLogprob[] = [];
  for (let i = index * MAX_TOP_LOGPROBS; i < index * MAX_TOP_LOGPROBS + numTop; i++) {
    if (sampled.topIds[i]! >= 0) top.push({ id: sampled.topIds[i]!, logprob: sampled.topLogprobs[i]! });
  }
  return { id: sampled.ids[index]!, logprob: sampled.logprobs[index]!, top };
}

/** Whether a token can be drawn before the one in front of it is known on the host. */
export function canRunAhead(sampling: SamplingParams, state: SamplingState, takesLateMasks = false): boolean {
  return sampling.maxTokens > 0 && (state.constraint === null || takesLateMasks) && state.editLogits === null;
}
