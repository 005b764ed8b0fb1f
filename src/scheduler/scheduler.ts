// Chooses what the next step computes. No phases: every request catches up from numComputed to numTokens. Pure bookkeeping on
// integers: no device, no I/O, the clock is passed in. docs/internals/scheduler.md states the rules and why they starve nobody.
//
//   admission.ts     who waits, runs, is finished; preemption when pages run out
//   share-policy.ts  whose turn it is:   in-order.ts  of one client;   fair/fair-share.ts  of several
//   chunk-sizer.ts   how long a chunk is
//   step.ts          a step, the one being made, those that have not landed

import type { CacheManager, PageCopy } from "../cache/cache-manager.js";
import { errorFor } from "../core/errors.js";
import type { RequestId } from "../core/ids.js";
import { canSample, type FinishReason, isDecode, isDecoded, type Request } from "../core/request.js";
import { type Drafter, MAX_RUN } from "../drafter/drafter.js";
import { StepWorth } from "../drafter/step-worth.js";
import { Admission } from "./admission.js";
import { longestUncut } from "./chunk-ends.js";
import { ChunkSizer } from "./chunk-sizer.js";
import { AlternatingSteps, FixedChunkSizer } from "./chunked-mode.js";
import { FairShare } from "./fair/fair-share.js";
import { InOrder } from "./in-order.js";
import { checkOptions, chunkOf, type SchedulerOptions } from "./options.js";
import type { SharePolicy } from "./share-policy.js";
import { InFlightSteps, Step, StepBuilder } from "./step.js";
import { StepCostModel } from "./step-cost-model.js";

export { longestRow, type SchedulerOptions } from "./options.js";
export type { Step } from "./step.js";

export class Scheduler {
  readonly budget: number;
  readonly #pageSize: number; // P
  readonly #longestChunk: number;
  readonly #cache: CacheManager;
  readonly #clock: () => number;
  readonly #admission: Admission;
  readonly #costs: StepCostModel;
  readonly #ownStep: Step;
  readonly #builder: StepBuilder;
  readonly #inFlight = new InFlightSteps();
  readonly #inOrder: SharePolicy;
  readonly #fair: SharePolicy;
  /** null: chunks and decodes share a step. */
  readonly #alternating: AlternatingSteps | null;
  readonly #worth = new StepWorth();
  /** Some request may have had guesses. */
  #hasDrafted = false;
  #lastLandedMs = 0;
  /** The prompt whose turn it was got nothing in the last step, for decodes had used up the budget. */
  #owesPrompt = false;

