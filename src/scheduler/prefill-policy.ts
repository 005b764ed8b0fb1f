// Which prompts get chunks in the step being made, and which waiting requests are let in: by order of arrival for one client, by what
// each has been served for several. What a chunk is: chunk-sizer.ts.

import { alignDown } from "../core/math.js";
import type { Request } from "../core/request.js";
import type { Admission } from "./admission.js";
import type { ChunkSizer } from "./chunk-sizer.js";
import { FairOrder } from "./fair-order.js";
import { hasWaitedLonger, isPrefill } from "./progress.js";
import type { StepBuilder } from "./step-builder.js";
import type { StepCostModel } from "./step-cost-model.js";

export class PrefillPolicy {
  readonly #admission: Admission;
  readonly #builder: StepBuilder;
  readonly #sizer: ChunkSizer;
  readonly #pageSize: number; // P
  /** null: steps are as long as their budget. */
  readonly #costs: StepCostModel | null;
  readonly #order: FairOrder;
  /** In this step somebody whose turn it was could not use the budget that was left. */
  #isPassedOver = false;
  /** The prompt whose turn it was got nothing in the last step, for decodes had used up the budget. */
  owesPrompt = false;

  constructor(
    admission: Admission,
    builder: StepBuilder,
    sizer: ChunkSizer,
    pageSize: number,
    costs: StepCostModel | null,
  ) {
    this.#admission = admission;
    this.#builder = builder;
    this.#sizer = sizer;
    this.#pageSize = pageSize;
    this.#costs = costs;
    this.#order = new FairOrder(admission.clients);
  }

  placeChunks(): void {
    this.#builder.firstChunkRow = this.#builder.step.numRows;
    this.owesPrompt = false;
    if (this.#admission.clients.size > 1) this.#share();
    else this.#placeInOrder();
  }

  /**
   * The first chunk goes to the prompt that has waited longest for one, so each has its turn; the others go by order of arrival,
   * so early prompts finish early. Waiting requests are admitted while budget and pages last, none overtaking another.
   */
  #placeInOrder(): void {
    const { running } = this.#admission;
    const first = this.#longestUnserved();
    if (first === null) return;
    const isWaiting = first.state === "waiting";
    const isServed = isWaiting ? this.#admitNext() : this.#sizer.place(first);
    let canAdmit = isServed || !isWaiting;
    this.owesPrompt = !isServed && this.#sizer.isShortOfBudget(first);
    for (let i = 0; i < running.size; i++) {
      const request = running.at(i);
      if (isPrefill(request) && !this.#builder.has(request)) this.#sizer.place(request);
    }
    while (canAdmit) canAdmit = this.#admitNext();
  }

  #longestUnserved(): Request | null {
    const { running } = this.#admission;
    let best: Request | null = null;
    for (let i = 0; i < running.size; i++) {
      const request = running.at(i);
      if (isPrefill(request) && (best === null || hasWaitedLonger(request, best))) best = request;
    }
    const head = this.#admission.nextWaiting();
    return head !== undefined && (best === null || hasWaitedLonger(head, best)) ? head : best;
  }

  /**
   * Several clients: each prompt in its client's turn, and all together no longer than a step of the target's length computes. Who waits may
   * be admitted before another client's earlier request, but nobody after one for which pages are short.
   */
  #share(): void {
    const builder = this.#builder;
    const order = this.#order;
    const { clients, running, waiting } = this.#admission;
    order.arrange(running, waiting);
    const first = order.next;
    if (first === null) {
      clients.reset();
      return;
    }
    const kept = Math.max(0, builder.left - Math.max(this.#sizer.leastBudget(first), this.#targetTokens()));
    builder.left -= kept;
    this.#isPassedOver = false;
    this.#takeTurn(first);
    this.owesPrompt = !builder.has(first) && this.#sizer.isShortOfBudget(first);
    for (let next = order.next; next !== null && builder.left > 0; next = order.next) this.#takeTurn(next);
    order.close();
    clients.endStep(builder.budget);
    builder.left += kept;
  }

  #takeTurn(request: Request): void {
    const isWaiting = request.state === "waiting";
    const { clients } = this.#admission;
    const { left } = this.#builder;
    if (isWaiting && this.#admission.refuseImpossible(request)) {
      this.#order.pass();
      return;
    }
    const isServed = isWaiting ? this.#admit(request, this.#part()) : this.#sizer.place(request, this.#part());
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
    if (this.#costs === null) return this.#builder.budget;
    const least = Math.max(this.#pageSize, alignDown(this.#sizer.longest / 4, this.#pageSize));
    const target = Math.max(least, this.#costs.targetTokens - this.#builder.step.numTokens);
    return Math.min(this.#builder.left, target); // where no pace is known yet it is infinite, and a number that needs a box
  }

  #admitNext(): boolean {
    const head = this.#admission.nextWaiting();
    return head !== undefined && this.#admit(head);
  }

  /** Admits a waiting request and gives it its first chunk; false when it must go on waiting. */
  #admit(request: Request, most = this.#sizer.longest): boolean {
    if (this.#sizer.isShortOfBudget(request) || !this.#admission.tryAdmit(request)) return false;
    this.#sizer.place(request, most);
    return true;
  }
}
