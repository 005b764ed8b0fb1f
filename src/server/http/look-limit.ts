// How often one client may look at what the dashboard shows: a picture of the cache is made in the engine's thread, between two steps, and
// a thousand steps are megabytes of JSON on the server's.

import type { Context, MiddlewareHandler } from "hono";
import { CapacityError } from "../../core/errors.js";
import type { AppEnv } from "../context.js";
import { clientOf } from "./auth.js";

const A_SECOND = 10;
/** Clients that are remembered; the one that has not looked for longest is forgotten first. */
const MOST_CLIENTS = 10_000;

interface Account {
  left: number;
  atMs: number;
}

/** A bucket of looks for each client; it holds those of two seconds. */
export class LookLimit {
  readonly #accounts = new Map<string, Account>(); // by client, who looked last is last
  readonly #clock: () => number;

  constructor(clock = (): number => performance.now()) {
    this.#clock = clock;
  }

  take(client: string, what: string): void {
    const nowMs = this.#clock();
    const { left, atMs } = this.#accounts.get(client) ?? { left: 2 * A_SECOND, atMs: nowMs };
    const account = { left: Math.min(2 * A_SECOND, left + ((nowMs - atMs) / 1000) * A_SECOND), atMs: nowMs };
    this.#accounts.delete(client);
    if (this.#accounts.size === MOST_CLIENTS) this.#accounts.delete(this.#accounts.keys().next().value!);
    this.#accounts.set(client, account);
    if (account.left < 1) throw new CapacityError("too_many_looks", { value: what, limit: A_SECOND, retryAfter: 1 });
    account.left--;
  }
}

export function limitLooks(limit: LookLimit): MiddlewareHandler<AppEnv> {
  return async (c: Context<AppEnv>, next) => {
    limit.take(clientOf(c), c.req.path);
    await next();
  };
}