  constructor(options: SchedulerOptions, cache: CacheManager, clock: () => number) {
    checkOptions(options, cache.pageSize);
    const { mode, pageSize, maxPagesPerBatch, targetStepMs = 0 } = options;
    this.budget = pageSize * maxPagesPerBatch;
    this.#pageSize = pageSize;
    this.#cache = cache;
    this.#clock = clock;
    // Every running request may need a row in the same step, and a row costs at least one token.
    this.#admission = new Admission(this.budget, cache, clock);
    this.#costs = new StepCostModel(targetStepMs);
    this.#ownStep = this.createStep();
    this.#builder = new StepBuilder(this.#ownStep, this.budget, cache);
    this.#longestChunk = chunkOf(options);
    const isChunked = mode === "chunked";
    const Sizer = isChunked ? FixedChunkSizer : ChunkSizer;
    const sizer = new Sizer(this.#longestChunk, cache, this.#admission, this.#builder, this.#inFlight);
    this.#alternating = isChunked ? new AlternatingSteps(this.#builder) : null;
    this.#inOrder = new InOrder(this.#admission, this.#builder, sizer);
    this.#fair = new FairShare(this.#admission, this.#builder, sizer, cache, this.#costs, !isChunked);
  }

  /** Callers with several steps in flight bring their own. */
  createStep(): Step {
    return new Step(this.budget);
  }

  get numWaiting(): number {
    return this.#admission.waiting.size;
  }

  get numRunning(): number {
    return this.#admission.running.size;
  }

  running(): Iterable<Request> {
    return this.#admission.running;
  }

  waiting(): Iterable<Request> {
    return this.#admission.waiting;
  }

  get(id: RequestId): Request | undefined {
    return this.#admission.get(id);
  }

  add(request: Request): void {
    if (request.numTokens === 0) throw errorFor("empty_prompt");
    if (request.media.length > 0) this.#checkMedia(request);
    this.#admission.add(request);
    // As if served by the last step: a newcomer is behind the prompts that step left out, and ahead of none.
    request.lastServedStep = this.#builder.number - 1;
    if (request.maxDrafts > 0) this.#hasDrafted = true;
  }

  /** A chunk that may not be cut must fit into one. */
  #checkMedia(request: Request): void {
    const value = longestUncut(request, this.#pageSize);
    if (value <= this.#longestChunk) return;
    const expected = `at most ${this.#longestChunk} tokens between page boundaries outside them: media this long need a larger idealChunk`;
    throw errorFor("invalid_value", { param: "media", value, expected });
  }

  /**
   * The next step, or null when nothing can run before a step in flight has landed. The rows' numComputed already counts the
   * step's tokens. Every step is landed once, in the order of scheduling.
   */
  schedule(step: Step = this.#ownStep): Step | null {
    if (step.isInFlight) throw new Error("the step is still in flight");
    this.#builder.begin(step, this.#clock());
    // Nobody is preempted while a flight is under way: what lands may end a request and free the pages that are short.
    const isInFlight = !this.#inFlight.isEmpty;
    if (isInFlight && this.#hasDrafted && this.#leavesMany()) return null;
    const admission = this.#admission;
    if (!admission.secure(step, isInFlight, this.#policy()) || !admission.admitUrgent(step, isInFlight)) return null;
    if (!this.#policy().admit(step, isInFlight)) return null;
    if (this.#alternating === null) this.#mix();
    else this.#alternating.fill(this.#inOrder, this.#policy(), this.#placeLateDecodes);
    if (step.numRows === 0) return null;
    this.#builder.number++;
    this.#inFlight.add(step);
    return step;
  }

  /**
   * Gives rows of the step just scheduled guesses to try, in what is left of its budget and of the pages: drafts are short, never rows. The
   * pages come back when the step has landed.
   */
  draft(step: Step, drafter: Drafter): void {
    this.#worth.begin(step.numTokens, this.#costs.stepTokens, this.#costs.tokenMs);
    let left = this.#builder.left;
    for (let r = 0; r < step.numRows && left > 0; r++) {
      const request = step.rows[r]!;
      if (request.maxDrafts === 0 || request.runsAhead || !isDecoded(request, step.starts[r]!)) continue;
      const most = Math.min(request.maxDrafts, MAX_RUN - 1, left, request.maxLength - request.numTokens - 1);
      if (most <= 0) continue;
      request.reserveDrafts(most);
      request.numDrafted = drafter.propose(request, most, this.#worth);
      if (drafter.isDeferred?.(request)) this.#fitDrafts(request);
      left -= request.numDrafted;
      if (request.numDrafted > 0 && !drafter.isDeferred?.(request))
        request.readiness?.foresee?.(request.tokens, request.numTokens, request.numDrafted);
    }
    if (drafter.finish !== undefined) this.#finishDrafts(step, drafter);
    // Masks of grammars have been made for all rows meanwhile.
    for (let r = 0; r < step.numRows; r++) if (step.rows[r]!.numDrafted > 0) this.#addDrafts(r);
  }

  /**
   * More than an eighth of the rows have guesses in flight, and would sit the step out: without them it gives fewer tokens than its overlap with
   * the flight ahead saves.
   */
  #leavesMany(): boolean {
    const { running } = this.#admission;
    let count = 0;
    for (let i = 0; i < running.size; i++) {
      const { maxDrafts, runsAhead, numInFlight, numComputed, numTokens } = running.at(i);
      if (maxDrafts > 0 && !runsAhead && numInFlight > 0 && numComputed >= numTokens) count++;
    }
    return 8 * count > running.size;
  }

  #addDrafts(row: number): void {
    const request = this.#builder.step.rows[row]!;
    let count = request.numDrafted;
    if (request.readiness !== null) count = Math.min(count, request.readiness.numForeseen?.() ?? 0);
    request.numDrafted = count;
    this.#fitDrafts(request);
    count = request.numDrafted;
    request.numDrafted = 0;
    if (count > 0) this.#builder.addDrafts(row, count);
  }

  /** As many as there are pages for. */
  #fitDrafts(request: Request): void {
    while (request.numDrafted > 0 && !this.#cache.tryReserve(request, request.numTokens + request.numDrafted))
      request.numDrafted--;
  }

  #finishDrafts(step: Step, drafter: Drafter): void {
    drafter.finish!(step);
    step.scheduledMs = this.#clock(); // what guessing took is not the step's
    for (let r = 0; r < step.numRows; r++) {
      const request = step.rows[r]!;
      if (request.numDrafted > 0 && drafter.isDeferred!(request))
        request.readiness?.foresee?.(request.tokens, request.numTokens, request.numDrafted);
    }
  }

  /** Its flight has given the request a run: what it took for drafts that were rejected is free again. */
  undraft(request: Request): void {
    this.#cache.trim(request);
  }

  /** The step's K and V are in their pages: full ones are published, those of requests that ended meanwhile come back. */
  land(step: Step): void {
    this.#inFlight.retire(step);
    const landedMs = this.#clock();
    // The device begins a step once the one before it has landed.
    this.#costs.observe(step.numTokens, landedMs - Math.max(step.scheduledMs, this.#lastLandedMs));
    this.#lastLandedMs = landedMs;
    this.#admission.land(step, true);
  }

  /** The step failed: what it wrote is never published. Its requests are the caller's to fail. */
  crash(step: Step): void {
    this.#inFlight.retire(step);
    this.#admission.land(step, false);
  }

  /** Ends a request and gives its pages back; what it computed stays cached. A finished request stays as it is. */
  finish(request: Request, reason: FinishReason): void {
    this.#admission.end(request, reason);
  }

  /** At any moment; null when the id is unknown or already finished. */
  abort(id: RequestId): Request | null {
    const request = this.#admission.get(id);
    if (request === undefined) return null;
    this.#admission.end(request, "abort");
    return request;
  }

  /** Ends a request whose step failed: what that step wrote is never published. */
  fail(request: Request): void {
    this.#admission.end(request, "error");
  }

  /**
   * The child, a new request whose tokens begin like the parent's, joins the running ones with the parent's pages. The engine carries
   * out the copy before the next step. null: there is no page or row for it now; it waits like any other and finds the
   * shared prefix in the directory.
   */
  fork(parent: Request, child: Request): PageCopy | null {
    const copy = this.#admission.fork(parent, child);
    child.lastServedStep = this.#builder.number - 1;
    return copy;
  }

  /** Requests schedule() had to end since the last call: they need more pages than the pool has. Their finishReason is set. */
  takeRefused(): readonly Request[] {
    return this.#admission.takeRefused();
  }

  #policy(): SharePolicy {
    return this.#admission.clients.size > 1 ? this.#fair : this.#inOrder;
  }

  /** Decodes first, for each has a reader waiting; but a prompt they shut out comes before them in the next step. */
  #mix(): void {
    const reserved = this.#owesPrompt ? this.#pageSize : 0;
    const policy = this.#policy();
    policy.placeDecodes(reserved);
    this.#builder.firstChunkRow = this.#builder.step.numRows;
    this.#owesPrompt = policy.placeChunks();
    if (reserved > 0) this.#placeLateDecodes(); // in what a prompt was to have and did not use
  }

  /** After the prompts. One of them may have found all but its last token in the cache just now, and lack that one's page in a window group. */
  readonly #placeLateDecodes = (): void => {
    const builder = this.#builder;
    const { running } = this.#admission;
    for (let i = 0; i < running.size && builder.left > 0; i++) {
      const request = running.at(i);
      if (!isDecode(request) || builder.has(request) || !canSample(request)) continue;
      if (this.#cache.tryReserve(request, request.numTokensWithPending)) builder.placeDecode(request, 0);
    }
  };
}
