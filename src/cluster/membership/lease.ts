// A member's entry in the cluster's bucket, renewed three times in each lease. Whoever follows the bucket hears every renewal; an entry that is not
// renewed is forgotten by those who follow after one lease, and dropped by NATS itself after two.

import type { KV } from "@nats-io/kv";
import { ConfigError } from "../../core/errors.js";
import { natsClient } from "../bus/connection.js";
import type { Mailbox } from "../bus/mailbox.js";
import { retry } from "../bus/retry.js";
import { ENTRY, farewellOf, readEntry } from "./entry-check.js";
import type { MemberEntry } from "./registration.js";

export const BEATS_PER_LEASE = 3;
/** How long a member that joins waits for the bucket. */
const JOIN_MS = 10_000;
const AGAIN_MS = 100;

export class Lease {
  readonly #mailbox: Mailbox;
  readonly #leaseMs: number;
  #entryOf: (() => MemberEntry) | null = null;
  #bucket: Promise<KV> | null = null;
  #timer: NodeJS.Timeout | null = null;
  #isEnded = false;
  #renewedMs = Number.NEGATIVE_INFINITY;

  constructor(mailbox: Mailbox, leaseMs: number) {
    this.#mailbox = mailbox;
    this.#leaseMs = leaseMs;
  }

  /** All entries that NATS has. Opens the bucket, which is made if it is not there. */
  async list(): Promise<MemberEntry[]> {
    const bucket = await retry(() => this.#open(), JOIN_MS);
    const entries: MemberEntry[] = [];
    const keys = new Set<string>(); // one that is renewed meanwhile is named twice
    for await (const key of await bucket.keys()) keys.add(key);
    for (const key of keys) {
      const entry = await bucket.get(key);
      const read = entry?.operation === "PUT" ? readEntry(this.#mailbox.seal, entry.value) : null;
      if (read !== null) entries.push(read);
    }
    return entries;
  }

  /** Registers, and renews from now on with what `entryOf` says then. Rejects when the first time fails. */
  async hold(entryOf: () => MemberEntry): Promise<void> {
    this.#entryOf = entryOf;
    await retry(() => this.#put(), JOIN_MS);
    this.#timer = setInterval(() => void this.renew(), this.#leaseMs / BEATS_PER_LEASE);
  }

  /**
   * At once, because something changed. Never rejects: without NATS the next beat tries again. Does not wait for the renewal before it: those
   * who follow hear a put when it is sent, whether NATS confirms it in time or not.
   */
  async renew(): Promise<void> {
    this.#renewedMs = performance.now();
    if (this.#isEnded || !this.#mailbox.isConnected) return;
    await this.#put().catch(() => undefined);
  }

  /** As renew(), unless that was only just done: what changed so soon again waits for the next beat. */
  renewNow(): void {
    if (performance.now() - this.#renewedMs >= AGAIN_MS) void this.renew();
  }

  /** The member leaves: its entry goes at once. */
  async end(): Promise<void> {
    this.#isEnded = true;
    clearInterval(this.#timer ?? undefined);
    if (this.#entryOf === null || !this.#mailbox.isConnected) return;
    const { seal } = this.#mailbox;
    try {
      const [bucket, entry] = [await this.#bucket, this.#entryOf()];
      if (seal.isRequired) await bucket?.put(keyOf(entry), seal.close(ENTRY, farewellOf(entry.id)));
      await bucket?.delete(keyOf(entry));
    } catch {
      // it expires by itself
    }
  }

  async #put(): Promise<void> {
    const bucket = await this.#open();
    const entry = this.#entryOf!();
    if (this.#isEnded) return;
    try {
      await bucket.put(keyOf(entry), this.#mailbox.seal.close(ENTRY, Buffer.from(JSON.stringify(entry))));
    } catch (error) {
      this.#bucket = null; // a server that lost its state has lost the bucket too
      throw error;
    }
  }

  #open(): Promise<KV> {
    this.#bucket ??= this.#make();
    return this.#bucket;
  }

  async #make(): Promise<KV> {
    const { Kvm } = await natsClient(() => import("@nats-io/kv"));
    const { nats, subjects } = this.#mailbox;
    try {
      return await new Kvm(nats).create(subjects.bucket, { history: 1, ttl: 2 * this.#leaseMs });
    } catch (error) {
      this.#bucket = null;
      throw new ConfigError("nats_unreachable", { value: nats.getServer(), reason: (error as Error).message });
    }
  }
}

function keyOf({ kind, id }: MemberEntry): string {
  return `${kind}.${id}`;
}
