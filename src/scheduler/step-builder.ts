// The step being made: rows are placed in it until its budget is used up.

import type { CacheManager } from "../cache/cache-manager.js";
import { alignDown } from "../core/math.js";
import type { Request } from "../core/request.js";
import type { Step } from "./step.js";

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
    request.numSteps++;
    request.lastServedStep = this.number;
    if (request.firstScheduledMs < 0) request.firstScheduledMs = this.#nowMs;
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
