// API keys and tenants. Keys are compared by digest in constant time, every key every time; each key has its own salt, so that
// one key's cached prefixes never serve another's prompts (their timing would tell what was asked). Salts are in page files and cross
// the network of a cluster, so they are made by a slow function: trying guesses of a key costs 16 MiB and tens of milliseconds each.

import { createHash, scryptSync, timingSafeEqual } from "node:crypto";
import type { Context, MiddlewareHandler } from "hono";
import type { AppEnv } from "../context.js";
import { ApiError } from "./api-error.js";

export interface Tenant {
  /** Short and harmless: for logs. */
  readonly name: string;
  /** Prefix of the cache salt of all its requests. */
  readonly salt: string;
  /** Sees everybody's requests. */
  readonly isAdmin: boolean;
}

const NOBODY: Tenant = { name: "anonymous", salt: "", isAdmin: true };

export class KeyRing {
  readonly #keys: readonly string[];
  readonly #digests: readonly Buffer[];
  readonly #tenants: (Tenant | undefined)[] = []; // by key, once it was used
  readonly #numPlain: number;

  constructor(keys: readonly string[], adminKeys: readonly string[] = []) {
    this.#keys = [...keys, ...adminKeys];
    this.#digests = this.#keys.map(digest);
    this.#numPlain = keys.length;
  }

  get size(): number {
    return this.#digests.length;
  }

  /** The tenant of a key; null when the key is not known. Without keys everybody is the same tenant. */
  tenantOf(key: string | null): Tenant | null {
    if (this.#digests.length === 0) return NOBODY;
    const given = digest(key ?? "");
    let found = -1;
    for (let i = 0; i < this.#digests.length; i++) if (timingSafeEqual(given, this.#digests[i]!)) found = i;
    if (found < 0 || key === null) return null;
    const tenant = this.#tenants[found] ?? tenantOf(key, found >= this.#numPlain);
    this.#tenants[found] = tenant;
    return tenant;
  }

  /** Who has this salt now; null: the key is none of ours any more. It takes tens of milliseconds for each key that was not used yet. */
  holderOf(salt: string): Tenant | null {
    const tenants = this.size === 0 ? [NOBODY] : this.#keys.map((key) => this.tenantOf(key)!);
    return tenants.find((tenant) => tenant.salt === salt) ?? null;
  }
}

/** By the key, not by its position: keys can be added and removed without mixing up tenants. */
function tenantOf(key: string, isAdmin: boolean): Tenant {
  const salt = scryptSync(key, "pagoda: cache salt of a key", 32).toString("base64url");
  return { name: `key-${salt.slice(0, 6)}`, salt, isAdmin };
}

/** Whose request it is, to the engine: its key's, or without keys its address's. */
export function clientOf(c: Context<AppEnv>): string {
  return c.get("tenant").salt || c.get("address");
}

function digest(key: string): Buffer {
  return createHash("sha256").update(key).digest();
}

/** Refuses requests without a known key, and tells the others whose they are. */
export function authenticate(keys: KeyRing): MiddlewareHandler<AppEnv> {
  return async (c, next) => {
    const { batchOf } = c.env ?? {};
    if (batchOf !== undefined) {
      c.set("tenant", batchOf); // it was asked for its key when it sent the batch
      return next();
    }
    const bearer = /^Bearer\s+(\S+)$/i.exec(c.req.header("authorization") ?? "")?.[1];
    const key = bearer ?? c.req.header("x-api-key") ?? null;
    const tenant = keys.tenantOf(key);
    if (tenant === null) {
      const message =
        key === null
          ? "No API key was given. Send it as `Authorization: Bearer KEY`."
          : "The API key is not one of this server's.";
      throw new ApiError("invalid_api_key", message, { headers: { "www-authenticate": "Bearer" } });
    }
    c.set("tenant", tenant);
    await next();
  };
}
