// Chooses what the next step computes. No phases: every request catches up from numComputed to numTokens. Pure bookkeeping on
// integers: no device, no I/O, the clock is passed in. docs/scheduler.md states the rules and why they starve nobody.

import type { CacheManager, PageCopy } from "../cache/cache-manager.js";
import { haveSamePage } from "../cache/request-pages.js";
import { errorFor } from "../core/errors.js";
import type { RequestId } from "../core/ids.js";
import { alignDown } from "../core/math.js";
import type { FinishReason, Request } from "../core/request.js";
import { DecodeTurns } from "./decode-turns.js";
import { FairOrder } from "./fair-order.js";
import { forksAt, hasWaitedLonger, isDecode, isPrefill } from "./progress.js";
import { Roster } from "./roster.js";
import { Step } from "./step.js";
import { StepPace } from "./step-pace.js";

export type { Step } from "./step.js";

export interface SchedulerOptions {
  /** extend: chunks and decodes share a step. chunked: fixed chunks, never in one step with decodes. */
  readonly mode: "extend" | "chunked";
  /** Tokens per page. */
  readonly pageSize: number;
  /** Budget of a step = pageSize * maxPagesPerBatch tokens, its only limit. */
  readonly maxPagesPerBatch: number;
  /** Longest chunk of a request in one step, in tokens; rounded down to pages. */
  readonly idealChunk: number;
  /** The same for the chunked mode; idealChunk when absent. */
  readonly fixedChunk?: number;
  /** How long a step should take, in milliseconds, while several clients are served: prompts' chunks are cut to it. 0, the default: any. */
  readonly targetStepMs?: number;
}

/** The longest chunk of a step: a multiple of the page size within the budget. */
export function chunkOf(options: SchedulerOptions): number {
  const { mode, pageSize, maxPagesPerBatch, idealChunk, fixedChunk = idealChunk } = options;
  const chunk = Math.min(mode === "chunked" ? fixedChunk : idealChunk, pageSize * maxPagesPerBatch);
  return Math.max(pageSize, alignDown(chunk, pageSize));
}

export class Scheduler {
  readonly budget: number;
  readonly #mode: "extend" | "chunked";
  readonly #pageSize: number; // P
  readonly #chunk: number; // multiple of P, at most the budget
  readonly #cache: CacheManager;
  readonly #roster: Roster;
  readonly #clock: () => number;
  readonly #order: FairOrder;
  readonly #decodeTurns: DecodeTurns;
  readonly #pace: StepPace;
  #lastLandedMs = 0;
  readonly #ownStep: Step;
  /** The step being made. */
  #step: Step;
  /** Scheduled and not landed, oldest first. */
  readonly #inAir: Step[] = []; // the first #numInAir: an array that is emptied gives its room back, and filling it allocates
  #numInAir = 0;
  /** Of the step being made, or the next one. */
  #stepNumber = 1;
  #nowMs = 0;
  /** Rows of the step being made from here on are chunks. */
  #firstChunkRow = 0;
  /** Budget left in the step being made. */
  #left = 0;
  /** The prompt whose turn it was got nothing in the last step, for decodes had used up the budget. */
  #owesPrompt = false;
  /** chunked mode: the last step was a prefill. */
  #isDecodeTurn = false;

  constructor(options: SchedulerOptions, cache: CacheManager, clock: () => number) {
    const { mode, pageSize, maxPagesPerBatch, idealChunk, fixedChunk = idealChunk } = options;
    requireCount("maxPagesPerBatch", maxPagesPerBatch);
    requireCount("idealChunk", idealChunk);
    requireCount("fixedChunk", fixedChunk);
    if (pageSize !== cache.pageSize) {
      throw errorFor("invalid_option", {
        param: "pageSize",
        value: pageSize,
        expected: `the cache's ${cache.pageSize}`,
      });
    }
    this.budget = pageSize * maxPagesPerBatch;
    this.#mode = mode;
    this.#pageSize = pageSize;
    this.#chunk = chunkOf(options);
    this.#cache = cache;
    // Every running request may need a row in the same step, and a row costs at least one token.
    this.#roster = new Roster(this.budget, cache, clock);
    this.#clock = clock;
    this.#order = new FairOrder(this.#roster.clients, maxPagesPerBatch);
    this.#decodeTurns = new DecodeTurns(this.#roster.clients);
    this.#pace = new StepPace(options.targetStepMs ?? 0);
    this.#ownStep = this.createStep();
    this.#step = this.#ownStep;
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
    this.#roster.add(request);
    // As if served by the last step: a newcomer is behind the prompts that step left out, and ahead of none.
    request.lastServedStep = this.#stepNumber - 1;
  }

