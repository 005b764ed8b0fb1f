// Pages by client, where they are short and several clients have requests. Each client has an equal quota and may use more as long as no
// client below its quota needs pages; then the last request of the client furthest above its quota is preempted. Usage is counted on
// demand, in the group with the fewest pages left. Admission and preemption themselves: admission.ts.
//
// No request is preempted without end: a client's only request never is, and after a preemption a request first gets as many tokens as
// it had to compute again.

import type { CacheManager } from "../../cache/cache-manager.js";
import { PAGE_SHARES } from "../../cache/group-pools.js";
import type { Request } from "../../core/request.js";
import { goesBefore, type RequestQueue } from "../request-queue.js";
import { type ClientShare, type ClientShares, shareOf } from "./client-shares.js";

export class PageShares {
  readonly #clients: ClientShares;
  readonly #running: RequestQueue;
  readonly #waiting: RequestQueue;
  readonly #cache: CacheManager;
  #group = 0;
  /** Of the requests that can be preempted, or admitted before others. */
  #priority = 0;
  /** Of each client, in PAGE_SHARES. */
  #quota = 0;

  constructor(clients: ClientShares, running: RequestQueue, waiting: RequestQueue, cache: CacheManager) {
    this.#clients = clients;
    this.#running = running;
    this.#waiting = waiting;
    this.#cache = cache;
  }

  measure(priority: number): void {
    const { all } = this.#clients;
    this.#group = this.#cache.scarcestGroup();
    this.#priority = priority;
    this.#quota = Math.floor((PAGE_SHARES * this.#cache.pagesTotal(this.#group)) / this.#clients.size);
    for (let i = 0; i < all.length; i++) {
      const share = all[i]!;
      share.usage = 0;
      share.preemptible = 0;
      share.nextWaiting = null;
    }
    for (let i = 0; i < this.#running.size; i++) {
      const request = this.#running.at(i);
      const usage = this.#cache.usage(request, this.#group);
      shareOf(request).usage += usage;
      if (this.#isPreemptible(request)) shareOf(request).preemptible += usage;
    }
    for (let i = 0; i < this.#waiting.size; i++) {
      const request = this.#waiting.at(i);
      if (request.priority === priority) shareOf(request).nextWaiting ??= request;
    }
  }

  /**
   * The first waiting request of a client that has none running and with this one stays within its quota, while another is, or with its next
   * one would be, above it. null: there is none, or what can be preempted is not enough for it.
   */
  nextInLine(): Request | null {
    const priority = this.#waiting.first()?.priority;
    // Pages that better ones wait for would be taken from it at once; those that better ones have are not for it.
    if (priority === undefined || this.#running.last()?.priority !== priority || !this.#hasIdle()) return null;
    this.measure(priority);
    const { all } = this.#clients;
    let first: Request | null = null;
    let isSomebodyOver = false;
    for (let i = 0; i < all.length; i++) {
      const { nextWaiting, numRunning, usage } = all[i]!;
      const needed = nextWaiting === null ? 0 : this.#needed(nextWaiting);
      const isOver = usage + needed > this.#quota;
      if (numRunning > 0) isSomebodyOver ||= isOver;
      else if (nextWaiting !== null && !isOver && (first === null || goesBefore(nextWaiting, first)))
        first = nextWaiting;
    }
    if (first === null || !isSomebodyOver || this.#needed(first) > this.#room() || !this.#canOvertake(first))
      return null;
    return first;
  }

  /**
   * The request to preempt: the last of the client furthest above its quota. null: no client is above it, or none can be preempted. `own`:
   * the client that needs the pages, whose last request makes room for its earlier ones at any time; null: one that has none running.
   */
  victim(own: ClientShare | null): Request | null {
    const { all } = this.#clients;
    let most: ClientShare | null = null;
    for (let i = 0; i < all.length; i++) {
      const share = all[i]!;
      if (share.usage <= this.#quota || share.numRunning === 1 || (share !== own && share.preemptible === 0)) continue;
      if (most === null || share.usage > most.usage) most = share;
    }
    if (most === null) return null;
    for (let i = this.#running.size - 1; i >= 0; i--) {
      const request = this.#running.at(i);
      if (request.share === most && (most === own || this.#isPreemptible(request))) return request;
    }
    return null;
  }

  /** The request was let in before others that wait and whose clients have none running either. */
  countPassed(request: Request): void {
    const { all } = this.#clients;
    for (let i = 0; i < all.length; i++) {
      const { nextWaiting, numRunning } = all[i]!;
      if (numRunning === 0 && nextWaiting !== null && goesBefore(nextWaiting, request))
        nextWaiting.numPassedBy += request.numTokens;
    }
  }

  /** A client has none running. */
  #hasIdle(): boolean {
    const { all } = this.#clients;
    for (let i = 0; i < all.length; i++) if (all[i]!.numRunning === 0 && all[i]!.numRequests > 0) return true;
    return false;
  }

  /** Pages that are free, or can be. */
  #room(): number {
    const { all } = this.#clients;
    let room = PAGE_SHARES * this.#cache.available(this.#group);
    for (let i = 0; i < all.length; i++) {
      const { usage, preemptible } = all[i]!;
      if (usage > this.#quota) room += Math.min(preemptible, usage - this.#quota);
    }
    return room;
  }

  /** Nobody who came before it and needs more than a quota has been passed by as many tokens as it has. */
  #canOvertake(request: Request): boolean {
    const { all } = this.#clients;
    for (let i = 0; i < all.length; i++) {
      const { nextWaiting, numRunning } = all[i]!;
      if (numRunning > 0 || nextWaiting === null || !goesBefore(nextWaiting, request)) continue;
      if (nextWaiting.numPassedBy >= nextWaiting.numTokens) return false;
    }
    return true;
  }

  /** For another client; a client keeps one that runs. */
  #isPreemptible(request: Request): boolean {
    const { priority, numTokens, preemptibleFrom } = request;
    return priority === this.#priority && numTokens >= preemptibleFrom && shareOf(request).numRunning > 1;
  }

  #needed(request: Request): number {
    return PAGE_SHARES * this.#cache.needed(request, this.#group);
  }
}
