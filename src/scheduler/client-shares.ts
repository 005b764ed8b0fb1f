// What each client has been served, in tokens. Prompts of several clients take their turns by it: whoever has had less goes first, so a
// client's share of the steps does not grow with the number or the length of its requests (fair queuing, tokens as time).

import type { ClientShare, Request } from "../core/request.js";

export class ClientShares {
  readonly #active = new Map<string, ClientShare>();
  /** What a client would have been served that had an equal share of every step. Who comes begins here, neither owing nor owed. */
  #virtualTime = 0;

  /** Clients that have a request here, waiting or running. */
  get size(): number {
    return this.#active.size;
  }

  open(request: Request): void {
    const { client } = request;
    let share = this.#active.get(client);
    if (share === undefined) {
      share = { served: 0, numRequests: 0, first: null, turn: 0, numWaiting: 0, numDecodes: 0 };
      this.#active.set(client, share);
    }
    share.numRequests++;
    request.share = share;
  }

  close(request: Request): void {
    if (--request.share!.numRequests === 0) this.#active.delete(request.client);
  }

  charge(request: Request, numTokens: number): void {
    request.share!.served += numTokens;
    this.#virtualTime += numTokens / this.#active.size;
  }

  /** Before the turns of a step are given out. A client that had no prompt before has let its turns go by, and saved none of them. */
  begin(): void {
    for (const share of this.#active.values()) {
      if (share.first === null) share.served = Math.max(share.served, this.#virtualTime);
      share.first = null;
      share.turn = share.served;
      share.numWaiting = 0;
    }
  }

  all(): Iterable<ClientShare> {
    return this.#active.values();
  }
}
