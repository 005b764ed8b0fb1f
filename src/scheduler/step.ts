// A step from its making to its landing: what it computes, how rows are placed in it, and those that are in flight.

import type { CacheManager } from "../cache/cache-manager.js";
import { haveSamePage } from "../cache/request-pages.js";
import { alignDown } from "../core/math.js";
import type { Request } from "../core/request.js";

/** Rows of (request, start, queryLen). Reused: valid until it is scheduled again. */
export class Step {
  /** Scheduled, and not landed yet. */
  isInFlight = false;
  scheduledMs = 0;
  numRows = 0;
  /** Sum of queryLens. */
  numTokens = 0;
  readonly rows: Request[] = []; // [numRows]
  readonly starts: Int32Array; // [numRows] first position computed: the tokens before it are in the cache
  readonly queryLens: Int32Array; // [numRows] tokens computed; the context is start + queryLen

  /** Requests that lost their pages in this step and wait again. */
  numPreempted = 0;
  readonly preempted: Request[] = []; // [numPreempted]

  /** A row has at least one token, so maxTokens bounds the rows too. */
  constructor(maxTokens: number) {
    this.starts = new Int32Array(maxTokens);
    this.queryLens = new Int32Array(maxTokens);
  }

  clear(): void {
    this.numRows = 0;
    this.numTokens = 0;
    this.numPreempted = 0;
  }

  /** One past the last position that row `row` computes. */
  endOf(row: number): number {
    return this.starts[row]! + this.queryLens[row]!;
  }

  /** Row `row` computes `count` tokens more. */
  extendRow(row: number, count: number): void {
    this.queryLens[row]! += count;
    this.numTokens += count;
  }

  addRow(request: Request, queryLen: number): void {
    const row = this.numRows++;
    this.rows[row] = request;
    this.starts[row] = request.numComputed;
    this.queryLens[row] = queryLen;
    this.numTokens += queryLen;
  }
}

/** The step being made: rows are placed in it until its budget is used up. */
export class StepBuilder {
  readonly budget: number;
  readonly #cache: CacheManager;
  step: Step;
  /** Of the step being made, or the next one. */
  number = 1;
  /** Budget that is left. */
  left = 0;
  /** Rows from here on are chunks. */
  firstChunkRow = 0;
  #nowMs = 0;

  constructor(step: Step, budget: number, cache: CacheManager) {
    this.step = step;
    this.budget = budget;
    this.#cache = cache;
  }

  begin(step: Step, nowMs: number): void {
    step.clear();
    step.scheduledMs = nowMs;
    this.step = step;
    this.left = this.budget;
    this.#nowMs = nowMs;
    this.#cache.states?.after.clear(); // of a step that failed before it could copy them
  }

  has(request: Request): boolean {
    return request.lastServedStep === this.number;
  }

  /** One token, behind those that are computed once more; `kept` of the budget is for others. */
  placeDecode(request: Request, kept: number): void {
    const queryLen = Math.min(1 + request.numRewound, this.left - kept);
    this.place(request, queryLen, queryLen);
  }

  place(request: Request, queryLen: number, cost: number): void {
    const isRewound = request.numRewound > 0;
    this.step.addRow(request, queryLen);
    this.left -= cost;
    request.numComputed += queryLen;
    request.numInFlight += queryLen;
    request.numRewound = Math.max(0, request.numRewound - queryLen);
    if (request.runsAhead && request.numComputed === request.numTokensWithPending) request.numPending++;
    if (this.#cache.states !== null) {
      if (isRewound) this.#stopAtPage(request, queryLen);
      this.#cache.states.snapshot(request, Math.min(request.numComputed, request.stateEnd));
    }
    const isFirst = request.numSteps++ === 0;
    request.lastServedStep = this.number;
    if (isFirst && request.firstScheduledMs < 0) request.firstScheduledMs = this.#nowMs;
  }

  /** Row `row` tries `count` guesses beside its token, in budget and pages that no row needs. */
  addDrafts(row: number, count: number): void {
    const request = this.step.rows[row]!;
    if (this.#cache.states !== null) request.stateEnd = Math.min(request.stateEnd, request.numComputed);
    this.step.extendRow(row, count);
    this.left -= count;
    request.numDrafted = count;
    request.numComputed += count;
    request.numInFlight += count;
  }

  /** A row that passes the end of a page leaves the states there, for a snapshot: without guesses there would be one, too. */
  #stopAtPage(request: Request, queryLen: number): void {
    const { numComputed, numTokens, runsAhead } = request;
    const end = alignDown(numComputed, this.#cache.pageSize);
    const isLast = numComputed === numTokens && !runsAhead;
    if (isLast && this.#cache.isSharing && end > numComputed - queryLen) request.stateEnd = end;
  }
}

/**
 * Steps that are scheduled and have not landed, oldest first: they land in that order. Of requests whose next page is the same the first
 * computes it; the others wait until its step has landed and share it.
 */
export class InFlightSteps {
  readonly #steps: Step[] = []; // the first #count: an array that is emptied gives its room back, and filling it allocates
  #count = 0;

  get isEmpty(): boolean {
    return this.#count === 0;
  }

  add(step: Step): void {
    step.isInFlight = true;
    this.#steps[this.#count++] = step;
  }

  retire(step: Step): void {
    if (this.#count === 0 || this.#steps[0] !== step) throw new Error("steps land in the order they were scheduled in");
    this.#steps.copyWithin(0, 1, this.#count--);
    step.isInFlight = false;
  }

  /** One of them computes the request's next page. */
  computeNextPage(request: Request, pageSize: number): boolean {
    for (let i = 0; i < this.#count; i++) if (computesNextPage(this.#steps[i]!, 0, request, pageSize)) return true;
    return false;
  }
}

/** A row of the step, from `firstRow` on, computes the request's next page. */
export function computesNextPage(step: Step, firstRow: number, request: Request, pageSize: number): boolean {
  for (let r = firstRow; r < step.numRows; r++) {
    const isWholePage = step.queryLens[r]! >= pageSize;
    if (
      isWholePage &&
      step.starts[r] === request.numComputed &&
      step.rows[r]!.state === "running" &&
      sharesNextPage(request, step.rows[r]!, pageSize)
    ) {
      return true;
    }
  }
  return false;
}

/** The page from a.numComputed on is the same for both and whole, with at least one token of `a` after it. */
function sharesNextPage(a: Request, b: Request, pageSize: number): boolean {
  const start = a.numComputed;
  const end = start + pageSize;
  // What is only pending for b, or a guess, has no identity yet.
  return a.numTokens > end && b.numTokens >= end && haveSamePage(a, b, start / pageSize, pageSize);
}
