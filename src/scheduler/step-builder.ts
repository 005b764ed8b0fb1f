// The step being made: rows are placed in it until its budget is used up.

import type { CacheManager } from "../cache/cache-manager.js";
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

  place(request: Request, queryLen: number, cost: number): void {
    this.step.addRow(request, queryLen);
    this.left -= cost;
    request.numComputed += queryLen;
    request.numInFlight += queryLen;
    if (request.runsAhead && request.numComputed === request.numTokensWithPending) request.numPending++;
    this.#cache.states?.snapshot(request);
    request.numSteps++;
    request.lastServedStep = this.number;
    if (request.firstScheduledMs < 0) request.firstScheduledMs = this.#nowMs;
  }

  /** Row `row` tries `count` guesses beside its token, in budget and pages that no row needs. */
  addDrafts(row: number, count: number): void {
    const request = this.step.rows[row]!;
    this.step.extendRow(row, count);
    this.left -= count;
    request.numDrafted = count;
    request.numComputed += count;
    request.numInFlight += count;
  }
}
