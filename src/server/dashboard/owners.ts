// Whose requests the last calls were: for the dashboard, which shows each tenant its own.

import type { Tenant } from "../http/auth.js";

/** More than the calls that a thousand steps can speak of, in practice. */
const CAPACITY = 20_000;

export class Owners {
  readonly #salts = new Map<string, string>(); // the tenant's by call id, oldest first

  note(callId: string, tenant: Tenant): void {
    if (this.#salts.size === CAPACITY) this.#salts.delete(this.#salts.keys().next().value!);
    this.#salts.set(callId, tenant.salt);
  }

  /** Whether a request of the engine is this tenant's: a call's own, one of its further prompts (-1), or of its samples (#1). */
  isOf(requestId: string, tenant: Tenant): boolean {
    const call = requestId.replace(/#\d+$/, "");
    return (this.#salts.get(call) ?? this.#salts.get(call.replace(/-\d+$/, ""))) === tenant.salt;
  }
}
