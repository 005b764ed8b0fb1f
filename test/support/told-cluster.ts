// A router and the line to its replicas, which say what a test tells them to: what it sends is kept, and nothing travels.

import { Subjects } from "../../src/cluster/bus/subjects.js";
import { PROTOCOL } from "../../src/cluster/bus/wire.js";
import type { MembersListener } from "../../src/cluster/membership/members.js";
import type { ReplicaEntry, ReplicaFacts, ReplicaLoad } from "../../src/cluster/membership/registration.js";
import { type Line, Router } from "../../src/cluster/router/router.js";
import { SAMPLING_DEFAULTS } from "../../src/core/sampling.js";
import type { AddMessage } from "../../src/engine/messages.js";

export const LEASE_MS = 60_000;

export class ToldLine implements Line {
  readonly member = "me";
  readonly subjects = new Subjects("test");
  isConnected = true;
  onReconnect = (): void => undefined;
  onUnsupported: (from: string) => void = () => undefined;
  #sent: [to: string, message: Record<string, unknown>][] = [];
  readonly #listeners = new Map<string, (message: { readonly from: string }, subject: string) => void>();

  send(to: string, message: object): void {
    this.#sent.push([to, { ...message }]);
  }

  /** To everybody. */
  publish(subject: string, message: object): void {
    this.#sent.push([subject, { ...message }]);
  }

  listen(subject: string, listener: (message: { readonly from: string }, subject: string) => void): void {
    this.#listeners.set(subject, listener);
  }

  /** Another member says something to this one. */
  hear(from: string, message: object): void {
    const subject = this.subjects.inbox(this.member);
    this.#listeners.get(subject)!({ ...message, from }, subject);
  }

  /** A replica says to everybody which prefixes it holds. */
  hearPrefixes(from: string, message: object): void {
    this.#listeners.get(this.subjects.prefixes("*"))!({ ...message, from }, this.subjects.prefixes(from));
  }

  /** What was sent since the last time. */
  taken(): [to: string, message: Record<string, unknown>][] {
    const sent = this.#sent;
    this.#sent = [];
    return sent;
  }
}

export class ToldCluster implements Disposable {
  readonly line = new ToldLine();
  readonly router: Router;
  members!: MembersListener;
  readonly alive: string[] = [];
  numExpired = 0;
  isClosed = false;
  nowMs = 1000;

  constructor(leaseMs = LEASE_MS) {
    const membership = {
      follow: (listener: MembersListener) => {
        this.members = listener;
        return () => undefined;
      },
      noteLife: (id: string) => void this.alive.push(id),
      expire: () => void this.numExpired++,
      close: () => {
        this.isClosed = true;
      },
    };
    this.router = new Router(this.line, membership as never, leaseMs, () => this.nowMs);
  }

  [Symbol.dispose](): void {
    this.router.close();
  }
}

const IDLE: ReplicaLoad = {
  ...{ tokensPerSecond: 1000, meanCallMs: 100, running: 0, waiting: 0, pagesUsed: 0, pagesTotal: 0, pagesCached: 0 },
  ...{ promptTokens: 0, cachedTokens: 0, generatedTokens: 0, requestsFinished: 0, callsFailed: 0, callsRefused: 0 },
  ...{ pagesFetched: 0, fetchesFailed: 0, calls: { count: 0, queued: [] }, callsOf: {} },
};

export interface EntryOptions extends Partial<Omit<ReplicaEntry, "facts" | "load">> {
  readonly facts?: Partial<ReplicaFacts>;
  readonly load?: Partial<ReplicaLoad>;
}

export function entryOf(id: string, { facts = {}, load = {}, ...more }: EntryOptions = {}): ReplicaEntry {
  return {
    ...{ kind: "replica", id, model: "m", vocabulary: "v", version: "1", protocol: PROTOCOL, role: "both" },
    ...{ exchangesPages: false, address: "", startedMs: 0, leaseMs: LEASE_MS, state: "ready", slots: 2, maxQueued: 2 },
    facts: {
      pageSize: 4,
      pageBytes: 64,
      identity: "same",
      maxContext: 512,
      poolTokens: null,
      ...facts,
    } as ReplicaFacts,
    load: { ...IDLE, ...load },
    ...more,
  } as ReplicaEntry;
}

export function addOf(
  callId: string,
  { n = 1, length = 9, ...more }: Partial<AddMessage> & { n?: number; length?: number } = {},
): AddMessage {
  return {
    ...{ type: "add", callId, kind: "generate", priority: 0, salt: "", client: "c", arrivalMs: 0, constraint: null },
    prompt: Int32Array.from({ length }, (_, i) => i + 1),
    sampling: { ...SAMPLING_DEFAULTS, n, maxTokens: 10, seed: 1 },
    ...more,
  } as AddMessage;
}
