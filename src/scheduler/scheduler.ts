// Chooses what the next step computes. No phases: every request catches up from numComputed to numTokens. Pure bookkeeping on
// integers: no device, no I/O, the clock is passed in. docs/scheduler.md states the rules and why they starve nobody.
//
//   roster.ts        who waits, runs, is over: admission and preemption, by pages;  page-shares.ts  of several clients
//   decode-turns.ts  which decodes, where several clients have more than a step should
//   prompt-turns.ts  which prompts get chunks;  chunk-cutter.ts  how long each is
//   open-step.ts     the step being made;       steps-in-air.ts  those that have not landed

import type { CacheManager, PageCopy } from "../cache/cache-manager.js";
import { errorFor } from "../core/errors.js";
import type { RequestId } from "../core/ids.js";
import type { FinishReason, Request } from "../core/request.js";
import { type Drafter, MAX_RUN } from "../drafter/drafter.js";
import { StepWorth } from "../drafter/step-worth.js";
import { ChunkCutter } from "./chunk-cutter.js";
import { longestUncut } from "./chunk-ends.js";
import { DecodeTurns } from "./decode-turns.js";
import { OpenStep } from "./open-step.js";
import { checkOptions, chunkOf, type SchedulerOptions } from "./options.js";
import { isDecode, isDecoded, isReady } from "./progress.js";
import { PromptTurns } from "./prompt-turns.js";
import { Roster } from "./roster.js";
import { Step } from "./step.js";
import { StepPace } from "./step-pace.js";
import { StepsInAir } from "./steps-in-air.js";

export { chunkOf, type SchedulerOptions } from "./options.js";
export type { Step } from "./step.js";

export class Scheduler {
  readonly budget: number;
  readonly #mode: "extend" | "chunked";
  readonly #pageSize: number; // P
  readonly #longestChunk: number;
  readonly #cache: CacheManager;
  readonly #clock: () => number;
  readonly #roster: Roster;
  readonly #pace: StepPace;
  readonly #ownStep: Step;
  readonly #open: OpenStep;
  readonly #inAir = new StepsInAir();
  readonly #decodeTurns: DecodeTurns;
  readonly #promptTurns: PromptTurns;
  readonly #worth = new StepWorth();
  #lastLandedMs = 0;
  /** chunked mode: the last step was a prefill. */
  #isDecodeTurn = false;

