// Which decodes go into a step that several clients share, where there are more than it should have: each client has an equal part of
// the rows, what one does not need is for the others, and a client's own decodes take turns, the longest unserved first.

import type { Request } from "../core/request.js";
import type { ClientShares } from "./client-shares.js";
import { isDecode } from "./progress.js";
import type { RequestQueue } from "./request-queue.js";

export class DecodeTurns {
  readonly #shares: ClientShares;
  readonly #items: Request[] = [];

  constructor(shares: ClientShares) {
    this.#shares = shares;
  }

  /** At most `maxRows` of them, but one of each client; valid until the next call. */
  arrange(running: RequestQueue, maxRows: number): readonly Request[] {
    const items = this.#items;
    items.length = 0;
    for (const share of this.#shares.all()) share.numDecodes = 0;
    for (let i = 0; i < running.size; i++) {
      const request = running.at(i);
      if (!isDecode(request) || request.readiness?.isReady() === false) continue;
      items.push(request);
      request.share!.numDecodes++;
    }
    if (items.length <= maxRows) return items;
    const most = this.#rowsOfClient(maxRows);
    items.sort(byWait);
    for (const share of this.#shares.all()) share.numDecodes = 0;
    let count = 0;
    for (let i = 0; i < items.length; i++) {
      const request = items[i]!;
      if (++request.share!.numDecodes <= most) items[count++] = request;
    }
    items.length = count;
    return items;
  }

  /** The most rows that one client may have so that all together have at most `maxRows`; one at least. */
  #rowsOfClient(maxRows: number): number {
    let most = 1;
    while (this.#numRows(most + 1) <= maxRows) most++;
    return most;
  }

  #numRows(most: number): number {
    let sum = 0;
    for (const { numDecodes } of this.#shares.all()) sum += Math.min(numDecodes, most);
    return sum;
  }
}

function byWait(a: Request, b: Request): number {
  return a.priority - b.priority || a.lastServedStep - b.lastServedStep || a.arrivalOrder - b.arrivalOrder;
}
