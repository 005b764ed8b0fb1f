// From logits to tokens. Plain rows are chosen by the device, all of a block in one call; rows that need their logits edited or
// reported are brought to the host and chosen there by the same rule.

import { chooseToken } from "../core/choose-token.js";
import { errorFor } from "../core/errors.js";
import { uniformAt } from "../core/random.js";
import type { Request } from "../core/request.js";
import type { PositionLogprobs, SamplingParams } from "../core/sampling.js";
import type { Device, Tensor, TokenBuffer } from "../device/device.js";
import type { TokenConstraint } from "../grammar/constraint.js";
import { hasPenalties, LogitsEditor } from "./logits-editor.js";
import { logprobsOf } from "./logprobs.js";

/** Edits one row of logits in place; given by the caller of an in-process engine. */
export type LogitsHook = (logits: Float32Array, context: { tokens: Int32Array; promptLen: number }) => void;

/** What sampling keeps for a request beside its parameters. */
export interface SamplingState {
  /** Ids that end the answer: forbidden until minTokens are out. */
  readonly stopIds: Int32Array;
  readonly constraint: TokenConstraint | null;
  readonly editLogits: LogitsHook | null;
}

export class Sampler {
  readonly #device: Device;
  readonly #editor: LogitsEditor;
  readonly #row: Float32Array; // [V]
  readonly #mask: Int32Array; // [ceil(V / 32)]
  readonly #inputs;
  /** Written by `choose` when the request asked for logprobs, else null. */
  lastLogprobs: PositionLogprobs | null = null;

  constructor(device: Device, vocabSize: number, maxRows: number) {
    this.#device = device;
    this.#editor = new LogitsEditor(vocabSize);
    this.#row = new Float32Array(vocabSize);
    this.#mask = new Int32Array(Math.ceil(vocabSize / 32));
    this.#inputs = {
      temperature: new Float32Array(maxRows),
      topK: new Int32Array(maxRows),
      topP: new Float32Array(maxRows).fill(1),
      minP: new Float32Array(maxRows),
      uniform: new Float64Array(maxRows),
    };
  }

  /** Sets row `row` of the block to be chosen by the device: the request's token at `position`. */
  prepareRow(row: number, request: Request, position: number): void {
    const { temperature, topK, topP, minP, seed } = request.sampling;
    const inputs = this.#inputs;
    inputs.temperature[row] = temperature;
    inputs.topK[row] = topK;
    inputs.topP[row] = topP;
    inputs.minP[row] = minP;
    inputs.uniform[row] = uniformAt(seed, request.sampleIndex, position);
  }

  /** Marks row `row` as one the host chooses; the device's greedy answer for it is ignored. */
  skipRow(row: number): void {
    this.#inputs.temperature[row] = 0;
  }

  /** One call for all prepared rows of the block. */
  chooseOnDevice(out: TokenBuffer, first: number, logits: Tensor, n: number): void {
    this.#device.sample(out, first, logits, n, this.#inputs);
  }

  /** Chooses the request's next token on the host. Throws when every token is forbidden, and what a constraint or hook throws. */
  choose(logits: Float32Array, request: Request, state: SamplingState): number {
    const values = this.#row;
    const { sampling } = request;
    values.set(logits);
    this.#edit(values, request, state);
    const uniform = uniformAt(sampling.seed, request.sampleIndex, request.numTokens);
    const token = chooseToken(values, sampling, uniform);
    if (values[token]! === Number.NEGATIVE_INFINITY) throw errorFor("no_token_left", { index: request.numGenerated });
    this.lastLogprobs = sampling.logprobs === null ? null : logprobsOf(logits, token, sampling.logprobs);
    return token;
  }

  /** Log-probability of the known token `next` under row `row`: prompt logprobs. */
  scoreRow(logits: Tensor, row: number, next: number, numTop: number): PositionLogprobs {
    this.#device.read(this.#row, logits, row, 1);
    return logprobsOf(this.#row, next, numTop);
  }

  #edit(values: Float32Array, request: Request, state: SamplingState): void {
    const editor = this.#editor;
    if (request.sampling.logitBias.length > 0) editor.addBias(values, request.sampling.logitBias);
    if (hasPenalties(request.sampling)) editor.penalize(values, request);
    if (request.numGenerated < request.sampling.minTokens) editor.forbid(values, state.stopIds);
    if (state.constraint?.fillMask(this.#mask) === true) editor.applyMask(values, this.#mask);
    state.editLogits?.(values, { tokens: request.tokens.subarray(0, request.numTokens), promptLen: request.promptLen });
  }
}

/** Whether the device can choose an answer's token alone, once `numGenerated` tokens are out. */
export function isPlain(sampling: SamplingParams, state: SamplingState, numGenerated: number): boolean {
  return (
    sampling.logprobs === null &&
    state.constraint === null &&
    state.editLogits === null &&
    sampling.logitBias.length === 0 &&
    numGenerated >= sampling.minTokens &&
    !hasPenalties(sampling)
  );
}
