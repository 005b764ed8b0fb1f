// Responses that may be asked for again, or continued: the newest, within a bound on their number and size, each its tenant's own. Who
// keeps most gives way first, so that one tenant's many do not push out another's few.

import type { Tenant } from "../http/auth.js";
import type { InputItem } from "./responses-schema.js";

export interface StoredResponse {
  readonly response: Record<string, unknown> & { readonly id: string };
  /** The conversation up to and including the answer, without instructions. */
  readonly items: readonly InputItem[];
  /** How many of them were this request's own input. */
  readonly numInput: number;
}

interface Entry {
  readonly stored: StoredResponse;
  readonly owner: string;
  readonly size: number;
}

const LIMITS = { responses: 1000, bytes: 64 * 2 ** 20 };

export class ResponseStore {
  readonly #entries = new Map<string, Entry>(); // by id, oldest first
  readonly #limits: typeof LIMITS;
  #size = 0;

  constructor(limits = LIMITS) {
    this.#limits = limits;
  }

  put(tenant: Tenant, stored: StoredResponse): void {
    const size = 2 * (JSON.stringify(stored.items).length + JSON.stringify(stored.response).length);
    if (size > this.#limits.bytes) return;
    this.#entries.set(stored.response.id, { stored, owner: tenant.salt, size });
    this.#size += size;
    while (this.#entries.size > this.#limits.responses || this.#size > this.#limits.bytes)
      this.#drop(this.#oldestOfLargest());
  }

  /** null: never kept, gone, or another tenant's. */
  get(tenant: Tenant, id: string): StoredResponse | null {
    const entry = this.#entries.get(id);
    return entry !== undefined && entry.owner === tenant.salt ? entry.stored : null;
  }

  delete(tenant: Tenant, id: string): boolean {
    if (this.get(tenant, id) === null) return false;
    this.#drop(id);
    return true;
  }

  /** Of the tenant whose responses take up most of both bounds together. */
  #oldestOfLargest(): string {
    const shares = new Map<string, { share: number; oldest: string }>();
    let largest = { share: -1, oldest: "" };
    for (const [id, { owner, size }] of this.#entries) {
      const held = shares.get(owner) ?? { share: 0, oldest: id };
      held.share += size / this.#limits.bytes + 1 / this.#limits.responses;
      shares.set(owner, held);
      if (held.share > largest.share) largest = held;
    }
    return largest.oldest;
  }

  #drop(id: string): void {
    this.#size -= this.#entries.get(id)!.size;
    this.#entries.delete(id);
  }
}
