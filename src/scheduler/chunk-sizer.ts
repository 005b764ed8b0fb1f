// The next chunk of one prompt: whether it can have one in the step being made, and how long it is. Whose turn it is: share-policy.ts.

import type { CacheManager } from "../cache/cache-manager.js";
import { canSample, forksAt, isDecode, type Request } from "../core/request.js";
import type { Admission } from "./admission.js";
import { lastEnd, nextEnd } from "./chunk-ends.js";
import { shareOf } from "./fair/client-shares.js";
import { computesNextPage, type InFlightSteps, type StepBuilder } from "./step.js";

export class ChunkSizer {
  /** The longest: a multiple of the page size, at most the budget. */
  readonly longest: number;
  readonly #pageSize: number; // P
  readonly #cache: CacheManager;
  readonly #admission: Admission;
  readonly #builder: StepBuilder;
  readonly #inFlight: InFlightSteps;

  constructor(
    longest: number,
    cache: CacheManager,
    admission: Admission,
    builder: StepBuilder,
    inFlight: InFlightSteps,
  ) {
    this.longest = longest;
    this.#admission = admission;
    this.#pageSize = cache.pageSize;
    this.#cache = cache;
    this.#builder = builder;
    this.#inFlight = inFlight;
  }

  /** Of a running request. `most`: the tokens it may get, a page at least. false: it gets none in this step. */
  place(request: Request, most = this.longest): boolean {
    const gained = this.#cache.advance(request);
    if (request.numPreemptions === 0) request.numCached += gained;
    // A preempted request may have found everything but its last token in the directory.
    const isToken = isDecode(request);
    if (isToken && !this.takesDecodes) return false;
    if (this.isShortOfBudget(request) || this.#isUnderWay(request) || !canSample(request)) return false;
    // What it took over, now or when it was tried before in this step, may have brought it to the end of its pages in a window group.
    if (!this.#cache.tryReserve(request, request.numTokens)) return false;
    const start = request.numComputed;
    const queryLen = this.#supplied(request, this.#sizeOf(request, most));
    if (queryLen === 0) return false;
    if (!isToken) request.numChunks++;
    // A first token of a further sample costs as much as a decode, so that no step draws more tokens than it may, but for those of
    // its last prompt.
    this.#builder.place(request, queryLen, this.costOf(queryLen) + forksAt(request, start + queryLen));
    shareOf(request).lastServedStep = this.#builder.number;
    return true;
  }

  /** Admits a waiting request and gives it its first chunk; false when it must go on waiting. */
  tryAdmit(request: Request, most = this.longest): boolean {
    if (this.isShortOfBudget(request) || !this.#admission.tryAdmit(request)) return false;
    this.place(request, most);
    return true;
  }

  /** And not of pages: without decodes in this step it would have been served. */
  isShortOfBudget(request: Request): boolean {
    return this.#builder.left < this.leastBudget(request);
  }

  /** The smallest budget in which the request can get a chunk. */
  leastBudget(request: Request): number {
    const remaining = request.numTokens - request.numComputed;
    return this.costOf(request.isAtomic ? remaining : this.#least(request));
  }

  /** A prompt that lacks a decode alone may go among the chunks. */
  protected get takesDecodes(): boolean {
    return true;
  }

  /** What a chunk takes of the budget. */
  protected costOf(queryLen: number): number {
    return queryLen;
  }

  /** Of a text a page; where media may not be cut, more of it. */
  #least(request: Request): number {
    const { numComputed: start, numTokens, media } = request;
    return media.length === 0
      ? Math.min(this.#pageSize, numTokens - start)
      : nextEnd(request, start, this.#pageSize) - start;
  }

  /** Only the last chunk of a prompt may end inside a page. */
  #sizeOf(request: Request, most: number): number {
    const start = request.numComputed;
    const remaining = request.numTokens - start;
    const wanted = Math.max(most, this.#least(request));
    const queryLen = request.isAtomic ? remaining : Math.min(remaining, wanted, this.#builder.left);
    if (queryLen < remaining) return lastEnd(request, start, start + queryLen, this.#pageSize) - start;
    if (this.#cache.states?.isSharing !== true) return queryLen;
    // States can be resumed at the ends of chunks alone, so the prompt's last whole page ends one, and what is left of the prompt is
    // a short chunk of its own.
    const whole = lastEnd(request, start, start + remaining, this.#pageSize) - start;
    return whole === 0 ? remaining : whole;
  }

  /** Up to where media lack rows; nothing, where those begin in the first page. */
  #supplied(request: Request, queryLen: number): number {
    const { supply, numComputed: start } = request;
    if (supply === null) return queryLen;
    const end = supply.endFor(start, start + queryLen);
    return end === start + queryLen ? queryLen : lastEnd(request, start, end, this.#pageSize) - start;
  }

  /** An earlier row of this step or a row in flight computes the request's next page: once landed it is shared, not computed. */
  #isUnderWay(request: Request): boolean {
    if (!this.#cache.isSharing || !request.readsCache || request.numInFlight > 0) return false;
    if (this.#inFlight.computeNextPage(request, this.#pageSize)) return true;
    return computesNextPage(this.#builder.step, this.#builder.firstChunkRow, request, this.#pageSize);
  }
}
