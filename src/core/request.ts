// A request as the scheduler, the cache and the engine see it. One number moves: `numComputed`. Prefill, chunk, decode and
// cache hit are all "catch up to numTokens"; there are no phases.
//
//   tokens   |<------------- prompt ------------->|<---- generated ---->|
//            0                                promptLen             numTokens
//   KV       |<-- from the cache -->|<-- landed -->|<--- in flight -->|
//            0                  numCached     numCommitted         numComputed
//   pages    |  full page  |  full page  |  partial page  |   at least ceil(numComputed / P)
//
// A flight (a step on the device) is scheduled before the one ahead of it has landed. What such a flight will give is pending:
// numTokensWithPending = numTokens + numPending, and a request catches up to that. The host learns a pending token when its flight lands.
//
// A row may be given guesses of the tokens to come (drafts): tokens[numTokens .. numTokens + numDrafted), computed in the same flight. Those
// that the draws agree with become tokens when it lands; until then nothing is pending, and nothing behind numTokens is published.
//
// States of recurrent layers cannot go back to a token before the last. A row with guesses leaves them in front of its guesses (stateEnd), and
// the next row begins there: it computes what was accepted once more (numRewound).

import { penalizedFrom } from "./draws.js";
import type { RequestId } from "./ids.js";
import { ceilDiv, NEVER } from "./math.js";
import { type MediumSpan, NO_MEDIA } from "./media.js";
import type { SamplingParams } from "./sampling.js";

export type RequestState = "waiting" | "running" | "finished";
/** Why an answer ended: a stop token or string, the limit of tokens, the caller, or a failure. */
export type FinishReason = "stop" | "length" | "abort" | "error";

export interface RequestInit {
  readonly id: RequestId;
  readonly prompt: ArrayLike<number>;
  readonly sampling: SamplingParams;
  /** Lower runs first; ties by arrival. */
  readonly priority?: number;
  /** Requests share cached prefixes only with the same salt, which names their adapter too (`pageSalt`). */
  readonly salt?: string;
  /** Whose it is: clients share the steps fairly, whatever each asks for. Default: "", one and the same. */
  readonly client?: string;
  /** Clock of the caller, in milliseconds. */
  readonly arrivalMs?: number;
  /** false: every position must be computed here (prompt logprobs, mean pooling); the directory is not asked. */
  readonly readsCache?: boolean;
  /** true: its tokens see those after them, so all of them are computed in one step, and nothing of it is shared. */
  readonly isAtomic?: boolean;
  /** Where the second text of a pair begins; left out: there is one text. */
  readonly secondStart?: number;
  /** Of its prompt, in order and apart from each other. */
  readonly media?: readonly MediumSpan[];
  /** Which of the n samples of its caller this is. */
  readonly sampleIndex?: number;
  /** The length at which it is ended, whatever its sampling allows: the engine's context. */
  readonly maxLength?: number;
  /** true: the device can choose its tokens without the host, so the next step need not wait for the last. */
  readonly runsAhead?: boolean;
  /** Guesses that a step may try for it at most. Default: none. */
  readonly maxDrafts?: number;
  /** What its answer will be like: guesses may come from it. Default: nobody said. */
  readonly prediction?: readonly number[] | null;
  /** Its guesses are a predictor's, not from texts. Default: false. */
  readonly draftsByModel?: boolean;
  /** Its adapter's slot; -1, the default: it has none. */
  readonly adapterSlot?: number;
  /** true: guesses may come from earlier answers of its client, and its own is kept for the next ones. */
  readonly sharesAnswers?: boolean;
}

/** Whether the next tokens of a request can be chosen (grammar/constraint.ts). */
export interface Readiness {
  isReady(): boolean;
  isQuick?(): boolean;
  foresee?(tokens: Int32Array, first: number, count: number): void;
  numForeseen?(): number;
}

/** A slot that holds the request's state after its first `end` tokens. */
export interface PendingSnapshot {
  readonly slot: number;
  readonly end: number;
}

/** Says how far a chunk can go: media behind it have no rows yet. */
export interface MediaSupply {
  /** The first position from `start` on that cannot be computed yet, `end` at the latest; asks for what lacks before `end`. */
  endFor(start: number, end: number): number;
}

const NO_HASHES = new Int32Array(0);

