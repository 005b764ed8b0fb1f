// A router's view of the cluster: which replicas there are, what they hold, what they are doing for this router and for others; and the line to
// them. What it knows is memory: any router can be killed, and a new one knows the same within a second.

import { ERRORS, errorFor } from "../../core/errors.js";
import type { WireError } from "../../engine/messages.js";
import type { Mailbox } from "../bus/mailbox.js";
import { Subjects } from "../bus/subjects.js";
import { type CallRequest, PROTOCOL, type ToRouter, type WireOutput } from "../bus/wire.js";
import { isToRouter } from "../bus/wire-check.js";
import { BEATS_PER_LEASE } from "../membership/lease.js";
import type { Members } from "../membership/members.js";
import type { ReplicaEntry } from "../membership/registration.js";
import { Backlog } from "./backlog.js";
import type { Candidate } from "./choose.js";
import { Journeys } from "./journeys.js";
import { PrefixHeat } from "./prefix-heat.js";
import { PrefixMap } from "./prefix-map.js";
import { RecentTimes } from "./recent-times.js";

/** A call, or a sample of it, at one replica. */
export interface Attempt {
  readonly id: string;
  readonly replica: string;
  /** Prompt tokens that the replica was expected to compute for it. */
  readonly newTokens: number;
  readonly priority: number;
  readonly owner: AttemptOwner;
  readonly startMs: number;
  hasBegun: boolean;
}

export interface AttemptOwner {
  onOutput(attempt: Attempt, output: WireOutput): void;
  onLost(attempt: Attempt, loss: Loss): void;
  /** All that came in one message has been told. */
  onFlush(): void;
}

/** Why an attempt ended before its time. */
export interface Loss {
  readonly reason: string;
  /** refused: it would not begin or go on; fault: it died, or its engine did; message: something said was not heard. */
  readonly kind: "refused" | "fault" | "message";
}

interface View {
  entry: ReplicaEntry;
  readonly attempts: Map<string, Attempt>;
  /** This router's attempts that have not begun. */
  readonly backlog: Backlog;
  /** What others had there when it was last heard. */
  otherCalls: number;
  otherQueued: Backlog;
  /** From sending a request there to its first token. */
  readonly firstTokenMs: RecentTimes;
}

export interface RouterListener {
  /** A replica came, went or changed. */
  onChange(): void;
}

const LOOK_MS = 100;

/** The line to the others, and who they are: over NATS, or within a simulation. */
export type Line = Pick<
  Mailbox,
  "member" | "subjects" | "isConnected" | "send" | "listen" | "onReconnect" | "onUnsupported"
>;
export type Membership = Pick<Members, "follow" | "noteLife" | "expire" | "close">;

export class Router {
  readonly mailbox: Line;
  readonly leaseMs: number;
  /** Calls that went on elsewhere. */
  numResumed = 0;
  /** Prompts that a prefill replica computed for another. */
  numPrefilled = 0;
  /** Replicas that left or were not heard any more. */
  numLost = 0;
  /** Hears of replicas that come and go. */
  onMember: (event: { readonly replica: string; readonly isHere: boolean; readonly reason: string | null }) => void =
    () => undefined;
  /** For those who look at it. */
  readonly journeys = new Journeys();
  readonly heat = new PrefixHeat();
  readonly #members: Membership;
  readonly #clock: () => number;
  readonly #views = new Map<string, View>();
  readonly #refused = new Set<string>();
  readonly #prefixes: PrefixMap;
  readonly #listeners = new Set<RouterListener>();
  readonly #timers: readonly NodeJS.Timeout[];
  #entries: readonly ReplicaEntry[] | null = null; // of the views
  #numAttempts = 0;

  constructor(mailbox: Line, members: Membership, leaseMs: number, clock = (): number => performance.now()) {
    this.mailbox = mailbox;
    this.leaseMs = leaseMs;
    this.#clock = clock;
    this.#members = members;
    this.#prefixes = new PrefixMap((replica) => mailbox.send(replica, { type: "prefixes" }));
    mailbox.listen(mailbox.subjects.inbox(mailbox.member), (message) => {
      if (isToRouter(message)) this.#take(message, message.from);
    });
    mailbox.listen(mailbox.subjects.prefixes("*"), (message, subject) => {
      if (isToRouter(message) && message.type === "prefixes") this.#prefixes.take(Subjects.memberOf(subject), message);
    });
    members.follow({
      onReplica: (entry) => this.#onReplica(entry),
      onForeign: (entry) => this.#refuse(entry),
      onLost: (id, reason) => this.#onLost(id, reason),
    });
    mailbox.onReconnect = () => this.#tellOpen();
    mailbox.onUnsupported = (from) => this.#onUnsupported(from);
    this.#timers = [
      setInterval(() => members.expire(), LOOK_MS),
      setInterval(() => this.#tellOpen(), leaseMs / BEATS_PER_LEASE),
    ];
  }

