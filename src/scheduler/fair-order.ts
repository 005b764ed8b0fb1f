// The order in which the prompts of several clients get the chunks of a step: by priority, then by what their client has been served,
// counting the chunks it is given before in this step; equals by how long they have waited. Within a client the rules are those of
// a client alone: the first chunk for whoever has waited longest, further ones by arrival, running before waiting.

import type { Request } from "../core/request.js";
import type { ClientShares } from "./client-shares.js";
import { hasWaitedLonger, isPrefill } from "./progress.js";
import type { RequestQueue } from "./request-queue.js";

export class FairOrder {
  readonly #shares: ClientShares;
  readonly #maxWaiting: number;
  readonly #items: Request[] = [];
  /** That have prompts in the order. */
  numClients = 0;

  /** `maxWaiting`: so many of a client's waiting requests are looked at; a step admits no more of them. */
  constructor(shares: ClientShares, maxWaiting: number) {
    this.#shares = shares;
    this.#maxWaiting = maxWaiting;
  }

  /** Valid until the next call. `chunk`: the most that one request gets in this step. */
  arrange(running: RequestQueue, waiting: RequestQueue, chunk: number): readonly Request[] {
    const items = this.#items;
    items.length = 0;
    this.numClients = 0;
    this.#shares.begin();
    for (let i = 0; i < running.size; i++) if (isPrefill(running.at(i))) pickFirst(running.at(i));
    for (let i = 0; i < waiting.size; i++) pickFirst(waiting.at(i));
    for (const { first } of this.#shares.all()) {
      if (first === null) continue;
      this.numClients++;
      this.#add(first, chunk);
    }
    for (let i = 0; i < running.size; i++) {
      const request = running.at(i);
      if (isPrefill(request) && request.share!.first !== request) this.#add(request, chunk);
    }
    for (let i = 0; i < waiting.size; i++) {
      const request = waiting.at(i);
      const share = request.share!;
      if (share.first !== request && ++share.numWaiting < this.#maxWaiting) this.#add(request, chunk);
    }
    return items.sort(byTurn);
  }

  #add(request: Request, chunk: number): void {
    const share = request.share!;
    request.turn = share.turn;
    share.turn += Math.min(chunk, request.numTokens - request.numComputed);
    this.#items.push(request);
  }
}

function pickFirst(request: Request): void {
  const share = request.share!;
  if (share.first === null || hasWaitedLonger(request, share.first)) share.first = request;
}

function byTurn(a: Request, b: Request): number {
  return (
    a.priority - b.priority || a.turn - b.turn || a.lastServedStep - b.lastServedStep || a.arrivalOrder - b.arrivalOrder
  );
}
