// A request as the scheduler, the cache and the engine see it. One number moves: `numComputed`. Prefill, chunk, decode and
// cache hit are all "catch up to numTokens"; there are no phases.
//
//   tokens   |<------------- prompt ------------->|<---- generated ---->|
//            0                                promptLen             numTokens
//   KV       |<-- from the cache -->|<-- computed here -->|
//            0                  numCached            numComputed  (numTokens - 1 once decoding, never more than numTokens)
//   pages    |  full page  |  full page  |  partial page  |   ceil(numComputed / P), more while a step is under way

import type { RequestId } from "./ids.js";
import type { SamplingParams } from "./sampling.js";

export type RequestState = "waiting" | "running" | "finished";
export type FinishReason = "stop" | "length" | "abort" | "error";

export interface RequestInit {
  readonly id: RequestId;
  readonly prompt: ArrayLike<number>;
  readonly sampling: SamplingParams;
  /** Lower runs first; ties by arrival. */
  readonly priority?: number;
  /** Requests share cached prefixes only with the same salt. */
  readonly salt?: string;
  /** Clock of the caller, in milliseconds. */
  readonly arrivalMs?: number;
  /** false: every position must be computed here (prompt logprobs, mean pooling); the trie is not asked. */
  readonly readsCache?: boolean;
  /** Which of the n samples of its caller this is. */
  readonly sampleIndex?: number;
}

export class Request {
  readonly id: RequestId;
  readonly sampling: SamplingParams;
  readonly priority: number;
  readonly salt: string;
  readonly arrivalMs: number;
  readonly promptLen: number;
  readonly sampleIndex: number;
  readonly readsCache: boolean;

  state: RequestState = "waiting";
  finishReason: FinishReason | null = null;

  /** Prompt and generated tokens; only the first numTokens count. */
  tokens: Int32Array;
  numTokens: number;
  /** Tokens whose K and V are in the pages, counting those of the step under way. */
  numComputed = 0;

  /** Pages in sequence order; only the first numPages count. Owned by the cache manager. */
  pages: Int32Array = new Int32Array(8);
  numPages = 0;
  /** Leading pages that are in the prefix trie and locked by this request. Owned by the cache manager. */
  numSharedPages = 0;

  /** Order of arrival: breaks ties of priority and survives preemption. Owned by the scheduler. */
  arrivalOrder = 0;
  /** The last step that gave it tokens; until then, the step in which it arrived. Owned by the scheduler. */
  lastServedStep = 0;

  // --- what the finished request reports ---
  /** Tokens it took from the cache instead of computing them; those found again after a preemption do not count. */
  numCached = 0;
  numChunks = 0;
  numSteps = 0;
  numPreemptions = 0;
  firstScheduledMs = -1;
  firstTokenMs = -1;
  finishedMs = -1;

  constructor(init: RequestInit) {
    this.id = init.id;
    this.sampling = init.sampling;
    this.priority = init.priority ?? 0;
    this.salt = init.salt ?? "";
    this.arrivalMs = init.arrivalMs ?? 0;
    this.sampleIndex = init.sampleIndex ?? 0;
    this.readsCache = init.readsCache ?? true;
    this.promptLen = init.prompt.length;
    this.tokens = new Int32Array(init.prompt.length + Math.min(init.sampling.maxTokens, 256));
    this.tokens.set(init.prompt);
    this.numTokens = init.prompt.length;
  }

  get numGenerated(): number {
    return this.numTokens - this.promptLen;
  }

  appendToken(id: number): void {
    if (this.numTokens === this.tokens.length) {
      const grown = new Int32Array(this.tokens.length * 2);
      grown.set(this.tokens);
      this.tokens = grown;
    }
    this.tokens[this.numTokens++] = id;
  }
}
