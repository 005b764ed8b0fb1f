// Which prompts get chunks in the step being made, and which waiting requests are let in: by order of arrival for one client, by what
// each has been served for several. What a chunk is: chunk-cutter.ts.

import { alignDown } from "../core/math.js";
import type { Request } from "../core/request.js";
import type { ChunkCutter } from "./chunk-cutter.js";
import { FairOrder } from "./fair-order.js";
import type { OpenStep } from "./open-step.js";
import { hasWaitedLonger, isPrefill } from "./progress.js";
import type { Roster } from "./roster.js";
import type { StepPace } from "./step-pace.js";

export class PromptTurns {
  readonly #roster: Roster;
  readonly #open: OpenStep;
  readonly #cutter: ChunkCutter;
  readonly #pageSize: number; // P
  /** null: steps are as long as their budget. */
  readonly #pace: StepPace | null;
  readonly #order: FairOrder;
  /** In this step somebody whose turn it was could not use the budget that was left. */
  #isPassedOver = false;
  /** The prompt whose turn it was got nothing in the last step, for decodes had used up the budget. */
  owesPrompt = false;

  constructor(roster: Roster, open: OpenStep, cutter: ChunkCutter, pageSize: number, pace: StepPace | null) {
    this.#roster = roster;
    this.#open = open;
    this.#cutter = cutter;
    this.#pageSize = pageSize;
    this.#pace = pace;
    this.#order = new FairOrder(roster.clients);
  }

  placeChunks(): void {
    this.#open.firstChunkRow = this.#open.step.numRows;
    this.owesPrompt = false;
    if (this.#roster.clients.size > 1) this.#share();
    else this.#placeInOrder();
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
    const isServed = isWaiting ? this.#admitNext() : this.#cutter.place(first);
    let canAdmit = isServed || !isWaiting;
    this.owesPrompt = !isServed && this.#cutter.isShortOfBudget(first);
    for (let i = 0; i < running.size; i++) {
      const request = running.at(i);
      if (isPrefill(request) && !this.#open.has(request)) this.#cutter.place(request);
    }
    while (canAdmit) canAdmit = this.#admitNext();
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

  /**
   * Several clients: each prompt in its client's turn, and all together no longer than a step of the target's length computes. Who waits may
   * be admitted before another client's earlier request, but nobody after one for which pages are short.
   */
  #share(): void {
    const open = this.#open;
    const order = this.#order;
    const { clients, running, waiting } = this.#roster;
    order.arrange(running, waiting);
    const first = order.next;
    if (first === null) {
      clients.level();
      return;
    }
    const kept = Math.max(0, open.left - Math.max(this.#cutter.leastBudget(first), this.#targetTokens()));
    open.left -= kept;
    this.#isPassedOver = false;
    this.#takeTurn(first);
    this.owesPrompt = !open.has(first) && this.#cutter.isShortOfBudget(first);
    for (let next = order.next; next !== null && open.left > 0; next = order.next) this.#takeTurn(next);
    order.close();
    clients.settle(open.budget);
    open.left += kept;
  }

  #takeTurn(request: Request): void {
    const isWaiting = request.state === "waiting";
    const { clients } = this.#roster;
    const { left } = this.#open;
    if (isWaiting && this.#roster.refuseImpossible(request)) {
      this.#order.pass();
      return;
    }
    const isServed = isWaiting ? this.#admit(request, this.#part()) : this.#cutter.place(request, this.#part());
    if (isServed) {
      // What is less than a page, and too little for one whose turn came before, is nobody's part.
      if (!this.#isPassedOver || left >= this.#pageSize) clients.charge(request, left - this.#open.left);
      if (this.#isCut(request)) clients.leaveShort(request);
    } else if (this.#cutter.isShortOfBudget(request)) {
      this.#isPassedOver = true;
      clients.leaveShort(request);
    } else if (isWaiting) {
      this.#order.closeDoor();
      return;
    }
    this.#order.pass();
  }

  /** What brings the client whose turn it is level with the next, and an equal part of the rest; in whole pages, one at least. */
  #part(): number {
    const { left } = this.#open;
    const lag = this.#order.lag(left);
    const numPages = Math.round((lag + (left - lag) / this.#order.numRivals) / this.#pageSize);
    return Math.min(this.#cutter.longest, Math.max(1, numPages) * this.#pageSize);
  }

  /** It would have got more, had there been more. */
  #isCut(request: Request): boolean {
    const { step } = this.#open;
    return request.numComputed < request.numTokens && step.queryLens[step.numRows - 1]! < this.#cutter.longest;
  }

  /** Prompt tokens that keep the step short; a quarter of a chunk at least: in shorter ones the step itself would cost too much. */
  #targetTokens(): number {
    if (this.#pace === null) return this.#open.budget;
    const least = Math.max(this.#pageSize, alignDown(this.#cutter.longest / 4, this.#pageSize));
    const target = Math.max(least, this.#pace.targetTokens - this.#open.step.numTokens);
    return Math.min(this.#open.left, target); // where no pace is known yet it is infinite, and a number that needs a box
  }

  #admitNext(): boolean {
    const head = this.#roster.nextWaiting();
    return head !== undefined && this.#admit(head);
  }

  /** Admits a waiting request and gives it its first chunk; false when it must go on waiting. */
  #admit(request: Request, most = this.#cutter.longest): boolean {
    if (this.#cutter.isShortOfBudget(request) || !this.#roster.tryAdmit(request)) return false;
    this.#cutter.place(request, most);
    return true;
  }
}
