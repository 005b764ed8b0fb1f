// Whose turn it is, of the prompts of several clients: by priority, those that were preempted first, then by what their client has been served, turn by turn; equals
// by how long they have had nothing and waited, then the shorter prompt. Within a client the rules are those of a client alone: the first chunk for
// whoever has waited longest, further ones by arrival, running before waiting.

import { hasWaitedLonger, isPreempted, isPrefill, type Request } from "../../core/request.js";
import type { RequestQueue } from "../request-queue.js";
import { type ClientShare, type ClientShares, shareOf } from "./client-shares.js";

const NONE = -1;

export class FairOrder {
  readonly #shares: ClientShares;
  readonly #prompts: Request[] = []; // the first #numPrompts
  #numPrompts = 0;
  #following = new Int32Array(64); // [numPrompts] place of the same client's next prompt
  readonly #heap: ClientShare[] = []; // the first #numClients: that have prompts left; whose turn it is comes first
  #numClients = 0;
  /** Whether those that wait may be admitted. */
  #waiters: "open" | "idle-clients-only" | "blocked" = "open";
  /** Of the one whose pages are awaited. */
  #blockedPriority = 0;
  /** Clients that have prompts of the same priority as the next one, its own among them. */
  numRivals = 0;

  constructor(shares: ClientShares) {
    this.#shares = shares;
  }