  follow(listener: RouterListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** The same list until one of them comes, goes or says something new: every request looks at all of them. */
  replicas(): readonly ReplicaEntry[] {
    this.#entries ??= [...this.#views.values()].map(({ entry }) => entry);
    return this.#entries;
  }

  /** Pages of prefixes that a replica is known to hold. */
  numPages(replica: string): number {
    return this.#prefixes.numPages(replica);
  }

  /** How long first tokens of this router's requests have taken there lately; null: there were none. */
  firstTokenMs(replica: string): { readonly p50: number; readonly p99: number } | null {
    const times = this.#views.get(replica)?.firstTokenMs;
    const [p50, p99] = [times?.percentile(0.5) ?? null, times?.percentile(0.99) ?? null];
    return p50 === null || p99 === null ? null : { p50, p99 };
  }

  /** Replicas that hold the page with this name, or are about to. */
  numHolders(key: number): number {
    return this.#prefixes.numHolders(key);
  }

  get numCalls(): number {
    return [...this.#views.values()].reduce((sum, { attempts }) => sum + attempts.size, 0);
  }

  /** Leading pages, of those with these names, that each replica holds; those that hold none are left out. */
  match(keys: readonly number[]): ReadonlyMap<string, number> {
    return this.#prefixes.match(keys, this.#clock());
  }

  /** What choosing needs to know of a replica that holds so many pages of a prompt. Calls of worse priority are in nobody's way. */
  candidate(id: string, heldPages: number, priority: number): Candidate {
    const { entry, attempts, backlog, otherCalls, otherQueued } = this.#views.get(id)!;
    const { slots, maxQueued, load } = entry;
    const ours = backlog.seenBy(priority);
    const others = otherQueued.seenBy(priority);
    return {
      id,
      heldTokens: heldPages * entry.facts.pageSize,
      calls: otherCalls + attempts.size - ours.numWorse - others.numWorse,
      slots,
      maxQueued,
      backlogTokens: ours.tokensAhead + others.tokensAhead,
      tokensPerSecond: load.tokensPerSecond,
      meanCallMs: load.meanCallMs,
    };
  }

  /** Sends a request to the replica that was chosen. */
  start(chosen: Candidate, request: CallRequest, keys: readonly number[], owner: AttemptOwner): Attempt {
    const id = (this.#numAttempts++).toString(36);
    const { id: replica, heldTokens, fetch } = chosen;
    const newTokens = Math.max(1, request.prompt.length - heldTokens - (fetch?.tokens ?? 0));
    const { priority } = request;
    const startMs = this.#clock();
    const attempt: Attempt = { id, replica, newTokens, priority, owner, startMs, hasBegun: false };
    const view = this.#views.get(replica)!;
    view.attempts.set(id, attempt);
    view.backlog.add(priority, newTokens);
    this.#prefixes.expect(replica, keys, startMs);
    const { leaseMs } = this;
    this.mailbox.send(replica, { ...request, id, leaseMs, ...(fetch === undefined ? {} : { peer: fetch.peer }) });
    return attempt;
  }

  abort({ id, replica }: Attempt, index: number): void {
    this.mailbox.send(replica, { type: "abort", id, index });
  }

  /** It is over, or of no use any more. */
  forget(attempt: Attempt): void {
    const view = this.#views.get(attempt.replica);
    if (view?.attempts.delete(attempt.id) && !attempt.hasBegun)
      view.backlog.remove(attempt.priority, attempt.newTokens);
  }

  close(): void {
    for (const timer of this.#timers) clearInterval(timer);
    this.#members.close();
  }

  #take(message: ToRouter, from: string): void {
    this.#members.noteLife(from);
    if (message.type === "prefixes") {
      this.#prefixes.take(from, message);
      return;
    }
    const view = this.#views.get(from);
    if (view === undefined) return;
    const owners = new Set<AttemptOwner>();
    if (message.type === "outputs") {
      for (const output of message.outputs) {
        const attempt = view.attempts.get(output.id);
        if (attempt === undefined) continue;
        owners.add(attempt.owner);
        this.#output(view, attempt, output);
      }
    } else if (message.type === "gone") {
      for (const id of message.ids) {
        const attempt = view.attempts.get(id);
        if (attempt === undefined) continue;
        owners.add(attempt.owner);
        this.#lose(attempt, { reason: "it knows nothing of the request", kind: "message" });
      }
    }
    for (const owner of owners) owner.onFlush();
  }

  #output(view: View, attempt: Attempt, output: WireOutput): void {
    const loss = output.error === undefined ? null : lossOf(output.error);
    if (loss !== null) {
      this.#lose(attempt, loss);
      return;
    }
    if (!attempt.hasBegun) {
      attempt.hasBegun = true;
      view.backlog.remove(attempt.priority, attempt.newTokens);
      view.firstTokenMs.note(this.#clock() - attempt.startMs);
    }
    attempt.owner.onOutput(attempt, output);
  }

  #lose(attempt: Attempt, loss: Loss): void {
    this.forget(attempt);
    attempt.owner.onLost(attempt, loss);
  }

  #onReplica(entry: ReplicaEntry): void {
    if (entry.protocol !== PROTOCOL) {
      this.#refuse(entry);
      return;
    }
    const known = this.#views.get(entry.id);
    const view = known ?? newView(entry);
    view.entry = entry;
    const { calls, callsOf } = entry.load;
    const ours = callsOf[this.mailbox.member];
    view.otherCalls = calls.count - (ours?.count ?? 0);
    view.otherQueued = Backlog.of(calls.queued).without(ours?.queued ?? []);
    this.#views.set(entry.id, view);
    this.#entries = null;
    this.#prefixes.open(entry.id);
    if (known === undefined) this.onMember({ replica: entry.id, isHere: true, reason: null });
    for (const listener of this.#listeners) listener.onChange();
  }

  /** One that speaks another protocol is named in the log, once, and sent nothing. */
  #refuse({ id, protocol, version }: Pick<ReplicaEntry, "id" | "protocol" | "version">): void {
    if (this.#refused.has(id)) return;
    this.#refused.add(id);
    const reason = `it is of version ${version} and speaks protocol ${protocol}, this router ${PROTOCOL}`;
    this.onMember({ replica: id, isHere: false, reason });
  }

  /** It says that it understands nothing of what it was sent. */
  #onUnsupported(id: string): void {
    const attempts = [...(this.#views.get(id)?.attempts.values() ?? [])];
    const loss = { reason: "it speaks another protocol", kind: "fault" } as const;
    for (const attempt of attempts) this.#lose(attempt, loss);
    for (const owner of new Set(attempts.map(({ owner }) => owner))) owner.onFlush();
  }

  #onLost(id: string, reason: string): void {
    this.#refused.delete(id);
    const view = this.#views.get(id);
    if (view === undefined) return;
    this.#views.delete(id);
    this.#entries = null;
    this.#prefixes.drop(id);
    this.numLost++;
    this.onMember({ replica: id, isHere: false, reason });
    const owners = new Set<AttemptOwner>();
    for (const attempt of view.attempts.values()) {
      owners.add(attempt.owner);
      this.abort(attempt, -1); // should it live after all
      attempt.owner.onLost(attempt, { reason, kind: "fault" });
    }
    for (const owner of owners) owner.onFlush();
    for (const listener of this.#listeners) listener.onChange();
  }

  /** Says to every replica what is open there: what was lost on the way, either way, is found out by it. */
  #tellOpen(): void {
    for (const [id, { attempts }] of this.#views)
      this.mailbox.send(id, { type: "open", ids: [...attempts.keys()], leaseMs: this.leaseMs });
  }
}

function newView(entry: ReplicaEntry): View {
  return {
    entry,
    attempts: new Map(),
    backlog: new Backlog(),
    otherCalls: 0,
    otherQueued: new Backlog(),
    firstTokenMs: new RecentTimes(),
  };
}

/** What a replica says of itself rather than of the request: another may serve it. null: the request is at fault. */
function lossOf({ code, details }: WireError): Loss | null {
  if (!Object.hasOwn(ERRORS, code))
    return { reason: `it failed with ${code}, which this version does not know`, kind: "fault" };
  const { message: reason } = errorFor(code, details);
  if (code === "draining" || code === "queue_full" || code === "adapter_unknown") return { reason, kind: "refused" };
  return code === "engine_dead" || code === "step_failed" ? { reason, kind: "fault" } : null;
}