export class Request {
  // What every step looks at comes first: it lies together in memory, and a step of hundreds of requests waits for lines of that.

  /** What the engine keeps of it; nobody below looks at it. */
  owner: object | null = null;
  state: RequestState = "waiting";
  /** Prompt and generated tokens; only the first numTokens are known, and references to pending ones follow (`addPlaceholder`). */
  tokens: Int32Array;
  numTokens: number;
  /** Tokens whose K and V are in the pages, counting those of flights under way. */
  numComputed = 0;
  /** How many of them are in flight. While there are any, the device may write to the pages: they cannot be given back. */
  numInFlight = 0;
  /** Tokens that flights under way will give it. */
  numPending = 0;
  /** Where the row in flight leaves the states of recurrent layers; NEVER: at its end. */
  stateEnd = NEVER;
  /** Tokens from numComputed on that were computed before; the states are in front of them. */
  numRewound = 0;
  /** Guesses behind its tokens that a flight under way tries. */
  numDrafted = 0;
  /** Guesses that a step may try for it. */
  readonly maxDrafts: number;
  /** Its tokens are pending while a flight computes them. Not while there may be guesses for it: a drafter must know the last token. */
  runsAhead: boolean;
  /** Says whether its next token can be chosen; one that is not ready sits the step out. null: always. */
  readiness: Readiness | null = null;
  /** Of media whose rows are made on the way; null: there are none. */
  supply: MediaSupply | null = null;
  readonly promptLen: number;
  /** Prompt and answer have at most this many tokens. */
  readonly maxLength: number;
  /** Until it has more tokens than this, none ends it. */
  readonly minLength: number;
  /** false: it is over when its prompt is computed. */
  readonly asksAnswer: boolean;
  /** An answer that repeats itself is ended. */
  readonly endsLoops: boolean;
  /** Alternatives to report for each token; -1: no log-probabilities. */
  readonly numTop: number;
  /** Its first token is out. */
  hasBegun = false;
  /** The first token that penalties are about. */
  readonly penalizedFrom: number;
  readonly isAtomic: boolean;
  readonly secondStart: number;
  /** -1: it has no adapter. */
  readonly adapterSlot: number;
  /** The last step that gave it tokens; until then, the step in which it arrived. Owned by the scheduler. */
  lastServedStep = 0;
  numSteps = 0;

  // --- owned by the cache manager ---
  /** One per cache group of the model. */
  readonly tables: PageTable[] = [new PageTable()];
  /** Leading pages of the sequence that are in the directory; those it holds are locked by this request. */
  numSharedPages = 0;
  /** Identities: the salt's root, then one for each of the first numHashedPages pages, four words each. */
  hashes: Int32Array = NO_HASHES;
  numHashedPages = 0;
  /** States copied aside in a step that is not committed yet, oldest first. */
  readonly pendingSnapshots: PendingSnapshot[] = [];
  /** Boundary of the last snapshot taken among its generated tokens; 0: none. */
  lastSnapshotEnd = 0;

  // --- what it is, looked at when it comes and when it goes ---
  readonly id: RequestId;
  readonly sampling: SamplingParams;
  readonly priority: number;
  readonly salt: string;
  readonly client: string;
  readonly arrivalMs: number;
  readonly sampleIndex: number;
  readonly readsCache: boolean;
  readonly media: readonly MediumSpan[];
  /** The device can choose its tokens without the host. */
  readonly canRunAhead: boolean;
  readonly prediction: readonly number[] | null;
  readonly draftsByModel: boolean;
  readonly sharesAnswers: boolean;
  finishReason: FinishReason | null = null;

  /** Order of arrival: breaks ties of priority and survives preemption. Owned by the scheduler. */
  arrivalOrder = 0;
  /** Another client may make it yield once it has so many tokens: after a preemption, as many more as it had to compute again. */
  preemptibleFrom = 0;
  /** Tokens of requests that came later and were let in before it, while its client had none running. */
  numPassedBy = 0;
  /** Its client's account, while it waits or runs (scheduler/fair/client-shares.ts); nobody else looks at it. */
  share: object | null = null;