  /**
   * The next step, or null when nothing can run before a step in the air has landed. The rows' numComputed already counts the
   * step's tokens. Every step is landed once, in the order of scheduling.
   */
  schedule(step: Step = this.#ownStep): Step | null {
    if (step.isInAir) throw new Error("the step is still in the air");
    step.clear();
    this.#step = step;
    this.#cache.states?.after.clear(); // of a step that failed before it could copy them
    this.#left = this.budget;
    this.#nowMs = this.#clock();
    // Nobody is preempted while a flight is in the air: what lands may end a request and free the pages that are short.
    const isInAir = this.#numInAir > 0;
    if (!this.#roster.secure(step, isInAir) || !this.#roster.admitUrgent(step, isInAir)) return null;
    if (this.#mode === "extend") this.#mix();
    else this.#takeTurns();
    if (step.numRows === 0) return null;
    this.#stepNumber++;
    step.isInAir = true;
    step.scheduledMs = this.#nowMs;
    this.#inAir[this.#numInAir++] = step;
    return step;
  }

  /** The step's K and V are in their pages: full ones are published, those of requests that ended meanwhile come back. */
  land(step: Step): void {
    this.#takeDown(step);
    const landedMs = this.#clock();
    // The device begins a step once the one before it has landed.
    this.#pace.observe(step.numTokens, landedMs - Math.max(step.scheduledMs, this.#lastLandedMs));
    this.#lastLandedMs = landedMs;
    this.#roster.land(step, true);
  }

  /** The step failed: what it wrote is never published. Its requests are the caller's to fail. */
  crash(step: Step): void {
    this.#takeDown(step);
    this.#roster.land(step, false);
  }

  #takeDown(step: Step): void {
    if (this.#numInAir === 0 || this.#inAir[0] !== step)
      throw new Error("steps land in the order they were scheduled in");
    this.#inAir.copyWithin(0, 1, this.#numInAir--);
    step.isInAir = false;
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
    child.lastServedStep = this.#stepNumber - 1;
    return copy;
  }

  /** Requests schedule() had to end since the last call: they need more pages than the pool has. Their finishReason is set. */
  takeRefused(): readonly Request[] {
    return this.#roster.takeRefused();
  }

  /** extend mode. Decodes first, for each has a reader waiting; but a prompt they shut out comes before them in the next step. */
  #mix(): void {
    const reserved = this.#owesPrompt ? this.#pageSize : 0;
    if (this.#roster.clients.size > 1) this.#shareDecodes(reserved);
    else this.#placeDecodes(reserved);
    this.#placeChunks();
    if (reserved > 0) this.#placeDecodes(0); // what a prompt was to have and did not use
  }

  /** chunked mode. Prefill and decode steps take turns while there is work for both. */
  #takeTurns(): void {
    const step = this.#step;
    if (this.#isDecodeTurn) this.#placeDecodes(0);
    this.#isDecodeTurn = false;
    if (step.numRows > 0) return;
    this.#placeChunks();
    if (step.numRows > 0) this.#isDecodeTurn = true;
    else this.#placeDecodes(0);
  }

  #placeDecodes(reserved: number): void {
    const { running } = this.#roster;
    for (let i = 0; i < running.size && this.#left > reserved; i++) {
      const request = running.at(i);
      if (isDecode(request) && request.lastServedStep !== this.#stepNumber && isReady(request))
        this.#place(request, 1, 1);
    }
  }

  /** Several clients: where decodes take more than half of a step of the target's length, clients share them. */
  #shareDecodes(reserved: number): void {
    const { targetDecodes, stepTokens } = this.#pace;
    const decodes = this.#decodeTurns.arrange(this.#roster.running, targetDecodes, stepTokens);
    for (let i = 0; i < decodes.length && this.#left > reserved; i++) this.#place(decodes[i]!, 1, 1);
  }

  #placeChunks(): void {
    this.#firstChunkRow = this.#step.numRows;
    this.#owesPrompt = false;
    if (this.#roster.clients.size > 1) this.#shareChunks();
    else this.#placeInOrder();
  }

  /**
   * Several clients: each prompt in its client's turn, and all together no longer than a step of the target's length computes. That is
   * parted among the clients; what one does not need is for those after it. Who waits may be admitted before another
   * client's earlier request, but nobody after one for which pages are short.
   */
  #shareChunks(): void {
    const { running, waiting } = this.#roster;
    const target = this.#mode === "extend" ? this.#targetTokens() : this.budget;
    const order = this.#order.arrange(running, waiting, Math.min(this.#chunk, target));
    const first = order[0];
    if (first === undefined) return;
    const kept = Math.max(0, this.#left - Math.max(this.#leastBudget(first), target));
    this.#left -= kept;
    let canAdmit = true;
    for (let i = 0, numClients = this.#order.numClients; i < order.length && this.#left > 0; i++) {
      const request = order[i]!;
      const isFirstOfClient = request.share!.first === request;
      const most = this.#portion(numClients + (isFirstOfClient ? 0 : 1));
      if (isFirstOfClient) numClients--;
      const isWaiting = request.state === "waiting";
      if (isWaiting && this.#roster.refuseImpossible(request)) continue;
      const isServed = isWaiting ? canAdmit && this.#admit(request, most) : this.#placeChunk(request, most);
      if (isWaiting && !isServed) canAdmit = false;
      if (i === 0) this.#owesPrompt = !isServed && this.#isShortOfBudget(first);
    }
    this.#left += kept;
  }

  /** Prompt tokens that keep the step short; a quarter of a chunk at least: in shorter ones the step itself would cost too much. */
  #targetTokens(): number {
    const least = Math.max(this.#pageSize, alignDown(this.#chunk / 4, this.#pageSize));
    return Math.max(least, this.#pace.targetTokens - this.#step.numTokens);
  }

  /** Tokens for one of so many that share what is left. */
  #portion(count: number): number {
    return Math.min(this.#chunk, Math.max(this.#pageSize, Math.floor(this.#left / count)));
  }

  /**
   * The first chunk goes to the prompt that has waited longest for one, so each has its turn; the others go by order of arrival,
   * so early prompts finish early. Waiting requests are admitted while budget and pages last, none overtaking another.
   */
  #placeInOrder(): void {
    const { running } = this.#roster;
    const first = this.#longestUnserved();
    if (first === null) return;
    const isWaiting = first.state === "waiting";
    const isServed = isWaiting ? this.#admitNext() : this.#placeChunk(first);
    let canAdmit = isServed || !isWaiting;
    this.#owesPrompt = !isServed && this.#isShortOfBudget(first);
    for (let i = 0; i < running.size; i++) {
      const request = running.at(i);
      if (isPrefill(request) && request.lastServedStep !== this.#stepNumber) this.#placeChunk(request);
    }
    while (canAdmit) canAdmit = this.#admitNext();
  }

  /** And not of pages: without decodes in this step it would have been served. */
  #isShortOfBudget(request: Request): boolean {
    return this.#left < this.#leastBudget(request);
  }

  #longestUnserved(): Request | null {
    const { running } = this.#roster;
    let best: Request | null = null;
    for (let i = 0; i < running.size; i++) {
      const request = running.at(i);
      if (isPrefill(request) && (best === null || hasWaitedLonger(request, best))) best = request;
    }
    const head = this.#roster.nextWaiting();
    return head !== undefined && (best === null || hasWaitedLonger(head, best)) ? head : best;
  }

  #admitNext(): boolean {
    const head = this.#roster.nextWaiting();
    return head !== undefined && this.#admit(head);
  }

  /** Admits a waiting request and gives it its first chunk; false when it must go on waiting. */
  #admit(request: Request, most = this.#chunk): boolean {
    if (this.#isShortOfBudget(request) || !this.#roster.tryAdmit(request)) return false;
    this.#placeChunk(request, most);
    return true;
  }

  /** `most`: the tokens it may get, a page at least. */
  #placeChunk(request: Request, most = this.#chunk): boolean {
    const gained = this.#cache.advance(request);
    if (request.numPreemptions === 0) request.numCached += gained;
    // A preempted request may have found everything but its last token in the directory: in chunked mode that waits for its turn.
    if (this.#mode === "chunked" && isDecode(request)) return false;
    if (this.#isShortOfBudget(request) || this.#isUnderWay(request) || !isReady(request)) return false;
    // What it took over, now or when it was tried before in this step, may have brought it to the end of its pages in a window group.
    if (!this.#cache.tryReserve(request, request.numTokens)) return false;
    const start = request.numComputed;
    const remaining = request.numTokens - start;
    let queryLen = request.isWhole ? remaining : Math.min(remaining, most, this.#left);
    // Only the last chunk of a prompt may end inside a page.
    if (queryLen < remaining) queryLen = alignDown(start + queryLen, this.#pageSize) - start;
    else if (this.#cache.states?.isSharing === true) queryLen = this.#endWithPage(start, remaining);
    if (queryLen > 1 || start < request.promptLen) request.numChunks++;
    // A fixed chunk costs its full size, as the padded kernel arguments of that mode do; a first token of a further sample costs as
    // much as a decode, so that no step draws more tokens than it may, but for those of its last prompt.
    const cost = this.#mode === "chunked" ? Math.max(this.#chunk, queryLen) : queryLen;
    this.#place(request, queryLen, cost + forksAt(request, start + queryLen));
    return true;
  }

  /**
   * The last chunk where states are cached: they can be resumed at the ends of chunks alone, so the prompt's last whole page ends one,
   * and what is left of the prompt is a short chunk of its own.
   */
  #endWithPage(start: number, remaining: number): number {
    const whole = alignDown(start + remaining, this.#pageSize) - start;
    return whole > 0 ? whole : remaining;
  }

  /** An earlier row of this step or a row in the air computes the request's next page: once landed it can be taken over for nothing. */
  #isUnderWay(request: Request): boolean {
    if (!this.#cache.isSharing || !request.readsCache || request.numInFlight > 0) return false;
    for (let i = 0; i < this.#numInAir; i++) if (this.#isComputedBy(this.#inAir[i]!, 0, request)) return true;
    return this.#isComputedBy(this.#step, this.#firstChunkRow, request);
  }

  #isComputedBy(step: Step, firstRow: number, request: Request): boolean {
    for (let r = firstRow; r < step.numRows; r++) {
      const isWholePage = step.queryLens[r]! >= this.#pageSize;
      if (
        isWholePage &&
        step.starts[r] === request.numComputed &&
        step.rows[r]!.state === "running" &&
        sharesNextPage(request, step.rows[r]!, this.#pageSize)
      ) {
        return true;
      }
    }
    return false;
  }

  /** The smallest budget in which the request can get a chunk. */
  #leastBudget(request: Request): number {
    const remaining = request.numTokens - request.numComputed;
    const least = request.isWhole ? remaining : Math.min(this.#pageSize, remaining);
    return this.#mode === "chunked" ? Math.max(this.#chunk, least) : least;
  }

  #place(request: Request, queryLen: number, cost: number): void {
    this.#roster.clients.charge(request, queryLen);
    this.#step.addRow(request, queryLen);
    this.#left -= cost;
    request.numComputed += queryLen;
    request.numInFlight += queryLen;
    if (request.runsAhead && request.numComputed === request.numExpected) request.numPromised++;
    this.#cache.states?.snapshot(request);
    request.numSteps++;
    request.lastServedStep = this.#stepNumber;
    if (request.firstScheduledMs < 0) request.firstScheduledMs = this.#nowMs;
  }
}

function isReady({ readiness }: Request): boolean {
  return readiness === null || readiness.isReady();
}

/** The page from a.numComputed on is the same for both and whole, with at least one token of `a` after it. */
function sharesNextPage(a: Request, b: Request, pageSize: number): boolean {
  const start = a.numComputed;
  return a.numTokens > start + pageSize && haveSamePage(a, b, start / pageSize, pageSize);
}

function requireCount(param: string, value: number): void {
  if (Number.isSafeInteger(value) && value >= 1) return;
  throw errorFor("invalid_option", { param, value, expected: "an integer of at least 1" });
}
