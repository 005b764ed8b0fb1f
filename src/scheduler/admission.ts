// Who waits, who runs, who is over. Admission and preemption are decided here, by pages alone; scheduler.ts shares out the budget.
//
//   waiting --admit (pages for all its tokens)--> running --finish, abort, fail--> finished
//      ^------------- preempt (pages run out) ------'
//
// A running request owns pages for all of its tokens, so a chunk never fails for want of memory; only a new token can. Of a window
// group it owns those of its next chunk: secure() gets them as it does for a new token.

import type { CacheManager, PageCopy } from "../cache/cache-manager.js";
import { errorFor } from "../core/errors.js";
import type { RequestId } from "../core/ids.js";
import { type FinishReason, type Request, willGrow } from "../core/request.js";
import { ClientShares, shareOf } from "./fair/client-shares.js";
import { RequestQueue } from "./request-queue.js";
import type { SharePolicy } from "./share-policy.js";
import type { Step } from "./step.js";

export class Admission {
  readonly running = new RequestQueue();
  readonly waiting = new RequestQueue();
  readonly clients = new ClientShares();
  readonly #maxRunning: number;
  readonly #cache: CacheManager;
  readonly #clock: () => number;
  readonly #byId = new Map<RequestId, Request>();
  #numArrived = 0;
  /** Since the last step was begun, somebody could not be let in for want of pages. */
  isShortOfPages = false;
  #refused: Request[] = [];

  constructor(maxRunning: number, cache: CacheManager, clock: () => number) {
    this.#maxRunning = maxRunning;
    this.#cache = cache;
    this.#clock = clock;
  }

  get(id: RequestId): Request | undefined {
    return this.#byId.get(id);
  }

  isFull(): boolean {
    return this.running.size >= this.#maxRunning;
  }

  add(request: Request): void {
    this.#register(request, this.#numArrived++);
    this.waiting.insert(request);
  }

  /** The child runs at once with the parent's pages, or waits (null) and finds its prefix in the directory. It ranks beside its parent. */
  fork(parent: Request, child: Request): PageCopy | null {
    this.#register(child, parent.arrivalOrder);
    const copy = this.isFull() ? null : this.#cache.fork(parent, child);
    if (copy === null) this.waiting.insert(child);
    else this.#start(child);
    return copy;
  }

  /** The first waiting request; those that could never run are ended on the way. */
  nextWaiting(): Request | undefined {
    let head = this.waiting.first();
    while (head !== undefined && this.refuseImpossible(head)) head = this.waiting.first();
    return head;
  }