  // --- what the finished request reports ---
  /** Tokens it took from the cache instead of computing them; those found again after a preemption do not count. */
  numCached = 0;
  numChunks = 0;
  numPreemptions = 0;
  /** Steps in which guesses were tried, the guesses, and those that became tokens. */
  numDrafts = 0;
  numTried = 0;
  numGuessed = 0;
  acceptedMs = -1;
  firstScheduledMs = -1;
  firstTokenMs = -1;
  finishedMs = -1;

  constructor(init: RequestInit) {
    this.id = init.id;
    this.sampling = init.sampling;
    this.priority = init.priority ?? 0;
    this.salt = init.salt ?? "";
    this.client = init.client ?? "";
    this.arrivalMs = init.arrivalMs ?? 0;
    this.sampleIndex = init.sampleIndex ?? 0;
    this.readsCache = init.readsCache ?? true;
    this.isAtomic = init.isAtomic ?? false;
    this.secondStart = init.secondStart ?? NEVER;
    this.media = init.media ?? NO_MEDIA;
    this.promptLen = init.prompt.length;
    this.maxLength = Math.min(init.maxLength ?? NEVER, this.promptLen + init.sampling.maxTokens);
    this.minLength = this.promptLen + init.sampling.minTokens;
    this.asksAnswer = init.sampling.maxTokens > 0;
    this.endsLoops = init.sampling.loopCount > 1;
    this.numTop = init.sampling.logprobs ?? -1;
    this.penalizedFrom = penalizedFrom(init.sampling, this.promptLen);
    this.maxDrafts = init.maxDrafts ?? 0;
    this.prediction = init.prediction ?? null;
    this.draftsByModel = init.draftsByModel ?? false;
    this.adapterSlot = init.adapterSlot ?? -1;
    this.sharesAnswers = init.sharesAnswers ?? false;
    this.canRunAhead = init.runsAhead ?? false;
    this.runsAhead = this.canRunAhead && this.maxDrafts === 0;
    this.tokens = new Int32Array(init.prompt.length + Math.min(init.sampling.maxTokens, 256));
    this.tokens.set(init.prompt);
    this.numTokens = init.prompt.length;
  }

  /** Of its prompt: an answer that goes on where another engine left it may find tokens of its own in the cache, too. */
  get numCachedPrompt(): number {
    return Math.min(this.numCached, this.promptLen);
  }

  get numGenerated(): number {
    return this.numTokens - this.promptLen;
  }

  /** The token at `position` will be token `index` of the flight just launched: until it lands, -(index + 1) stands for it. */
  addPlaceholder(position: number, index: number): void {
    if (position === this.tokens.length) this.#growTokens();
    this.tokens[position] = -(index + 1);
  }

  /** Tokens it has, and those that flights will give it. */
  get numTokensWithPending(): number {
    return this.numTokens + this.numPending;
  }

  /** Tokens known here whose K and V are in the pages for good: what may be published. */
  get numCommitted(): number {
    return Math.min(this.numComputed - this.numInFlight, this.numTokens);
  }

  /**
   * Takes the tokens [first, first + count) that a landed flight gave: one, or several that verification accepted. What the flight computed beyond them
   * (rejected drafts) counts as not computed.
   */
  accept(tokens: ArrayLike<number>, first: number, count: number): void {
    this.numDrafted = 0;
    for (let i = 0; i < count; i++) this.appendToken(tokens[first + i]!);
    if (this.numPending > 0) this.numPending--;
    this.numComputed = Math.min(this.numComputed, this.numTokensWithPending - 1);
    if (this.stateEnd < this.numComputed) {
      this.numRewound = this.numComputed - this.stateEnd;
      this.numComputed = this.stateEnd;
    }
    this.stateEnd = NEVER;
  }

  /** The flight under way draws nothing for it: its last token is computed once more, behind that flight. */
  giveUpDraw(): void {
    this.numPending--;
    this.numComputed--;
  }

  /** Drops what a run gave it beyond `numTokens`: the answer ended before. */
  cut(numTokens: number): void {
    if (numTokens === this.numTokens) return;
    this.numTokens = numTokens;
    this.numComputed = Math.min(this.numComputed, numTokens - 1);
  }

  /** Room for `count` guesses behind its tokens. */
  reserveDrafts(count: number): void {
    while (this.numTokens + count > this.tokens.length) this.#growTokens();
  }

  appendToken(id: number): void {
    if (this.numTokens === this.tokens.length) this.#growTokens();
    this.tokens[this.numTokens++] = id;
  }

