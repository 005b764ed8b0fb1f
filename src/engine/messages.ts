// What crosses between the caller's thread and the engine's. Plain data only: every message survives structured cloning.

import type { AdapterFacts, AdapterRef } from "../adapters/adapter.js";
import type { PrefixChange } from "../cache/prefix-journal.js";
import type { EngineConfig } from "../config/engine-config.js";
import type { ErrorCode, ErrorDetails } from "../core/errors.js";
import { PagodaError } from "../core/errors.js";
import type { GivenMedium, MediumSpan } from "../core/media.js";
import type { Pooling } from "../core/pooling.js";
import type { SamplingParams } from "../core/sampling.js";
import type { PredictorMethod, Speculation } from "../core/speculation.js";
import type { ConstraintSpec } from "../grammar/constraint.js";
import type { VisionSpec } from "../models/vision/vision-model.js";
import type { StepOutputs } from "./outputs.js";
import type { AdapterInfo, EngineStats, StepRow } from "./types.js";

/**
 * A generation; or the prompt as one vector: its pooled hidden states ("pool"), what the checkpoint makes an embedding of them by
 * ("embed"), or the numbers of its labels ("score").
 */
export type RequestKind = "generate" | "pool" | "embed" | "score";

/** What requests of all kinds but "generate" have beside their prompt. */
export interface TextFields {
  /** "last" when left out. */
  readonly pooling?: Pooling;
  /** Where the second text of a pair begins; left out: there is one text. */
  readonly secondStart?: number;
}

export interface AddMessage extends TextFields {
  readonly type: "add";
  /** The caller's name for it. Each of its samples is a Request with an id of its own. */
  readonly callId: string;
  readonly kind: RequestKind;
  readonly prompt: Int32Array;
  readonly sampling: SamplingParams;
  readonly priority: number;
  readonly salt: string;
  /** Left out: "". */
  readonly client?: string;
  readonly arrivalMs: number;
  readonly constraint: ConstraintSpec | null;
  /** Left out: as the engine does. */
  readonly speculation?: Speculation;
  /** Runs of the prompt whose embeddings are given, or made of pictures; left out: none. */
  readonly media?: readonly GivenMedium[];
  /** Left out: none. */
  readonly adapter?: AdapterRef;
  /** What another engine has given of one of the call's samples already; absent: nothing. */
  readonly resumed?: ResumedSample;
}

/** A sample that goes on where another engine left it. Its tokens are part of the answer: draws, penalties, grammar and limits count them. */
export interface ResumedSample {
  readonly index: number;
  readonly tokens: Int32Array;
}

export type ToEngine =
  | AddMessage
  | { readonly type: "abort"; readonly callId: string /** -1: every sample of the call. */; readonly index: number }
  | {
      readonly type: "query";
      readonly seq: number;
      readonly what: "stats" | "cache" | "plan";
      readonly rows: readonly StepRow[];
    }
  /** Gets ready for what a first request of some kind would otherwise wait for. */
  | { readonly type: "warm" }
  /** Tells from now on which prefixes it holds: all of them first, then changes. */
  | { readonly type: "watch_prefixes" }
  /** The pages of a prompt that are cached, from page `from` on, as bytes; and bytes from elsewhere to take up. Both are answered. */
  | (PromptPages & { readonly type: "lend_pages"; readonly from: number; readonly maxBytes: number })
  | (PromptPages & { readonly type: "take_pages"; readonly bytes: Uint8Array })
  /** Answered with its facts, or why it cannot be loaded (Loaded); and that it is gone for new requests. */
  | { readonly type: "load_adapter"; readonly seq: number; readonly adapter: AdapterRef }
  | { readonly type: "unload_adapter"; readonly seq: number; readonly name: string }
  | { readonly type: "fault"; readonly where: "step" | "thread" }
  | { readonly type: "close" };

/** The answer to "load_adapter". */
export type Loaded = { readonly facts: AdapterFacts } | { readonly error: WireError };

interface PromptPages {
  readonly seq: number;
  readonly prompt: Int32Array;
  readonly salt: string;
  /** Left out: none. */
  readonly media?: readonly MediumSpan[];
}

/** What the engine's thread knows after loading, and its callers need. */
export interface EngineFacts {
  readonly architecture: string;
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly task: "generate" | "embed" | "score";
  readonly isBidirectional: boolean;
  /** 0: the model does not score texts. */
  readonly numLabels: number;
  /** What the scores are pooled by. */
  readonly scorePooling: Pooling;
  readonly maxContext: number;
  readonly pageSize: number;
  /** Tokens of the longest sequence that the pools can hold; Infinity where all layers have windows. */
  readonly poolTokens: number;
  readonly device: string;
  /** A request's answer does not depend on what is computed beside it. False on GPUs whose compiler reorders sums. */
  readonly deterministic: boolean;
  /** Of one page in all cache groups. */
  readonly pageBytes: number;
  /** What pages depend on beside their tokens: weights, encodings, kernels, version. Engines that agree in it give the same bits. */
  readonly identity: string;
  /** How the model sees; null: it has no eyes. */
  readonly vision: VisionFacts | null;
  /** What was loaded to guess tokens ahead; null: nothing. */
  readonly predictor: PredictorMethod | null;
  readonly config: EngineConfig;
}

/** What preparing pictures needs to know of a model's eyes. */
export interface VisionFacts extends VisionSpec {
  /** Most tokens of a frame. */
  readonly maxFrameTokens: number;
}

export type FromEngine =
  | { readonly type: "ready"; readonly facts: EngineFacts }
  | { readonly type: "progress"; readonly loadedBytes: number; readonly totalBytes: number }
  | StepOutputs
  | { readonly type: "reply"; readonly seq: number; readonly value: unknown }
  | { readonly type: "prefixes"; readonly change: PrefixChange }
  /** All adapters that requests may name from now on. For engines that are elsewhere. */
  | { readonly type: "adapters"; readonly adapters: readonly AdapterInfo[] }
  /** Whether it can serve just now; null: it can. For engines that are elsewhere. */
  | { readonly type: "away"; readonly reason: string | null }
  | { readonly type: "dead"; readonly error: WireError };

/** An error as data. */
export interface WireError {
  readonly code: ErrorCode;
  readonly details: ErrorDetails;
}

export function toWire(error: unknown, fallback: ErrorCode): WireError {
  if (error instanceof PagodaError) return { code: error.code, details: error.details };
  return { code: fallback, details: { reason: error instanceof Error ? error.message : String(error) } };
}

export type { EngineStats };
