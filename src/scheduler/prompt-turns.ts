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
  /** The prompt whose turn it was got nothing in the last step, for decodes had used up the budget. */
  owesPrompt = false;

  constructor(roster: Roster, open: OpenStep, cutter: ChunkCutter, pageSize: number, pace: StepPace | null) {
    this.#roster = roster;
    this.#open = open;
    this.#cutter = cutter;
    this.#pageSize = pageSize;
    this.#pace = pace;
    this.#order = new FairOrder(roster.clients, open.budget / pageSize);
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
   * Several clients: each prompt in its client's turn, and all together no longer than a step of the target's length computes. That is
   * parted among the clients; what one does not need is for those after it. Who waits may be admitted before another
   * client's earlier request, but nobody after one for which pages are short.
   */
  #share(): void {
    const open = this.#open;
    const { running, waiting } = this.#roster;
    const target = this.#targetTokens();
    const order = this.#order.arrange(running, waiting, Math.min(this.#cutter.longest, target));
    const first = order[0];
    if (first === undefined) return;
    const kept = Math.max(0, open.left - Math.max(this.#cutter.leastBudget(first), target));
    open.left -= kept;
    let canAdmit = true;
    for (let i = 0, numClients = this.#order.numClients; i < order.length && open.left > 0; i++) {
      const request = order[i]!;
      const isFirstOfClient = request.share!.first === request;
      const most = this.#portion(numClients + (isFirstOfClient ? 0 : 1));
      if (isFirstOfClient) numClients--;
      const isWaiting = request.state === "waiting";
      if (isWaiting && this.#roster.refuseImpossible(request)) continue;
      const isServed = isWaiting ? canAdmit && this.#admit(request, most) : this.#cutter.place(request, most);
      if (isWaiting && !isServed) canAdmit = false;
      if (i === 0) this.owesPrompt = !isServed && this.#cutter.isShortOfBudget(first);
    }
    open.left += kept;
  }

  /** Prompt tokens that keep the step short; a quarter of a chunk at least: in shorter ones the step itself would cost too much. */
  #targetTokens(): number {
    if (this.#pace === null) return this.#open.budget;
    const least = Math.max(this.#pageSize, alignDown(this.#cutter.longest / 4, this.#pageSize));
    return Math.max(least, this.#pace.targetTokens - this.#open.step.numTokens);
  }

  /** Tokens for one of so many that share what is left. */
  #portion(count: number): number {
    return Math.min(this.#cutter.longest, Math.max(this.#pageSize, Math.floor(this.#open.left / count)));
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
