// Whose requests the last calls were: for the dashboard, which shows each tenant its own.

import type { Tenant } from "./auth.js";

/** More than the calls that a thousand steps can speak of, in practice. */
const CAPACITY = 20_000;

export class Owners {
  readonly #names = new Map<string, string>(); // tenant by call id, oldest first

  note(callId: string, tenant: Tenant): void {
    if (this.#names.size === CAPACITY) this.#names.delete(this.#names.keys().next().value!);
    this.#names.set(callId, tenant.name);
  }

  /** Whether a request of the engine is this tenant's: a call's own, one of its further prompts (-1), or of its samples (#1). */
  isOf(requestId: string, tenant: Tenant): boolean {
    const call = requestId.replace(/#\d+$/, "");
    return (this.#names.get(call) ?? this.#names.get(call.replace(/-\d+$/, ""))) === tenant.name;
  }
}