  arrange(running: RequestQueue, waiting: RequestQueue): void {
    const { all } = this.#shares;
    this.#numPrompts = 0;
    this.#numClients = 0;
    this.#waiters = "open";
    for (let i = 0; i < all.length; i++) all[i]!.first = null;
    for (let i = 0; i < running.size; i++) if (isPrefill(running.at(i))) pickFirst(running.at(i));
    for (let i = 0; i < waiting.size; i++) pickFirst(waiting.at(i));
    for (let i = 0; i < all.length; i++) {
      const share = all[i]!;
      if (share.first === null) continue;
      share.priority = share.first.priority;
      share.nextPrompt = share.lastPrompt = this.#add(share.first);
      this.#heap[this.#numClients++] = share;
    }
    if (this.#numClients > 0) this.#appendOthers(running, waiting);
    this.#prompts.length = this.#numPrompts; // nothing that is over is held
    this.#sortHeap();
  }

  /** The prompt whose turn it is; null: all have had theirs. */
  get next(): Request | null {
    return this.#numClients === 0 ? null : this.#promptOf(this.#heap[0]!);
  }

  /** What brings its client level with the rival that has been served least, `most` at most. */
  lag(most: number): number {
    const first = this.#heap[0]!;
    const { priority } = this.#promptOf(first);
    let lag = most;
    for (let i = 1; i <= 2 && i < this.#numClients; i++) {
      const rival = this.#heap[i]!;
      if (this.#promptOf(rival).priority === priority) lag = Math.min(lag, rival.served - first.served);
    }
    return lag;
  }

  /** The prompt has had its turn. */
  pass(): void {
    const first = this.#heap[0]!;
    const { priority } = this.#promptOf(first);
    first.nextPrompt = this.#following[first.nextPrompt]!;
    if (this.#waiters !== "open") this.#skipWaiting(first);
    const hasMore = first.nextPrompt !== NONE;
    if (!hasMore) this.#heap[0] = this.#heap[--this.#numClients]!;
    if (!hasMore || this.#promptOf(first).priority !== priority) this.numRivals--;
    this.#siftDown(0);
    if (this.numRivals === 0) this.#countRivals();
  }

  /**
   * There are no pages for the prompt, which waits: nobody else who waits passes it. But where it has not run yet and its client has
   * others running, it is they that hold the pages, and clients that have none running may go on.
   */
  blockWaiting(): void {
    const first = this.#heap[0]!;
    this.#blockedPriority = this.#promptOf(first).priority;
    this.#waiters = first.numRunning > 0 && !isPreempted(this.#promptOf(first)) ? "idle-clients-only" : "blocked";
    let count = 0;
    for (let i = 0; i < this.#numClients; i++) {
      const share = this.#heap[i]!;
      this.#skipWaiting(share);
      if (share.nextPrompt !== NONE) this.#heap[count++] = share;
    }
    this.#numClients = count;
    this.#sortHeap();
  }

  /** The budget is used up. */
  close(): void {
    for (let i = 0; i < this.#numClients; i++) this.#shares.leaveShort(this.#promptOf(this.#heap[i]!));
  }

  /** Both queues are sorted by priority; so is what each client has of them. */
  #appendOthers(running: RequestQueue, waiting: RequestQueue): void {
    let r = 0;
    let w = 0;
    while (r < running.size || w < waiting.size) {
      const isRunning = r < running.size && (w === waiting.size || running.at(r).priority <= waiting.at(w).priority);
      const request = isRunning ? running.at(r++) : waiting.at(w++);
      if ((isRunning && !isPrefill(request)) || shareOf(request).first === request) continue;
      const share = shareOf(request);
      const place = this.#add(request);
      this.#following[share.lastPrompt] = place;
      share.lastPrompt = place;
    }
  }

  #skipWaiting(share: ClientShare): void {
    if (share.nextPrompt === NONE) return;
    // One of worse priority would lose its pages in the next step to the one that waits for them.
    const isLetIn = this.#waiters === "idle-clients-only" && share.numRunning === 0;
    if (isLetIn && this.#promptOf(share).priority === this.#blockedPriority) return;
    while (share.nextPrompt !== NONE && this.#promptOf(share).state === "waiting") {
      this.#shares.leaveShort(this.#promptOf(share));
      share.nextPrompt = this.#following[share.nextPrompt]!;
    }
  }

  #add(request: Request): number {
    const place = this.#numPrompts++;
    if (place === this.#following.length) {
      const grown = new Int32Array(2 * place);
      grown.set(this.#following);
      this.#following = grown;
    }
    this.#prompts[place] = request;
    this.#following[place] = NONE;
    return place;
  }

  #promptOf(share: ClientShare): Request {
    return this.#prompts[share.nextPrompt]!;
  }

  #sortHeap(): void {
    for (let i = (this.#numClients >> 1) - 1; i >= 0; i--) this.#siftDown(i);
    this.#countRivals();
  }

  #siftDown(index: number): void {
    const heap = this.#heap;
    for (let parent = index, child = 2 * parent + 1; child < this.#numClients; child = 2 * parent + 1) {
      if (child + 1 < this.#numClients && this.#isBefore(heap[child + 1]!, heap[child]!)) child++;
      const moved = heap[parent]!;
      if (!this.#isBefore(heap[child]!, moved)) return;
      heap[parent] = heap[child]!;
      heap[child] = moved;
      parent = child;
    }
  }

  #countRivals(): void {
    this.numRivals = 0;
    if (this.#numClients === 0) return;
    const { priority } = this.#promptOf(this.#heap[0]!);
    for (let i = 0; i < this.#numClients; i++)
      if (this.#promptOf(this.#heap[i]!).priority === priority) this.numRivals++;
  }

  #isBefore(one: ClientShare, other: ClientShare): boolean {
    const a = this.#promptOf(one);
    const b = this.#promptOf(other);
    const difference =
      a.priority - b.priority ||
      comparePreempted(a, b) ||
      one.served - other.served ||
      Math.max(a.lastServedStep, one.lastServedStep) - Math.max(b.lastServedStep, other.lastServedStep) ||
      a.numTokens - a.numComputed - (b.numTokens - b.numComputed) ||
      a.arrivalOrder - b.arrivalOrder;
    return difference < 0;
  }
}

function pickFirst(request: Request): void {
  const share = shareOf(request);
  if (share.first === null || isSooner(request, share.first)) share.first = request;
}

function isSooner(a: Request, b: Request): boolean {
  const difference = a.priority === b.priority ? comparePreempted(a, b) : 0;
  return difference === 0 ? hasWaitedLonger(a, b) : difference < 0;
}

/**
 * Who was preempted has had its turn: it comes back before those that have not run, in its old place. Otherwise they would take its
 * pages and lose them as later arrivals, each time with all that they had computed.
 */
function comparePreempted(a: Request, b: Request): number {
  const isBack = isPreempted(a);
  if (isBack !== isPreempted(b)) return isBack ? -1 : 1;
  return isBack ? a.arrivalOrder - b.arrivalOrder : 0;
}
