// The clients' accounts, against the rule written down plainly.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { makeRequest } from "../../../test/support/simulation.js";
import type { Request } from "../../core/request.js";
import { ClientShares, shareOf } from "./client-shares.js";

const LIMIT = 20;

interface Account {
  served: number;
  priority: number;
  isShort: boolean;
  numRequests: number;
}

class PlainAccounts {
  readonly accounts = new Map<string, Account>();
  /** Of the prompts charged in this step. */
  readonly charged: number[] = [];

  get size(): number {
    return [...this.accounts.values()].filter(({ numRequests }) => numRequests > 0).length;
  }

  open(client: string): void {
    const account = this.accounts.get(client) ?? { served: 0, priority: 0, isShort: false, numRequests: 0 };
    account.numRequests++;
    this.accounts.set(client, account);
  }

  close(client: string): void {
    const account = this.accounts.get(client)!;
    if (--account.numRequests === 0 && this.size <= 1) this.level();
  }

  level(): void {
    for (const [client, account] of this.accounts) {
      account.served = 0;
      if (account.numRequests === 0) this.accounts.delete(client);
    }
  }

  settle(): void {
    const worst = Math.max(...this.charged); // -Infinity: nothing was served, nothing has changed
    for (const priority of new Set([...this.accounts.values()].map((account) => account.priority))) {
      if (priority > worst) continue;
      const same = [...this.accounts.values()].filter((account) => account.priority === priority);
      const short = same.filter(({ isShort }) => isShort).map(({ served }) => served);
      for (const account of same) {
        const least = account.isShort ? -LIMIT : 0;
        account.served = short.length === 0 ? 0 : Math.min(LIMIT, Math.max(least, account.served - Math.max(...short)));
      }
    }
    for (const [client, account] of this.accounts) {
      account.isShort = false;
      if (account.numRequests === 0 && (account.served === 0 || account.priority > worst)) this.accounts.delete(client);
    }
    this.charged.length = 0;
  }
}

const events = fc.array(
  fc.record({
    what: fc.constantFrom("open", "open", "close", "close", "charge", "charge", "charge", "short", "short", "settle"),
    which: fc.nat(30),
    client: fc.nat(4),
    priority: fc.constantFrom(0, 0, 0, 0, 0, 0, 1, -1),
    cost: fc.integer({ min: 1, max: 15 }),
  }),
  { minLength: 100, maxLength: 200 },
);

test("property: whoever was left short is compared with those of its priority; what others are owed is let go", () => {
  fc.assert(
    fc.property(events, (happened) => {
      const [shares, plain] = [new ClientShares(), new PlainAccounts()];
      const live: Request[] = [];
      for (const { what, which, client: number, priority, cost } of happened) {
        const client = `c${number}`;
        const request = live[which % live.length];
        if (what === "open") {
          live.push(makeRequest("r", [1], { client, priority }));
          shares.open(live.at(-1)!);
          plain.open(client);
          // The order of turns says at which priority the client is; here it is that of its newest request.
          shareOf(live.at(-1)!).priority = plain.accounts.get(client)!.priority = priority;
        } else if (what === "settle") {
          shares.endStep(LIMIT);
          plain.settle();
        } else if (request !== undefined) {
          const account = plain.accounts.get(request.client)!;
          if (what === "close") {
            shares.close(request);
            plain.close(request.client);
            live.splice(which % live.length, 1);
          } else if (what === "charge") {
            shares.charge(request, cost);
            account.served += cost;
            plain.charged.push(request.priority);
          } else {
            shares.leaveShort(request);
            if (!account.isShort) Object.assign(account, { isShort: true, priority: request.priority });
          }
        }
        const seen = shares.all.map(({ client: name, served, priority: at, isShort, numRequests }) => [
          name,
          { served: served + 0, priority: at, isShort, numRequests },
        ]);
        const sorted = (accounts: unknown[][]) => accounts.toSorted(([a], [b]) => (String(a) < String(b) ? -1 : 1));
        assert.deepEqual(sorted(seen), sorted([...plain.accounts]));
        assert.equal(shares.size, plain.size);
        for (const one of live) assert.ok(shares.all.includes(shareOf(one)));
      }
    }),
    { seed: 7, numRuns: 100 },
  );
});
