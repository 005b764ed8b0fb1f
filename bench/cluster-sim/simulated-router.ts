// A router without NATS: the real view of the cluster, prefix map, placement and choice, over a line that delivers at once, and a clock
// that the simulation turns.

import { Subjects } from "../../src/cluster/bus/subjects.js";
import { type AddCall, PROTOCOL, type WireOutput, wordsToText } from "../../src/cluster/bus/wire.js";
import type { MembersListener } from "../../src/cluster/membership/members.js";
import type { ReplicaEntry, ReplicaLoad } from "../../src/cluster/membership/registration.js";
import type { Policy } from "../../src/cluster/router/choose.js";
import { Placement } from "../../src/cluster/router/placement.js";
import { RoutedCall } from "../../src/cluster/router/routed-call.js";
import { type Attempt, type AttemptOwner, type Line, Router } from "../../src/cluster/router/router.js";
import { CapacityError } from "../../src/core/errors.js";
import { SAMPLING_DEFAULTS } from "../../src/core/sampling.js";
import type { AddMessage } from "../../src/engine/messages.js";
import { PAGE_SIZE, type SimulatedReplica, SLOTS } from "./simulated-replica.js";
import { type Turn, tokensOf } from "./traffic.js";

const MODEL = "simulated";
const LEASE_MS = 3000;
const MAX_QUEUED = 32;
/** Page size of replicas as a choice that does not look at prefixes sees them: no prompt has a page of it, so nothing is hashed or looked up. */
const NO_PAGES = 2 ** 30;

type Listener = Parameters<Line["listen"]>[1];

export class SimulatedRouter implements AttemptOwner {
  readonly #router: Router;
  readonly #placement: Placement;
  readonly #subjects = new Subjects(MODEL);
  readonly #listeners = new Map<string, Listener>(); // by subject
  readonly #seqs = new Map<string, number>();
  readonly #pageSize: number;
  #members!: MembersListener;
  #onAdd: (replica: string, message: AddCall) => void = () => undefined;
  #numCalls = 0;

  constructor(policy: Policy, looksAtPrefixes: boolean, clock: () => number) {
    this.#pageSize = looksAtPrefixes ? PAGE_SIZE : NO_PAGES;
    const line: Line = {
      member: "router",
      subjects: this.#subjects,
      isConnected: true,
      send: (to, message) => this.#send(to, message as AddCall),
      listen: (subject, listener) => this.#listeners.set(subject, listener),
      onReconnect: () => undefined,
      onUnsupported: () => undefined,
    };
    const members = {
      follow: (listener: MembersListener) => {
        this.#members = listener;
        return () => undefined;
      },
      noteLife: () => undefined,
      expire: () => undefined,
      close: () => undefined,
    };
    this.#router = new Router(line, members, LEASE_MS, clock);
    const options = { model: MODEL, vocabulary: MODEL, prefillTokens: Number.POSITIVE_INFINITY, policy };
    this.#placement = new Placement(this.#router, options);
  }

  /** A replica is here, or says something new of itself. */
  hear(replica: SimulatedReplica): void {
    this.#members.onReplica(entryOf(replica, this.#pageSize));
  }

  /** What the replica's cache has taken up and given up since the last time. */
  hearPrefixes({ id, journal }: SimulatedReplica): void {
    const seq = (this.#seqs.get(id) ?? -1) + 1;
    this.#seqs.set(id, seq);
    const message = { from: id, type: "prefixes", epoch: 1, seq, isSnapshot: seq === 0 } as const;
    const subject = this.#subjects.prefixes(id);
    const changes = wordsToText(journal!.take());
    this.#listeners.get(this.#subjects.prefixes("*"))!({ ...message, changes } as { from: string }, subject);
  }

  /** Sends a request where it is to go; false: all replicas are full. `add` hears which that is. */
  route(turn: Turn, nowMs: number, add: (replica: number, id: string, prompt: readonly number[]) => void): boolean {
    const message: AddMessage = {
      type: "add",
      callId: String(this.#numCalls++),
      kind: "generate",
      prompt: tokensOf(turn),
      sampling: { ...SAMPLING_DEFAULTS, maxTokens: turn.answerTokens, seed: 0 },
      priority: 0,
      salt: "",
      arrivalMs: nowMs,
      constraint: null,
    };
    const call = new RoutedCall(message);
    const choice = this.#placement.choose(call);
    if (choice === null || choice instanceof CapacityError) return false;
    this.#onAdd = (replica, { id, prompt }) => add(Number(replica), id, prompt);
    this.#router.start(choice.chosen, call.requests(-1)[0]!, call.keysFor(this.#pageSize), this);
    return true;
  }

  /** What a replica has said of a call. */
  hearOutput(from: string, output: WireOutput): void {
    const message = { from, type: "outputs", outputs: [output] };
    this.#listeners.get(this.#subjects.inbox("router"))!(message, "");
  }

  onOutput(attempt: Attempt, { finishReason }: WireOutput): void {
    if (finishReason !== undefined) this.#router.forget(attempt);
  }

  onLost(): void {}

  onFlush(): void {}

  close(): void {
    this.#router.close();
  }

  #send(to: string, message: AddCall | { readonly type: "prefixes" }): void {
    if (message.type === "add") this.#onAdd(to, message);
  }
}

function entryOf({ id, speed, meanCallMs }: SimulatedReplica, pageSize: number): ReplicaEntry {
  const load: ReplicaLoad = { ...NO_LOAD, tokensPerSecond: speed.tokensPerSecond, meanCallMs };
  return { ...ENTRY, facts: { ...ENTRY.facts, pageSize }, id, load };
}

const NO_LOAD: ReplicaLoad = {
  calls: { count: 0, queued: [] },
  callsOf: {},
  tokensPerSecond: 0,
  meanCallMs: 0,
  running: 0,
  waiting: 0,
  pagesUsed: 0,
  pagesTotal: 0,
  pagesCached: 0,
  promptTokens: 0,
  cachedTokens: 0,
  generatedTokens: 0,
  requestsFinished: 0,
  callsFailed: 0,
  callsRefused: 0,
  pagesFetched: 0,
  fetchesFailed: 0,
};

const ENTRY: Omit<ReplicaEntry, "id" | "load"> = {
  kind: "replica",
  model: MODEL,
  vocabulary: MODEL,
  version: "",
  protocol: PROTOCOL,
  role: "both",
  facts: {
    architecture: MODEL,
    vocabSize: 1,
    hiddenSize: 1,
    maxContext: 16_384,
    pageSize: PAGE_SIZE,
    poolTokens: null,
    device: "null",
    pageBytes: 0,
    identity: MODEL,
  } as ReplicaEntry["facts"],
  exchangesPages: false,
  address: "",
  startedMs: 0,
  leaseMs: LEASE_MS,
  state: "ready",
  slots: SLOTS,
  maxQueued: MAX_QUEUED,
};
