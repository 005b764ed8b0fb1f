// Several clients share the steps: decodes where they are many (decode-policy.ts), prompts by what each client has been served
// (client-shares.ts, fair-order.ts), pages by quota (page-shares.ts).

import type { CacheManager } from "../../cache/cache-manager.js";
import { alignDown } from "../../core/math.js";
import type { Request } from "../../core/request.js";
import type { Admission } from "../admission.js";
import type { ChunkSizer } from "../chunk-sizer.js";
import type { SharePolicy } from "../share-policy.js";
import type { Step, StepBuilder } from "../step.js";
import type { StepCostModel } from "../step-cost-model.js";
import { shareOf } from "./client-shares.js";
import { DecodePolicy } from "./decode-policy.js";
import { FairOrder } from "./fair-order.js";
import { PageShares } from "./page-shares.js";

export class FairShare implements SharePolicy {
  readonly #admission: Admission;
  readonly #builder: StepBuilder;
  readonly #sizer: ChunkSizer;
  readonly #costs: StepCostModel;
  readonly #pageSize: number; // P
  /** Chunks are cut so that steps are as long as their target. */
  readonly #isPaced: boolean;
  readonly #pages: PageShares;
  readonly #decodes: DecodePolicy;
  readonly #order: FairOrder;
  /** In this step somebody whose turn it was could not use the budget that was left. */
  #isPassedOver = false;

  constructor(
    admission: Admission,
    builder: StepBuilder,
    sizer: ChunkSizer,
    cache: CacheManager,
    costs: StepCostModel,
    isPaced: boolean,
  ) {
    const { clients, running, waiting } = admission;
    this.#admission = admission;
    this.#builder = builder;
    this.#sizer = sizer;
    this.#costs = costs;
    this.#isPaced = isPaced;
    this.#pageSize = cache.pageSize;
    this.#pages = new PageShares(clients, running, waiting, cache);
    this.#decodes = new DecodePolicy(clients);
    this.#order = new FairOrder(clients);
  }

  /** The last request of the client furthest above its quota; where nobody is, the last in order. */
  victim(request: Request): Request {
    const last = this.#admission.running.last()!;
    if (request.priority < last.priority) return last;
    this.#pages.measure(request.priority);
    return this.#pages.victim(shareOf(request)) ?? last;
  }

  /** Where pages are short, a client that has none does not wait for those that another has above its quota. */
  admit(step: Step, isInFlight: boolean): boolean {
    const admission = this.#admission;
    const pages = this.#pages;
    if (!admission.isShortOfPages) return true;
    for (let next = pages.nextInLine(); next !== null && !admission.isFull(); next = pages.nextInLine()) {
      while (!admission.admit(next, 0)) {
        const victim = pages.victim(null);
        if (victim === null) return true;
        if (isInFlight) return false;
        admission.preempt(victim, step);
        pages.measure(next.priority);
      }
      pages.countPassed(next);
    }
    admission.isShortOfPages = false;
    return true;
  }

  /** Where decodes take more than half of a step of the target's length, clients share them. */
  placeDecodes(reserved: number): void {
    const builder = this.#builder;
    const { targetDecodes, stepTokens } = this.#costs;
    const decodes = this.#decodes;
    decodes.arrange(this.#admission.running, targetDecodes, stepTokens);
    for (let i = 0; i < decodes.count && builder.left > reserved; i++) builder.placeDecode(decodes.at(i), reserved);
  }

  /**
   * Each prompt in its client's turn, and all together no longer than a step of the target's length computes. Who waits may
   * be admitted before another client's earlier request, but nobody after one for which pages are short.
   */
  placeChunks(): boolean {
    const builder = this.#builder;
    const order = this.#order;
    const { clients, running, waiting } = this.#admission;
    order.arrange(running, waiting);
    const first = order.next;
    if (first === null) {
      clients.reset();
      return false;
    }
    const kept = Math.max(0, builder.left - Math.max(this.#sizer.leastBudget(first), this.#targetTokens()));
    builder.left -= kept;
    this.#isPassedOver = false;
    this.#takeTurn(first);
    const owesPrompt = !builder.has(first) && this.#sizer.isShortOfBudget(first);
    for (let next = order.next; next !== null && builder.left > 0; next = order.next) this.#takeTurn(next);
    order.close();
    clients.endStep(builder.budget);
    builder.left += kept;
    return owesPrompt;
  }

  #takeTurn(request: Request): void {
    const isWaiting = request.state === "waiting";
    const { clients } = this.#admission;
    const { left } = this.#builder;
    if (isWaiting && this.#admission.refuseImpossible(request)) {
      this.#order.pass();
      return;
    }
    const isServed = isWaiting ? this.#sizer.tryAdmit(request, this.#part()) : this.#sizer.place(request, this.#part());
    if (isServed) {
      // What is less than a page, and too little for one whose turn came before, is nobody's part.
      if (!this.#isPassedOver || left >= this.#pageSize) clients.charge(request, left - this.#builder.left);
      if (this.#isCut(request)) clients.leaveShort(request);
    } else if (this.#sizer.isShortOfBudget(request)) {
      this.#isPassedOver = true;
      clients.leaveShort(request);
    } else if (isWaiting) {
      this.#order.blockWaiting();
      return;
    }
    this.#order.pass();
  }

  /** What brings the client whose turn it is level with the next, and an equal part of the rest; in whole pages, one at least. */
  #part(): number {
    const { left } = this.#builder;
    const lag = this.#order.lag(left);
    const numPages = Math.round((lag + (left - lag) / this.#order.numRivals) / this.#pageSize);
    return Math.min(this.#sizer.longest, Math.max(1, numPages) * this.#pageSize);
  }

  /** It would have got more, had there been more. */
  #isCut(request: Request): boolean {
    const { step } = this.#builder;
    return request.numComputed < request.numTokens && step.queryLens[step.numRows - 1]! < this.#sizer.longest;
  }

  /** Prompt tokens that keep the step short; a quarter of a chunk at least: in shorter ones the step itself would cost too much. */
  #targetTokens(): number {
    if (!this.#isPaced) return this.#builder.budget;
    const least = Math.max(this.#pageSize, alignDown(this.#sizer.longest / 4, this.#pageSize));
    const target = Math.max(least, this.#costs.targetTokens - this.#builder.step.numTokens);
    return Math.min(this.#builder.left, target); // where no pace is known yet it is infinite, and a number that needs a box
  }
}
