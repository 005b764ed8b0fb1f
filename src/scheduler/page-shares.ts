// What each client holds of the pages, where they are short and several clients are here. Each has an equal part, and may have more as
// long as no client that has less needs it; then the last request of whoever has most beyond its part yields. Counted when it is asked
// for, in the group that has fewest pages left. Who is let in and who is preempted in the end: roster.ts.
//
// Nobody yields for ever: a client's only request does not, and after a preemption a request first gets as many tokens as it had to
// compute again.

import type { CacheManager } from "../cache/cache-manager.js";
import { PAGE_PARTS } from "../cache/table-pages.js";
import type { ClientShare, Request } from "../core/request.js";
import type { ClientShares } from "./client-shares.js";
import { goesBefore, type RequestQueue } from "./request-queue.js";

export class PageShares {
  readonly #clients: ClientShares;
  readonly #running: RequestQueue;
  readonly #waiting: RequestQueue;
  readonly #cache: CacheManager;
  #group = 0;
  /** Of the requests that may yield, or be let in before others. */
  #priority = 0;
  /** Of each client, in PAGE_PARTS. */
  #part = 0;

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
    this.#part = Math.floor((PAGE_PARTS * this.#cache.pagesTotal(this.#group)) / this.#clients.size);
    for (let i = 0; i < all.length; i++) {
      const share = all[i]!;
      share.held = 0;
      share.yieldable = 0;
      share.nextWaiting = null;
    }
    for (let i = 0; i < this.#running.size; i++) {
      const request = this.#running.at(i);
      const held = this.#cache.held(request, this.#group);
      request.share!.held += held;
      if (this.#mayYield(request)) request.share!.yieldable += held;
    }
    for (let i = 0; i < this.#waiting.size; i++) {
      const request = this.#waiting.at(i);
      if (request.priority === priority) request.share!.nextWaiting ??= request;
    }
  }

  /**
   * The first waiting request of a client that has none running and with this one no more than its part, while another has, or with its next
   * one would have, more than its own. null: there is none, or what may yield is not enough for it.
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
      const { nextWaiting, numRunning, held } = all[i]!;
      const needed = nextWaiting === null ? 0 : this.#needed(nextWaiting);
      const isOver = held + needed > this.#part;
      if (numRunning > 0) isSomebodyOver ||= isOver;
      else if (nextWaiting !== null && !isOver && (first === null || goesBefore(nextWaiting, first)))
        first = nextWaiting;
    }
    if (first === null || !isSomebodyOver || this.#needed(first) > this.#room() || !this.#mayPass(first)) return null;
    return first;
  }

  /**
   * The request that yields its pages: the last of the client that has most beyond its part. null: nobody has, or may yield. `own`: the
   * client that needs them, whose last request yields to its earlier ones at any time; null: one that has none running.
   */
  payer(own: ClientShare | null): Request | null {
    const { all } = this.#clients;
    let most: ClientShare | null = null;
    for (let i = 0; i < all.length; i++) {
      const share = all[i]!;
      if (share.held <= this.#part || share.numRunning === 1 || (share !== own && share.yieldable === 0)) continue;
      if (most === null || share.held > most.held) most = share;
    }
    if (most === null) return null;
    for (let i = this.#running.size - 1; i >= 0; i--) {
      const request = this.#running.at(i);
      if (request.share === most && (most === own || this.#mayYield(request))) return request;
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
    let room = PAGE_PARTS * this.#cache.available(this.#group);
    for (let i = 0; i < all.length; i++) {
      const { held, yieldable } = all[i]!;
      if (held > this.#part) room += Math.min(yieldable, held - this.#part);
    }
    return room;
  }

  /** Nobody who came before it and needs more than a part has been passed by as many tokens as it has. */
  #mayPass(request: Request): boolean {
    const { all } = this.#clients;
    for (let i = 0; i < all.length; i++) {
      const { nextWaiting, numRunning } = all[i]!;
      if (numRunning > 0 || nextWaiting === null || !goesBefore(nextWaiting, request)) continue;
      if (nextWaiting.numPassedBy >= nextWaiting.numTokens) return false;
    }
    return true;
  }

  /** To another client; which leaves a client one that runs. */
  #mayYield({ priority, numTokens, yieldsFrom, share }: Request): boolean {
    return priority === this.#priority && numTokens >= yieldsFrom && share!.numRunning > 1;
  }

  #needed(request: Request): number {
    return PAGE_PARTS * this.#cache.needed(request, this.#group);
  }
}
