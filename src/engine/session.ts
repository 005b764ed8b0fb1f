// What the engine keeps of one sample beside its Request: who asked, how to sample, what to report.

import type { Request } from "../core/request.js";
import type { PositionLogprobs } from "../core/sampling.js";
import type { SamplingState } from "../sampler/sampler.js";
import type { RequestKind } from "./messages.js";
import type { RequestTrace } from "./types.js";

export interface Session {
  readonly request: Request;
  /** Id the caller knows; the samples of one call share it. */
  readonly callId: string;
  readonly kind: RequestKind;
  readonly sampling: SamplingState;
  /** Filled from position 0 on when prompt logprobs were asked for; entry 0 is null. */
  readonly promptLogprobs: (PositionLogprobs | null)[] | null;
  /** Sum of the hidden states so far (embed_mean), over `pooledTokens` tokens. */
  readonly pooled: Float64Array | null;
  pooledTokens: number;
}

export function traceOf(request: Request): RequestTrace {
  const end = request.finishedMs;
  const first = request.firstTokenMs < 0 ? end : request.firstTokenMs;
  const decodeMs = end - first;
  return {
    promptTokens: request.promptLen,
    completionTokens: request.numGenerated,
    cachedTokens: request.numCached,
    chunks: request.numChunks,
    steps: request.numSteps,
    preemptions: request.numPreemptions,
    queuedMs: (request.firstScheduledMs < 0 ? end : request.firstScheduledMs) - request.arrivalMs,
    timeToFirstTokenMs: first - request.arrivalMs,
    totalMs: end - request.arrivalMs,
    tokensPerSecond: decodeMs > 0 ? ((request.numGenerated - 1) * 1000) / decodeMs : 0,
  };
}
