// What the prompts of each client have been served, so that clients with prompts in the line are served alike: whoever has had least
// goes next (fair queuing). Only differences between clients that wait count: nothing is saved up while a client has no prompt, writes
// an answer, or gets all it can take, and a newcomer begins level with the one that has had most of those that wait. So it is
// ahead of none of them, and nobody who waits is overtaken for good. Accounts are kept within a priority.

import type { Request } from "../../core/request.js";

/** What one client's prompts have been served, and their turns in the step being made. */
export interface ClientShare {
  readonly client: string;
  /** Budget that its prompts have used, counted from where a newcomer begins: below 0, it is owed; above, it has had more than its part. */
  served: number;
  /** The step has not given it all that it could take. */
  isShort: boolean;
  /** Of the first prompt that was left so; else of the first prompt it has, or had. Accounts are kept among clients of the same. */
  priority: number;
  /** In which a prompt of it got a chunk. */
  lastServedStep: number;
  /** Waiting and running ones; 0: it has left with more than its part. */
  numRequests: number;
  numRunning: number;
  /** Of the group in which pages are shortest, in PAGE_SHARES: one that n requests own counts as an nth for each. */
  usage: number;
  /** What of it those of its requests own that may be made to yield. */
  preemptible: number;
  /** Of its requests that wait, the one whose turn comes first. */
  nextWaiting: Request | null;
  /** Of its running requests, those that could get their next token. */
  numDecodes: number;
  /** Of its prompts, the one that has waited longest for a chunk. */
  first: Request | null;
  /** Its prompts that have not had their turn in this step: places in the order of all, -1 for none. */
  nextPrompt: number;
  lastPrompt: number;
}

/** Of the request's client; while it waits or runs. */
export function shareOf({ share }: Request): ClientShare {
  return share as ClientShare;
}

export class ClientShares {
  readonly #byName = new Map<string, ClientShare>();
  /** Those with a request here, and those that left with more than their part. The hot path walks it by index. */
  readonly all: ClientShare[] = [];
  #size = 0;
  /** Of the prompts that got something in this step, if any did. */
  #worstPriority = 0;
  #isCharged = false;

  /** Clients that have a request here, waiting or running. */
  get size(): number {
    return this.#size;
  }

  open(request: Request): void {
    const { client } = request;
    const share = this.#byName.get(client) ?? this.#create(client);
    if (share.numRequests++ === 0) this.#size++;
    request.share = share;
  }

  close(request: Request): void {
    if (--shareOf(request).numRequests > 0) return;
    if (--this.#size <= 1) this.reset(); // who is alone is ahead of nobody, and behind nobody
  }

  /** `cost`: of a chunk, in budget. */
  charge(request: Request, cost: number): void {
    const { priority } = request;
    shareOf(request).served += cost;
    this.#worstPriority = this.#isCharged ? Math.max(this.#worstPriority, priority) : priority;
    this.#isCharged = true;
  }

  /** The step has not given the request all that it could take, for want of budget or of pages. */
  leaveShort(request: Request): void {
    const share = shareOf(request);
    if (share.isShort) return; // its prompts of better priority come first
    share.isShort = true;
    share.priority = request.priority;
  }

  /** After a step with prompts. `limit`: nobody owes or is owed more. */
  endStep(limit: number): void {
    const { all } = this;
    // Where nothing was served, nothing has changed.
    for (let one = this.#next(null); one !== null && this.#wasServed(one); one = this.#next(one))
      this.#endStepOf(one.priority, limit);
    for (let i = all.length - 1; i >= 0; i--) {
      const share = all[i]!;
      share.isShort = false;
      if (share.numRequests === 0 && (share.served === 0 || !this.#wasServed(share))) this.#remove(i);
    }
    this.#isCharged = false;
  }

  /** Nobody waits: what was is forgotten. */
  reset(): void {
    for (let i = this.all.length - 1; i >= 0; i--) {
      this.all[i]!.served = 0;
      if (this.all[i]!.numRequests === 0) this.#remove(i);
    }
  }

  #wasServed({ priority }: ClientShare): boolean {
    return this.#isCharged && priority <= this.#worstPriority;
  }

  /** Of the best priority that is worse than that of `after`. */
  #next(after: ClientShare | null): ClientShare | null {
    const { all } = this;
    let next: ClientShare | null = null;
    for (let i = 0; i < all.length; i++) {
      const share = all[i]!;
      if (after !== null && share.priority <= after.priority) continue;
      if (next === null || share.priority < next.priority) next = share;
    }
    return next;
  }

  /** Accounts begin anew where the most served of those left short is; the others let go what they are owed. */
  #endStepOf(priority: number, limit: number): void {
    const { all } = this;
    let most: ClientShare | null = null;
    for (let i = 0; i < all.length; i++) {
      const share = all[i]!;
      if (share.isShort && share.priority === priority && (most === null || share.served > most.served)) most = share;
    }
    const origin = most === null ? 0 : most.served;
    for (let i = 0; i < all.length; i++) {
      const share = all[i]!;
      if (share.priority !== priority) continue;
      // Nobody is short: all are level.
      if (most === null) share.served = 0;
      else share.served = Math.min(limit, Math.max(share.isShort ? -limit : 0, share.served - origin));
    }
  }

  #create(client: string): ClientShare {
    const share: ClientShare = {
      client,
      served: 0,
      priority: 0,
      isShort: false,
      lastServedStep: 0,
      numRequests: 0,
      numRunning: 0,
      usage: 0,
      preemptible: 0,
      nextWaiting: null,
      numDecodes: 0,
      first: null,
      nextPrompt: -1,
      lastPrompt: -1,
    };
    this.#byName.set(client, share);
    this.all.push(share);
    return share;
  }

  #remove(index: number): void {
    const share = this.all[index]!;
    share.first = null;
    share.nextWaiting = null;
    this.#byName.delete(share.client);
    this.all[index] = this.all[this.all.length - 1]!;
    this.all.pop();
  }
}
