// Who is in the cluster, as heard: every renewal of an entry says that its member lives, and so does anything else it says. By the
// listener's own clock: clocks of machines differ.

import type { Subscription } from "@nats-io/transport-node";
import type { Mailbox } from "../bus/mailbox.js";
import { Subjects } from "../bus/subjects.js";
import { readSaid } from "./entry-check.js";
import type { Lease } from "./lease.js";
import type { MemberEntry, ReplicaEntry } from "./registration.js";

interface Heard<Entry extends MemberEntry> {
  entry: Entry;
  heardMs: number;
}

export interface MembersListener {
  /** A replica is here, or says something new of itself. */
  onReplica(entry: ReplicaEntry): void;
  /** One of another version, whose entry has another shape. */
  onForeign?(entry: Pick<ReplicaEntry, "id" | "version" | "protocol">): void;
  /** A replica left, or has been silent for a lease. */
  onLost(id: string, reason: string): void;
}

export class Members {
  readonly #mailbox: Mailbox;
  readonly #listeners = new Set<MembersListener>();
  readonly #heard = new Map<string, Heard<MemberEntry>>(); // by id
  #subscription: Subscription | null = null;

  constructor(mailbox: Mailbox) {
    this.#mailbox = mailbox;
  }

  follow(listener: MembersListener): () => void {
    this.#listeners.add(listener);
    for (const entry of this.replicas()) listener.onReplica(entry);
    return () => this.#listeners.delete(listener);
  }

  /** Hears renewals from now on, and takes those who are there already from the bucket. */
  async start(lease: Lease): Promise<void> {
    const { nats, subjects } = this.#mailbox;
    const callback = (error: Error | null, { data, subject }: { data: Uint8Array; subject: string }): void => {
      if (error === null) this.#hear(Subjects.memberOf(subject), data);
    };
    this.#subscription = nats.subscribe(subjects.entries, { callback });
    for (const entry of await lease.list()) this.#take(entry);
  }

  replicas(): ReplicaEntry[] {
    return [...this.#heard.values()].flatMap(({ entry }) => (entry.kind === "replica" ? [entry] : []));
  }

  get(id: string): ReplicaEntry | null {
    const entry = this.#heard.get(id)?.entry;
    return entry?.kind === "replica" ? entry : null;
  }

  /** It said something, whatever it was. */
  noteLife(id: string): void {
    const heard = this.#heard.get(id);
    if (heard !== undefined) heard.heardMs = performance.now();
  }

  /** Forgets those who have been silent for their lease. */
  expire(): void {
    const nowMs = performance.now();
    for (const [id, { entry, heardMs }] of this.#heard) {
      if (nowMs - heardMs > entry.leaseMs) this.lose(id, `it has not been heard for ${entry.leaseMs / 1000} s`);
    }
  }

  lose(id: string, reason: string): void {
    const entry = this.#heard.get(id)?.entry;
    this.#heard.delete(id);
    if (entry?.kind === "replica") for (const listener of this.#listeners) listener.onLost(id, reason);
  }

  close(): void {
    this.#subscription?.unsubscribe();
  }

  #hear(id: string, data: Uint8Array): void {
    const { seal } = this.#mailbox;
    const isDeleted = data.length === 0 && !seal.isRequired;
    const said = isDeleted ? ({ type: "left", id } as const) : readSaid(seal, data);
    if (said?.type === "entry" && said.entry.id === id) this.#take(said.entry);
    else if (said?.type === "left" && said.id === id) this.lose(id, "it left the cluster");
    else if (said?.type === "foreign" && said.entry.kind === "replica")
      for (const listener of this.#listeners) listener.onForeign?.(said.entry);
  }

  #take(entry: MemberEntry): void {
    this.#heard.set(entry.id, { entry, heardMs: performance.now() });
    if (entry.kind === "replica") for (const listener of this.#listeners) listener.onReplica(entry);
  }
}