  /** Ends a request that could never run; false: it could. */
  refuseImpossible(request: Request): boolean {
    if (!this.#exceedsPool(request)) return false;
    this.#refuse(request);
    return true;
  }

  /** Lets a waiting request in where that leaves a further page for each that may need one: with less, one of them would soon be preempted. */
  tryAdmit(request: Request): boolean {
    return !this.isFull() && this.admit(request, this.#numGrowing(request));
  }

  /** Pages for every token of every running request. false: somebody must go, and cannot before all flights have landed. */
  secure(step: Step, isInFlight: boolean, policy: SharePolicy): boolean {
    const { running } = this;
    for (let i = 0; i < running.size; i++) {
      const request = running.at(i);
      if (isInFlight && this.#exceedsPool(request)) return false;
      if (this.refuseImpossible(request)) {
        i--;
        continue;
      }
      while (request.state === "running" && !this.#cache.tryReserve(request, request.numTokensWithPending)) {
        if (isInFlight) return false;
        if (this.preempt(policy.victim(request), step) <= i) i--;
      }
    }
    return true;
  }

  /** A waiting request of better priority does not wait for pages that a worse one holds. false: as for secure(). */
  admitUrgent(step: Step, isInFlight: boolean): boolean {
    for (let head = this.nextWaiting(); head !== undefined && this.#outranksLast(head); head = this.nextWaiting()) {
      while (this.isFull() || !this.admit(head, 0)) {
        if (!this.#outranksLast(head)) return true;
        if (isInFlight) return false;
        this.preempt(this.running.last()!, step);
      }
    }
    return true;
  }

  /**
   * Ends a request and gives its pages back, published unless its flight failed; those of a request in flight come back when its
   * last flight lands. One that is over stays as it is.
   */
  end(request: Request, reason: FinishReason): void {
    if (request.state === "finished") return;
    if (request.state === "running") this.#stop(request);
    else this.waiting.remove(request);
    this.#byId.delete(request.id);
    this.clients.close(request);
    request.state = "finished";
    request.finishReason = reason;
    request.finishedMs = this.#clock();
    if (reason !== "error") this.#cache.publish(request);
    if (request.numInFlight === 0) this.#giveBack(request);
  }

  /** A flight with these rows has landed (or failed: then nothing of it is published). */
  land(step: Step, isPublished: boolean): void {
    for (let r = 0; r < step.numRows; r++) {
      const request = step.rows[r]!;
      request.numInFlight -= step.queryLens[r]!;
      if (request.state === "finished") {
        if (request.numInFlight === 0) this.#giveBack(request);
      } else if (isPublished) this.#cache.publish(request);
    }
  }

  takeRefused(): readonly Request[] {
    const refused = this.#refused;
    if (refused.length > 0) this.#refused = [];
    return refused;
  }

  /** What was worth keeping is published by now. */
  #giveBack(request: Request): void {
    this.#cache.discard(request);
    request.numPending = 0;
  }

  /** Lets a waiting request in where there are pages for it, and `numSpare` more. */
  admit(request: Request, numSpare: number): boolean {
    if (!this.#cache.tryAdmit(request, numSpare)) {
      this.isShortOfPages = true;
      return false;
    }
    this.waiting.remove(request);
    this.#start(request);
    if (request.firstScheduledMs < 0) request.numCached = request.numComputed;
    if (request.numPreemptions > 0) request.preemptibleFrom = 2 * request.numTokens - request.numComputed;
    return true;
  }

  /** Requests that may need a further page, with this one: none where it is alone. */
  #numGrowing(request: Request): number {
    const { running } = this;
    const { pageSize } = this.#cache;
    if (running.size === 0) return 0;
    let count = willGrow(request, pageSize) ? 1 : 0;
    for (let i = 0; i < running.size; i++) if (willGrow(running.at(i), pageSize)) count++;
    return count;
  }

  #outranksLast(request: Request): boolean {
    const last = this.running.last();
    return last !== undefined && request.priority < last.priority;
  }

  #register(request: Request, arrivalOrder: number): void {
    if (this.#byId.has(request.id)) {
      throw errorFor("invalid_value", { param: "id", value: request.id, expected: "different from all ids in use" });
    }
    this.#byId.set(request.id, request);
    this.clients.open(request);
    request.arrivalOrder = arrivalOrder;
  }

  #start(request: Request): void {
    request.state = "running";
    this.running.insert(request);
    shareOf(request).numRunning++;
  }

  /** Returns its place among the running ones. */
  #stop(request: Request): number {
    shareOf(request).numRunning--;
    return this.running.remove(request);
  }

  /** Takes a running request's pages; it waits again. Returns its place among the running ones. */
  preempt(request: Request, step: Step): number {
    const place = this.#stop(request);
    this.#cache.release(request);
    request.state = "waiting";
    request.numPreemptions++;
    this.waiting.insert(request);
    step.preempted[step.numPreempted++] = request;
    return place;
  }

  #exceedsPool(request: Request): boolean {
    return request.numTokensWithPending > this.#cache.maxTokens;
  }

  /** Even alone in the pool it could not go on. What it has generated is good, only cut short. */
  #refuse(request: Request): void {
    this.end(request, request.numGenerated > 0 ? "length" : "error");
    this.#refused.push(request);
  }
}
