// Whose turn it is, against a plain search: each client's prompts in a list, and the least of their first ones by the rules.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { makeRequest, tokensOf } from "../../../test/support/simulation.js";
import { hasWaitedLonger, isPrefill, type Request } from "../../core/request.js";
import { RequestQueue } from "../request-queue.js";
import { type ClientShare, ClientShares, shareOf } from "./client-shares.js";
import { FairOrder } from "./fair-order.js";

const asked = fc.record({
  client: fc.nat(5),
  priority: fc.integer({ min: -1, max: 1 }),
  state: fc.constantFrom("running" as const, "waiting" as const),
  lastServedStep: fc.nat(3),
  promptLen: fc.integer({ min: 1, max: 6 }),
  numComputed: fc.nat(3),
});

const worlds = fc.record({
  requests: fc.array(asked, { minLength: 1, maxLength: 16 }),
  served: fc.array(fc.integer({ min: -3, max: 3 }), { minLength: 6, maxLength: 6 }),
  lastServed: fc.array(fc.nat(3), { minLength: 6, maxLength: 6 }),
  /** What each turn costs; null: there are no pages for it. */
  turns: fc.array(fc.option(fc.nat(6), { freq: 8 }), { minLength: 16, maxLength: 16 }),
  numTurns: fc.nat(16),
});

/** The same order, searched for. */
class PlainOrder {
  readonly lists = new Map<ClientShare, Request[]>();
  readonly short = new Map<ClientShare, number>();
  #waiters = "open";
  #blockedPriority = 0;

  constructor(running: Request[], waiting: Request[]) {
    const prompts = [...running.filter(isPrefill), ...waiting];
    for (const request of prompts) this.lists.set(shareOf(request), []);
    for (const [share, list] of this.lists) {
      const own = prompts.filter((request) => request.share === share);
      const first = own.reduce((best, request) => (hasWaitedLonger(request, best) ? request : best));
      const rest = own.filter((request) => request !== first);
      list.push(first, ...rest.sort((a, b) => a.priority - b.priority)); // stable: running before waiting
    }
  }

  get first(): ClientShare | null {
    let best: ClientShare | null = null;
    for (const share of this.lists.keys()) {
      if (this.lists.get(share)!.length > 0 && (best === null || this.#isBefore(share, best))) best = share;
    }
    return best;
  }

  get next(): Request | null {
    return this.first === null ? null : this.lists.get(this.first)![0]!;
  }

  get rivals(): ClientShare[] {
    return [...this.lists.keys()].filter((share) => this.lists.get(share)![0]?.priority === this.next?.priority);
  }

  pass(): void {
    const { first } = this;
    this.lists.get(first!)!.shift();
    if (this.#waiters !== "open") this.#skipWaiting(first!);
  }

  blockWaiting(): void {
    this.#waiters = this.first!.numRunning > 0 ? "idle-clients-only" : "blocked";
    this.#blockedPriority = this.next!.priority;
    for (const share of this.lists.keys()) this.#skipWaiting(share);
  }

  close(): void {
    for (const [share, [request]] of this.lists) if (request !== undefined) this.#leaveShort(share, request);
  }

  #skipWaiting(share: ClientShare): void {
    const list = this.lists.get(share)!;
    if (this.#waiters === "idle-clients-only" && share.numRunning === 0 && list[0]?.priority === this.#blockedPriority)
      return;
    while (list[0]?.state === "waiting") this.#leaveShort(share, list.shift()!);
  }

  #leaveShort(share: ClientShare, { priority }: Request): void {
    if (!this.short.has(share)) this.short.set(share, priority);
  }

  #isBefore(one: ClientShare, other: ClientShare): boolean {
    const keysOf = (share: ClientShare): number[] => {
      const { priority, lastServedStep, numTokens, numComputed, arrivalOrder } = this.lists.get(share)![0]!;
      const step = Math.max(lastServedStep, share.lastServedStep);
      return [priority, share.served, step, numTokens - numComputed, arrivalOrder];
    };
    const [a, b] = [keysOf(one), keysOf(other)];
    const place = a.findIndex((key, i) => key !== b[i]);
    return place >= 0 && a[place]! < b[place]!;
  }
}

test("property: turns, rivals and lags are those that a plain search finds, whatever is charged and wherever pages run out", () => {
  fc.assert(
    fc.property(fc.array(worlds, { minLength: 1, maxLength: 2 }), (steps) => {
      const shares = new ClientShares();
      const order = new FairOrder(shares); // one for all steps: nothing of the last may be left
      for (let client = 0; client < 6; client++) shares.open(makeRequest("stays", [1], { client: `c${client}` }));
      for (const { requests, served, lastServed, turns, numTurns } of steps) {
        const queues = { running: new RequestQueue(), waiting: new RequestQueue() };
        const all = requests.map((one, arrivalOrder) => {
          const { client, priority, state, lastServedStep, promptLen, numComputed } = one;
          const request = makeRequest(`${arrivalOrder}`, tokensOf(1, promptLen), { client: `c${client}`, priority });
          if (state === "running" && numComputed >= promptLen) request.appendToken(1); // it writes
          Object.assign(request, { state, lastServedStep, arrivalOrder });
          if (state === "running") request.numComputed = Math.min(numComputed, promptLen);
          shares.open(request);
          const share = shareOf(request);
          Object.assign(share, { served: served[client]!, lastServedStep: lastServed[client]!, isShort: false });
          if (state === "running") share.numRunning++;
          queues[state].insert(request);
          return request;
        });
        order.arrange(queues.running, queues.waiting);
        const plain = new PlainOrder([...queues.running], [...queues.waiting]);
        const check = (): void => {
          const { next, first, rivals } = plain;
          assert.equal(order.next?.id, next?.id);
          if (first === null) return;
          assert.equal(order.numRivals, rivals.length);
          for (const most of [0, 2, 50]) {
            const lags: number[] = rivals
              .filter((share) => share !== first)
              .map((share) => share.served - first.served);
            assert.equal(order.lag(most), Math.min(most, ...lags));
          }
        };
        for (const [share, [first]] of plain.lists) assert.equal(share.priority, first!.priority);
        check();
        for (const turn of turns.slice(0, numTurns)) {
          if (plain.next === null) break;
          if (turn === null && plain.next.state === "waiting") {
            plain.blockWaiting();
            order.blockWaiting();
          } else {
            const { first } = plain;
            plain.pass(); // the charge comes before the turn is passed, and moves nobody else
            first!.served += turn ?? 0;
            order.pass();
          }
          check();
        }
        plain.close();
        order.close();
        for (const share of shares.all) {
          assert.equal(share.isShort, plain.short.has(share));
          if (share.isShort) assert.equal(share.priority, plain.short.get(share));
        }
        for (const request of all) {
          if (request.state === "running") shareOf(request).numRunning--;
          shares.close(request);
        }
        for (const share of shares.all) share.isShort = false;
      }
    }),
    { seed: 6, numRuns: 500 },
  );
});

test("many prompts of one client have their turns in order", () => {
  const shares = new ClientShares();
  const waiting = new RequestQueue();
  for (let i = 0; i < 200; i++) {
    const request = Object.assign(makeRequest(`${i}`, [1, 2], { client: "a" }), { arrivalOrder: i });
    shares.open(request);
    waiting.insert(request);
  }
  const order = new FairOrder(shares);
  order.arrange(new RequestQueue(), waiting);
  for (let i = 0; i < 200; i++) {
    assert.equal(order.next?.id, `${i}`);
    order.pass();
  }
  assert.equal(order.next, null);
});
