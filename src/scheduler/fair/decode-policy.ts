// Which decodes go into a step that several clients share, where there are more than it should have: each client has an equal part of
// the rows, what one does not need is for the others, and a client's own decodes take turns, the longest unserved first.
//
// Clients that all have many gain nothing by it: steps would be shorter and rows rarer for everybody. So a client may have more rows
// as long as the others do without fewer rows, all together, than take as long as the step itself. There the product of the clients'
// rates is greatest (proportional fairness): one row more of those who have many is worth what it costs all others.

import { canSample, isDecode, type Request } from "../../core/request.js";
import type { RequestQueue } from "../request-queue.js";
import { type ClientShares, shareOf } from "./client-shares.js";

export class DecodePolicy {
  readonly #shares: ClientShares;
  readonly #items: Request[] = []; // the first `count`: an array that is emptied gives its room back, and filling it allocates
  count = 0;

  constructor(shares: ClientShares) {
    this.#shares = shares;
  }

  at(index: number): Request {
    return this.#items[index]!;
  }

  /** `maxRows`: of steps that are short enough; `stepRows`: that take as long as the step itself. Valid until the next call. */
  arrange(running: RequestQueue, maxRows: number, stepRows: number): void {
    const items = this.#items;
    this.#clearCounts();
    this.count = 0;
    for (let i = 0; i < running.size; i++) {
      const request = running.at(i);
      if (!isDecode(request) || !canSample(request)) continue;
      items[this.count++] = request;
      shareOf(request).numDecodes++;
    }
    items.length = this.count; // nothing that is over is held
    if (items.length <= maxRows) return;
    const most = this.#rowsOfClient(items.length, maxRows, stepRows);
    items.sort(byWait);
    this.#clearCounts();
    this.count = 0;
    for (let i = 0; i < items.length; i++) {
      const request = items[i]!;
      if (++shareOf(request).numDecodes <= most) items[this.count++] = request;
    }
  }

  #clearCounts(): void {
    const { all } = this.#shares;
    for (let i = 0; i < all.length; i++) all[i]!.numDecodes = 0;
  }

  /** The most that one client may have; one at least. */
  #rowsOfClient(numDecodes: number, maxRows: number, stepRows: number): number {
    const { all } = this.#shares;
    for (let most = 1; ; most++) {
      // With one more for each client:
      let numRows = 0;
      let numUnused = 0;
      for (let i = 0; i < all.length; i++) {
        const { numDecodes: count } = all[i]!;
        if (count === 0) continue;
        numRows += Math.min(count, most + 1);
        numUnused += Math.max(0, most + 1 - count);
      }
      if (numRows > maxRows && numUnused > stepRows) return most;
      if (numRows === numDecodes) return most + 1; // all of them
    }
  }
}

function byWait(a: Request, b: Request): number {
  return a.priority - b.priority || a.lastServedStep - b.lastServedStep || a.arrivalOrder - b.arrivalOrder;
}
