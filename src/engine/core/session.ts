// What the engine keeps of one sample beside its Request: who asked, how to sample, what to report.

import type { HeldAdapter } from "../../adapters/adapter-pool.js";
import { pageSalt } from "../../cache/page-hash.js";
import type { RequestId } from "../../core/ids.js";
import { checkMedia, type GivenMedium } from "../../core/media.js";
import { PooledState } from "../../core/pooling.js";
import { Request } from "../../core/request.js";
import type { PositionLogprobs, SamplingParams } from "../../core/sampling.js";
import { isPredictor, type SpeculationMethod } from "../../core/speculation.js";
import { MAX_RUN } from "../../drafter/drafter.js";
import type { ConstraintCompiler } from "../../grammar/constraint.js";
import { openConstraint } from "../../grammar/thoughts.js";
import { KeptRow } from "../../sampler/row-table.js";
import { canRunAhead, hostHook, type LogitsHook, type SamplingState } from "../../sampler/sampler.js";
import type { AddMessage, RequestKind } from "../messages.js";
import type { RequestTrace } from "../types.js";
import { type MediumRows, NO_ROWS } from "./media-rows.js";
import { PictureRows } from "./picture-rows.js";

export interface Session {
  readonly request: Request;
  /** What stands for it in outputs; set when it is opened. */
  handle: number;
  /** Id the caller knows; the samples of one call share it. */
  readonly callId: string;
  readonly kind: RequestKind;
  readonly sampling: SamplingState;
  /** Its answer is the device's alone, without media and hook. */
  readonly isPlain: boolean;
  /** Of its prompt; those of the request, with their rows. */
  readonly media: readonly MediumRows[];
  /** Filled from position 0 on when prompt logprobs were asked for; entry 0 is null. */
  readonly promptLogprobs: (PositionLogprobs | null)[] | null;
  /** The hidden states so far; null for generations. */
  readonly pooled: PooledState | null;
  /** Released when the session ends. */
  readonly adapter: HeldAdapter | null;
}

/** What an engine does where a request leaves it open. */
export interface EngineSpeculation {
  readonly method: Exclude<SpeculationMethod, "auto">;
  readonly tokens: number;
}

const NO_SPECULATION: EngineSpeculation = { method: "off", tokens: 0 };

export interface SessionOptions {
  readonly eosIds: readonly number[];
  readonly compiler: ConstraintCompiler | null;
  readonly hiddenSize: number;
  readonly maxContext: number;
  readonly isBidirectional: boolean;
  /** Masks may come when their step computes already: a row that lacks its own can compute its last token once more. */
  readonly takesLateMasks?: boolean;
  /** The text of a token, for rules about texts; left out: the model has no tokenizer. */
  readonly tokenText?: (token: number) => string;
  /** How tokens are guessed for requests that do not say; left out: for none at all. */
  readonly speculation?: EngineSpeculation | null;
  /** Makes rows of pictures; left out: there are none. */
  readonly pictures?: PictureRows;
}

const BLIND = new PictureRows({ eyes: null, maxBytes: 0, turnMs: 0, clock: () => 0 });
const NO_MEDIA: readonly GivenMedium[] = [];
const NO_STOPS = new Int32Array(0);

/** Makes sessions from messages, and further samples from a first one. */
export class SessionFactory {
  readonly #eosIds: Int32Array;
  readonly #compiler: ConstraintCompiler | null;
  readonly #hiddenSize: number;
  readonly #maxContext: number;
  readonly #isBidirectional: boolean;
  readonly #speculation: EngineSpeculation | null;
  readonly #pictures: PictureRows;
  readonly #takesLateMasks: boolean;
  readonly #tokenText: (token: number) => string;

  constructor(options: SessionOptions) {
    this.#pictures = options.pictures ?? BLIND;
    this.#tokenText = options.tokenText ?? (() => "");
    const { eosIds, compiler, hiddenSize, maxContext } = options;
    this.#isBidirectional = options.isBidirectional;
    this.#takesLateMasks = options.takesLateMasks ?? false;
    this.#speculation = options.speculation ?? null;
    this.#maxContext = maxContext;
    this.#eosIds = Int32Array.from(eosIds);
    this.#compiler = compiler;
    this.#hiddenSize = hiddenSize;
  }