  constructor(options: SchedulerOptions, cache: CacheManager, clock: () => number) {
    checkOptions(options, cache.pageSize);
    const { mode, pageSize, maxPagesPerBatch, targetStepMs = 0 } = options;
    this.budget = pageSize * maxPagesPerBatch;
    this.#mode = mode;
    this.#pageSize = pageSize;
    this.#cache = cache;
    this.#clock = clock;
    // Every running request may need a row in the same step, and a row costs at least one token.
    this.#roster = new Roster(this.budget, cache, clock);
    this.#pace = new StepPace(targetStepMs);
    this.#ownStep = this.createStep();
    this.#open = new OpenStep(this.#ownStep, this.budget, cache);
    this.#decodeTurns = new DecodeTurns(this.#roster.clients);
    this.#longestChunk = chunkOf(options);
    const cutter = new ChunkCutter(this.#longestChunk, mode === "chunked", cache, this.#open, this.#inAir);
    const pace = mode === "extend" ? this.#pace : null;
    this.#promptTurns = new PromptTurns(this.#roster, this.#open, cutter, pageSize, pace);
  }

  /** Callers with several steps in the air bring their own. */
  createStep(): Step {
    return new Step(this.budget);
  }

  get numWaiting(): number {
    return this.#roster.waiting.size;
  }

  get numRunning(): number {
    return this.#roster.running.size;
  }

  running(): Iterable<Request> {
    return this.#roster.running;
  }

  waiting(): Iterable<Request> {
    return this.#roster.waiting;
  }

  get(id: RequestId): Request | undefined {
    return this.#roster.get(id);
  }

  add(request: Request): void {
    if (request.numTokens === 0) throw errorFor("empty_prompt");
    if (request.media.length > 0) this.#checkMedia(request);
    this.#roster.add(request);
    // As if served by the last step: a newcomer is behind the prompts that step left out, and ahead of none.
    request.lastServedStep = this.#open.number - 1;
  }

  /** A chunk that may not be cut must fit into one. */
  #checkMedia(request: Request): void {
    const value = longestUncut(request, this.#pageSize);
    if (value <= this.#longestChunk) return;
    const expected = `at most ${this.#longestChunk} tokens between page boundaries outside them: media this long need a larger idealChunk`;
    throw errorFor("invalid_value", { param: "media", value, expected });
  }

  /**
   * The next step, or null when nothing can run before a step in the air has landed. The rows' numComputed already counts the
   * step's tokens. Every step is landed once, in the order of scheduling.
   */
  schedule(step: Step = this.#ownStep): Step | null {
    if (step.isInAir) throw new Error("the step is still in the air");
    this.#open.begin(step, this.#clock());
    // Nobody is preempted while a flight is in the air: what lands may end a request and free the pages that are short.
    const isInAir = !this.#inAir.isEmpty;
    const roster = this.#roster;
    if (!roster.secure(step, isInAir) || !roster.admitUrgent(step, isInAir) || !roster.admitFair(step, isInAir))
      return null;
    if (this.#mode === "extend") this.#mix();
    else this.#takeTurns();
    if (step.numRows === 0) return null;
    this.#open.number++;
    this.#inAir.add(step);
    return step;
  }

  /**
   * Gives rows of the step just scheduled guesses to try, in what is left of its budget and of the pages: drafts are short, never rows. The
   * pages come back when the step has landed.
   */
  draft(step: Step, drafter: Drafter): void {
    this.#worth.begin(step.numTokens, this.#pace.stepTokens);
    for (let r = 0; r < step.numRows && this.#open.left > 0; r++) {
      const request = step.rows[r]!;
      if (request.maxDrafts === 0 || request.runsAhead || !isDecoded(request, step.starts[r]!)) continue;
      const most = Math.min(request.maxDrafts, MAX_RUN - 1, this.#open.left, request.maxLength - request.numTokens - 1);
      if (most <= 0) continue;
      request.reserveDrafts(most);
      let count = drafter.propose(request, most, this.#worth);
      while (count > 0 && !this.#cache.tryReserve(request, request.numTokens + count)) count--;
      if (count > 0) this.#open.addDrafts(r, count);
    }
  }

  /** Its flight has given the request a run: what it took for drafts that were rejected is free again. */
  undraft(request: Request): void {
    this.#cache.trim(request);
  }

  /** The step's K and V are in their pages: full ones are published, those of requests that ended meanwhile come back. */
  land(step: Step): void {
    this.#inAir.takeDown(step);
    const landedMs = this.#clock();
    // The device begins a step once the one before it has landed.
    this.#pace.observe(step.numTokens, landedMs - Math.max(step.scheduledMs, this.#lastLandedMs));
    this.#lastLandedMs = landedMs;
    this.#roster.land(step, true);
  }

  /** The step failed: what it wrote is never published. Its requests are the caller's to fail. */
  crash(step: Step): void {
    this.#inAir.takeDown(step);
    this.#roster.land(step, false);
  }

  /** Ends a request and gives its pages back; what it computed stays cached. A finished request stays as it is. */
  finish(request: Request, reason: FinishReason): void {
    this.#roster.end(request, reason);
  }

  /** At any moment; null when the id is unknown or already finished. */
  abort(id: RequestId): Request | null {
    const request = this.#roster.get(id);
    if (request === undefined) return null;
    this.#roster.end(request, "abort");
    return request;
  }

  /** Ends a request whose step failed: what that step wrote is never published. */
  fail(request: Request): void {
    this.#roster.end(request, "error");
  }

  /**
   * The child, a new request whose tokens begin like the parent's, joins the running ones with the parent's pages. The engine carries
   * out the copy before the next step. null: there is no page or row for it now; it waits like any other and finds the
   * shared prefix in the directory.
   */
  fork(parent: Request, child: Request): PageCopy | null {
    const copy = this.#roster.fork(parent, child);
    child.lastServedStep = this.#open.number - 1;
    return copy;
  }

  /** Requests schedule() had to end since the last call: they need more pages than the pool has. Their finishReason is set. */
  takeRefused(): readonly Request[] {
    return this.#roster.takeRefused();
  }

  /** extend mode. Decodes first, for each has a reader waiting; but a prompt they shut out comes before them in the next step. */
  #mix(): void {
    const reserved = this.#promptTurns.owesPrompt ? this.#pageSize : 0;
    if (this.#roster.clients.size > 1) this.#shareDecodes(reserved);
    else this.#placeDecodes(reserved);
    this.#promptTurns.placeChunks();
    if (reserved > 0) this.#placeLateDecodes(); // in what a prompt was to have and did not use
  }

  /** chunked mode. Prefill and decode steps take turns while there is work for both. */
  #takeTurns(): void {
    const { step } = this.#open;
    if (this.#isDecodeTurn) this.#placeDecodes(0);
    this.#isDecodeTurn = false;
    if (step.numRows > 0) return;
    this.#promptTurns.placeChunks();
    if (step.numRows > 0) this.#isDecodeTurn = true;
    else this.#placeLateDecodes();
  }

  #placeDecodes(reserved: number): void {
    const open = this.#open;
    const { running } = this.#roster;
    for (let i = 0; i < running.size && open.left > reserved; i++) {
      const request = running.at(i);
      if (isDecode(request) && !open.has(request) && isReady(request)) open.place(request, 1, 1);
    }
  }

  /** After the prompts. One of them may have found all but its last token in the cache just now, and lack that one's page in a window group. */
  #placeLateDecodes(): void {
    const open = this.#open;
    const { running } = this.#roster;
    for (let i = 0; i < running.size && open.left > 0; i++) {
      const request = running.at(i);
      if (!isDecode(request) || open.has(request) || !isReady(request)) continue;
      if (this.#cache.tryReserve(request, request.numExpected)) open.place(request, 1, 1);
    }
  }

  /** Several clients: where decodes take more than half of a step of the target's length, clients share them. */
  #shareDecodes(reserved: number): void {
    const open = this.#open;
    const { targetDecodes, stepTokens } = this.#pace;
    const turns = this.#decodeTurns;
    turns.arrange(this.#roster.running, targetDecodes, stepTokens);
    for (let i = 0; i < turns.count && open.left > reserved; i++) open.place(turns.at(i), 1, 1);
  }
}