  #growTokens(): void {
    const grown = new Int32Array(this.tokens.length * 2);
    grown.set(this.tokens);
    this.tokens = grown;
  }
}

/**
 * A request's pages in one cache group, in sequence order: position p lies in pages[p / P]. Owned by the cache manager.
 *
 *   pages   |  null page: behind the window  |  held  |
 *           0                              first   numPages
 *
 * Full and latent groups hold everything (first is 0). A state group has one "page": the slot of the request's working state.
 */
export class PageTable {
  /** Only [first, numPages) count; entries before `first` are the null page. Replaced by reserve() alone. */
  pages: Int32Array = new Int32Array(8);
  #head = this.pages;
  first = 0;
  numPages = 0;

  get numHeld(): number {
    return this.numPages - this.first;
  }

  /** pages[0 .. count), the same view for as long as there are no more: a step reads every row's. */
  headOf(count: number): Int32Array {
    if (this.#head.length !== count) this.#head = this.pages.subarray(0, count);
    return this.#head;
  }

  reserve(capacity: number): void {
    if (capacity <= this.pages.length) return;
    const grown = new Int32Array(Math.max(capacity, this.pages.length * 2));
    grown.set(this.pages);
    this.pages = this.#head = grown;
  }

  clear(): void {
    this.first = 0;
    this.numPages = 0;
  }
}

// --- what it has to go, read from its counts -----------------------------------------------------------------------

/**
 * One generated token to go, and those before it that are computed once more. A pending one may be the last: then there is nothing to compute after it; and a request that no longer runs ahead
 * waits for it.
 */
export function isDecode(request: Request): boolean {
  return (
    request.numTokensWithPending - request.numComputed - request.numRewound === 1 &&
    request.numComputed >= request.promptLen &&
    (request.numPending === 0 || (request.runsAhead && request.numTokensWithPending < request.maxLength))
  );
}

/** A row from `start` on computes the last of its generated tokens: it draws one, and may try guesses beside it. */
export function isDecoded(request: Request, start: number): boolean {
  return start >= request.promptLen && request.numComputed === request.numTokens;
}

/** Prompt tokens to go, or those of a preempted request. Neither this nor isDecode: all its tokens are computed. */
export function isPrefill(request: Request): boolean {
  return request.numComputed < request.numTokens && !isDecode(request);
}

/** Its next token can be computed, and the one after it chosen when that is computed. */
export function canSample(request: Request): boolean {
  const { supply, numComputed } = request;
  return canChoose(request) && (supply === null || supply.endFor(numComputed, numComputed + 1) > numComputed);
}

/** Behind a pending token its mask comes while the flight computes; behind a draw that was given up (giveUpDraw), once that flight has landed. */
function canChoose({ readiness, numPending, numInFlight, numComputed, promptLen }: Request): boolean {
  if (readiness === null) return true;
  if (numPending > 0) return readiness.isQuick?.() === true;
  return (numInFlight === 0 || numComputed < promptLen) && readiness.isReady();
}

/** Its answer may need a further page. Its last token needs none: nothing is computed after it. */
export function willGrow({ numTokens, maxLength }: Request, pageSize: number): boolean {
  return maxLength - 1 > ceilDiv(numTokens, pageSize) * pageSize;
}

/** It ran, and waits to run again. */
export function isPreempted({ state, numPreemptions }: Request): boolean {
  return state === "waiting" && numPreemptions > 0;
}

export function hasWaitedLonger(a: Request, b: Request): boolean {
  return a.priority < b.priority || (a.priority === b.priority && a.lastServedStep < b.lastServedStep);
}

/** It asks for no answer: it is over when its prompt is computed. */
export function endsWithPrompt({ asksAnswer }: Request): boolean {
  return !asksAnswer;
}

/** The first token of a call with several samples: the others begin from the same logits. */
export function isForking(request: Request): boolean {
  return request.numGenerated === 0 && request.sampleIndex === 0 && request.sampling.n > 1 && !endsWithPrompt(request);
}

/** Further samples that begin when the request is computed up to `end`: each is a draw from the same logits. */
export function forksAt(request: Request, end: number): number {
  return end === request.promptLen && isForking(request) ? request.sampling.n - 1 : 0;
}