  open(message: AddMessage, editLogits: LogitsHook | null, adapter: HeldAdapter | null = null): Session {
    const { sampling, kind, pooling = "last", media = NO_MEDIA } = message;
    const promptLen = this.#isBidirectional ? 0 : message.prompt.length;
    const rows = media.length === 0 ? NO_ROWS : this.#openMedia(media, promptLen, message.salt);
    const state = this.#samplingState(message, editLogits);
    const { method, tokens, prediction } = this.#speculationOf(message, state);
    const request = new Request({
      ...message,
      id: message.callId as RequestId,
      // What is taken from the cache has no hidden states.
      readsCache: sampling.promptLogprobs === null && (kind === "generate" || pooling === "last"),
      isAtomic: this.#isBidirectional,
      maxLength: this.#maxContext,
      runsAhead: kind === "generate" && canRunAhead(sampling, state, this.#takesLateMasks),
      maxDrafts: method === "off" ? 0 : tokens,
      sharesAnswers: method === "suffix",
      draftsByModel: isPredictor(method),
      prediction,
      sampleIndex: message.resumed?.index ?? 0,
      salt: pageSalt(message.salt, adapter?.facts.identity ?? ""),
      adapterSlot: adapter?.slot ?? -1,
    });
    for (const token of message.resumed?.tokens ?? []) request.appendToken(token);
    request.readiness = state.constraint;
    if (rows.length > 0) request.supply = this.#pictures.supplyFor(request, rows);
    return {
      request,
      handle: -1,
      kind,
      sampling: state,
      isPlain: kind === "generate" && state.editLogits === null && rows.length === 0,
      promptLogprobs: sampling.promptLogprobs === null ? null : [null],
      media: rows,
      callId: message.callId,
      pooled: kind === "generate" ? null : new PooledState(pooling, this.#hiddenSize),
      adapter,
    };
  }

  #openMedia(media: readonly GivenMedium[], promptLen: number, salt: string): readonly MediumRows[] {
    checkMedia(media, promptLen, this.#hiddenSize, this.#pictures.numRows);
    return this.#pictures.open(media, salt);
  }

  /** Another sample of the same call; its prompt is already computed. */
  fork(parent: Session, sampleIndex: number): Session {
    const { request, sampling, callId } = parent;
    const child = new Request({
      id: `${callId}#${sampleIndex}` as RequestId,
      prompt: request.tokens.subarray(0, request.promptLen),
      sampling: request.sampling,
      priority: request.priority,
      salt: request.salt,
      media: request.media,
      client: request.client,
      arrivalMs: request.arrivalMs,
      sampleIndex,
      maxLength: request.maxLength,
      runsAhead: request.canRunAhead,
      maxDrafts: request.maxDrafts,
      adapterSlot: request.adapterSlot,
      sharesAnswers: request.sharesAnswers,
      prediction: request.prediction,
      draftsByModel: request.draftsByModel,
    });
    parent.adapter?.retain();
    child.acceptedMs = request.acceptedMs;
    child.firstScheduledMs = request.firstScheduledMs;
    const constraint = sampling.constraint?.fork() ?? null;
    child.readiness = constraint;
    if (parent.media.length > 0) child.supply = this.#pictures.supplyFor(child, parent.media);
    return {
      request: child,
      handle: -1,
      kind: parent.kind,
      sampling: { ...sampling, constraint, row: sampling.row.fork() },
      isPlain: parent.isPlain,
      promptLogprobs: null,
      media: parent.media,
      callId,
      pooled: null,
      adapter: parent.adapter,
    };
  }

  /** A hook sees one row, and some constraints have a mask for one position: no guesses beside them. */
  #speculationOf(
    { kind, speculation }: AddMessage,
    state: SamplingState,
  ): EngineSpeculation & Pick<Request, "prediction"> {
    const engine = this.#speculation;
    const { constraint, editLogits } = state;
    const canHave = editLogits === null && (constraint === null || constraint.foresee !== undefined);
    if (engine === null || kind !== "generate" || !canHave) return { ...NO_SPECULATION, prediction: null };
    const { method = "auto", tokens = engine.tokens, prediction = null } = speculation ?? {};
    // Who says what the answer will be wants it tried.
    const usual = engine.method === "off" && prediction !== null ? "ngram" : engine.method;
    return { method: method === "auto" ? usual : method, tokens: Math.min(tokens, MAX_RUN - 1), prediction };
  }

  /** Usually the same array for all, which every step has at hand. */
  #stopIdsOf({ stopTokenIds, ignoreEos }: SamplingParams): Int32Array {
    if (stopTokenIds.length > 0) return Int32Array.from([...stopTokenIds, ...(ignoreEos ? [] : this.#eosIds)]);
    return ignoreEos ? NO_STOPS : this.#eosIds;
  }

  #samplingState({ prompt, sampling, constraint, resumed }: AddMessage, editLogits: LogitsHook | null): SamplingState {
    if (constraint !== null && this.#compiler === null)
      throw new Error("structured output needs a tokenizer, and this model has none");
    const stopIds = this.#stopIdsOf(sampling);
    return {
      stopIds,
      constraint:
        constraint === null ? null : openConstraint(this.#compiler!, constraint, resumed?.tokens ?? [], stopIds),
      editLogits: hostHook(sampling, editLogits, this.#tokenText),
      row: KeptRow.of(sampling, prompt.length, stopIds),
    };
  }
}

export function traceOf(request: Request): RequestTrace {
  const end = request.finishedMs;
  const first = request.firstTokenMs < 0 ? end : request.firstTokenMs;
  const decodeMs = end - first;
  return {
    promptTokens: request.promptLen,
    completionTokens: request.numGenerated,
    cachedTokens: request.numCachedPrompt,
    chunks: request.numChunks,
    steps: request.numSteps,
    preemptions: request.numPreemptions,
    drafts: request.numDrafts,
    draftTokens: request.numTried,
    acceptedTokens: request.numGuessed,
    acceptedMs: request.acceptedMs - request.arrivalMs,
    queuedMs: (request.firstScheduledMs < 0 ? end : request.firstScheduledMs) - request.arrivalMs,
    timeToFirstTokenMs: first - request.arrivalMs,
    totalMs: end - request.arrivalMs,
    tokensPerSecond: decodeMs > 0 ? ((request.numGenerated - 1) * 1000) / decodeMs : 0,
  };
}
