// The cluster in the place of an engine's thread: takes the same messages, gives the same outputs. Requests go to the replica that is
// expected to answer first; when it is lost they go on at another, from the last token that came.

import { CapacityError, errorFor, type PagodaError } from "../../core/errors.js";
import type { EngineHost } from "../../engine/client/host.js";
import {
  type AddMessage,
  type EngineFacts,
  type FromEngine,
  type Loaded,
  type ToEngine,
  toWire,
} from "../../engine/messages.js";
import { OutputTable } from "../../engine/outputs.js";
import type { AdapterInfo } from "../../engine/types.js";
import { addWireOutput, type CallRequest, type WireOutput } from "../bus/wire.js";
import { clusterAdapters, clusterFacts, clusterStats } from "./cluster-stats.js";
import { type Choice, Placement, type PlacementOptions } from "./placement.js";
import { RoutedCall } from "./routed-call.js";
import type { Attempt, AttemptOwner, Loss, Router } from "./router.js";

export interface RoutedModelOptions extends PlacementOptions {
  readonly router: Router;
  readonly cluster: string;
  /** What is known of the model without any replica. */
  readonly facts: EngineFacts;
  /** How long a request waits for a replica when there is none. */
  readonly patienceMs: number;
  readonly listener: (message: FromEngine) => void;
}

const LOOK_MS = 100;
/** In the place of a sample's index: an attempt that only computes the prompt. */
const PREFILL = -2;

export class RoutedModel implements EngineHost, AttemptOwner {
  readonly #options: RoutedModelOptions;
  readonly #router: Router;
  readonly #placement: Placement;
  readonly #calls = new Map<string, RoutedCall>(); // by call id
  readonly #callOf = new Map<Attempt, RoutedCall>();
  /** Those that no replica has. */
  readonly #waiting = new Set<{ readonly call: RoutedCall; readonly index: number }>();
  readonly #outputs = new OutputTable();
  #hasOutputs = false;
  readonly #unfollow: () => void;
  readonly #timer: NodeJS.Timeout;
  #wasAway: string | null = null;
  /** Those that requests may name, as the listener knows them. */
  #adapters: readonly AdapterInfo[] = [];

  constructor(options: RoutedModelOptions) {
    this.#options = options;
    this.#router = options.router;
    this.#placement = new Placement(options.router, options);
    this.#unfollow = options.router.follow({ onChange: () => this.#onChange() });
    this.#timer = setInterval(() => this.#tryWaiting(), LOOK_MS);
    queueMicrotask(() => {
      options.listener({ type: "ready", facts: this.#facts() });
      this.#onChange();
    });
  }

  post(message: ToEngine): void {
    switch (message.type) {
      case "add":
        this.#add(message);
        break;
      case "abort":
        this.#abort(message.callId, message.index);
        break;
      case "query":
        this.#options.listener({ type: "reply", seq: message.seq, value: this.#answer(message.what) });
        break;
      case "load_adapter":
      case "unload_adapter":
        this.#options.listener({ type: "reply", seq: message.seq, value: this.#refuseAdapter() });
        break;
      case "close":
      case "fault":
      case "warm":
      case "watch_prefixes":
      case "lend_pages":
      case "take_pages":
        break;
    }
  }

  #refuseAdapter(): Loaded {
    const reason = "a router serves the adapters that its replicas have; load them there.";
    const details = { model: this.#options.model, task: "load adapters", reason };
    return { error: { code: "task_unsupported", details } };
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#unfollow();
    for (const callId of [...this.#calls.keys()]) this.#abort(callId, -1);
  }

  // --- calls -------------------------------------------------------------------------------------------------------

  #add(message: AddMessage): void {
    const numMedia = message.media?.length ?? 0;
    if (numMedia > 0) {
      const expected = "absent: a router does not carry their rows to replicas";
      throw errorFor("invalid_value", { param: "media", value: numMedia, expected });
    }
    const call = new RoutedCall(message, this.#adapterOf(message));
    this.#calls.set(message.callId, call);
    this.#router.journeys.begin(message.callId, this.#options.model, message.prompt.length);
    this.#send(call, -1);
    this.#flushSoon();
  }

  /** The caller's side has checked that it is one of those that replicas serve. */
  #adapterOf({ adapter }: AddMessage): CallRequest["adapter"] | null {
    if (adapter === undefined) return null;
    const { name, scale } = adapter;
    return { name, scale, identity: this.#adapters.find((own) => own.name === name)?.identity ?? "" };
  }

  #abort(callId: string, index: number): void {
    const call = this.#calls.get(callId);
    if (call === undefined) return;
    if (index < 0) {
      this.#noteEnd(call, "abort");
      this.#drop(call);
      return;
    }
    call.samples[index]!.isAborting = true;
    const attempt = [...call.attempts].find(([, at]) => at === -1 || at === index)?.[0];
    if (attempt !== undefined) this.#router.abort(attempt, index);
    else this.#endAborted(call);
    this.#flushSoon();
  }

  /** Nobody waits for it any more. */
  #drop(call: RoutedCall): void {
    this.#forget(call);
    for (const attempt of [...call.attempts.keys()]) {
      this.#end(call, attempt);
      this.#router.abort(attempt, -1);
    }
    for (const waiting of this.#waiting) if (waiting.call === call) this.#waiting.delete(waiting);
  }

  /** To a replica, or into the waiting room. */
  #send(call: RoutedCall, index: number): void {
    for (const request of call.requests(index)) {
      const one = request.resumed?.index ?? -1;
      const choice = this.#placement.choose(call);
      if (choice instanceof CapacityError) {
        this.#fail(call, choice);
        return;
      }
      if (choice === null) {
        this.#waiting.add({ call, index: one });
        this.#router.journeys.note(call.message.callId, { type: "waiting" });
        continue;
      }
      const prefill = this.#placement.choosePrefill(call, choice);
      if (prefill !== null) {
        call.wasPrefilled = true;
        this.#start(call, prefill, call.prefillRequest(), PREFILL);
        return;
      }
      if (request.resumed !== null) this.#router.numResumed++;
      this.#start(call, choice, request, one);
    }
  }

  #start(call: RoutedCall, choice: Choice, request: CallRequest, index: number): void {
    const { chosen } = choice;
    const { callId, prompt } = call.message;
    const { facts } = this.#router.replicas().find(({ id }) => id === chosen.id)!;
    const keys = call.keysFor(facts.pageSize);
    const numHeld = chosen.heldTokens / facts.pageSize;
    if (!call.hasBegun) {
      call.identity = facts.identity;
      this.#router.heat.note(this.#options.model, prompt, facts.pageSize, keys, numHeld);
    }
    this.#router.journeys.note(callId, { ...choice, task: index === PREFILL ? "prefill" : "answer" });
    const attempt = this.#router.start(chosen, request, keys, this);
    this.#callOf.set(attempt, call);
    call.attempts.set(attempt, index);
  }

  #tryWaiting(): void {
    const nowMs = performance.now();
    for (const waiting of [...this.#waiting]) {
      if (!this.#waiting.delete(waiting)) continue;
      const { call, index } = waiting;
      if (nowMs - call.waitingSinceMs > this.#options.patienceMs) this.#fail(call, this.#missing(call));
      else this.#send(call, index);
    }
    this.onFlush();
  }

  /** Why nobody takes it. Another version would not give the rest of an answer, but of another answer. */
  #missing(call: RoutedCall): PagodaError {
    const isReplaced = call.hasBegun && this.#placement.replicas().some(({ state }) => state === "ready");
    const { model, patienceMs } = this.#options;
    return isReplaced ? errorFor("replicas_replaced", { model, value: patienceMs / 1000 }) : this.#noReplica();
  }

  #noReplica(): PagodaError {
    const { model, cluster, patienceMs } = this.#options;
    return errorFor("no_replica", { model, cluster, value: patienceMs / 1000 });
  }

  #fail(call: RoutedCall, error: PagodaError): void {
    this.#noteEnd(call, error.code);
    this.#say(call, { id: "", at: 0, finishReason: "error", error: toWire(error, "step_failed") });
    this.#drop(call);
  }

  /** To the caller of one of its samples, with what else there is at the end of the turn. */
  #say({ message, samples }: RoutedCall, output: WireOutput): void {
    const { callId, prompt } = message;
    const { index = 0 } = output;
    const sample = samples[index] ?? samples[0]!; // an error may name any
    if (sample.handle < 0) sample.handle = this.#outputs.open(callId, index, callId, prompt.length);
    addWireOutput(this.#outputs, sample.handle, output);
    this.#hasOutputs = true;
  }

  /** Nothing more is said of it. */
  #forget({ message, samples }: RoutedCall): void {
    this.#calls.delete(message.callId);
    for (const sample of samples) {
      if (sample.handle >= 0) this.#outputs.close(sample.handle);
      sample.handle = -1;
    }
  }

  // --- what replicas say -------------------------------------------------------------------------------------------

  onOutput(attempt: Attempt, wire: WireOutput): void {
    const call = this.#callOf.get(attempt);
    if (call === undefined) return;
    if (call.attempts.get(attempt) === PREFILL) {
      if (wire.finishReason !== undefined) this.#onPrefilled(call, attempt, wire);
      return;
    }
    const { hasBegun } = call;
    const output = call.take(wire);
    if (output === null) return;
    if (output === "gap") {
      this.#router.abort(attempt, -1);
      this.onLost(attempt, { reason: "something it said was lost", kind: "message" });
      return;
    }
    this.#say(call, output);
    const { callId } = call.message;
    if (call.hasBegun && !hasBegun)
      this.#router.journeys.note(callId, { type: "first_token", replica: attempt.replica });
    if (output.error !== undefined || call.isOver) {
      this.#noteEnd(call, output.error?.code ?? output.finishReason!, output.trace?.cachedTokens);
      this.#forget(call);
      for (const other of [...call.attempts.keys()]) this.#end(call, other);
    } else if (output.finishReason !== undefined && call.attempts.get(attempt)! >= 0) this.#end(call, attempt);
  }

  /** The prompt's pages are there, or will not be: either way it is answered now, by the one that is best placed for it. */
  #onPrefilled(call: RoutedCall, attempt: Attempt, { error }: WireOutput): void {
    this.#end(call, attempt);
    if (error === undefined) {
      this.#router.numPrefilled++;
      this.#router.journeys.note(call.message.callId, { type: "prefilled", replica: attempt.replica });
    }
    call.waitingSinceMs = performance.now();
    this.#send(call, -1);
  }

  #end(call: RoutedCall, attempt: Attempt): void {
    call.attempts.delete(attempt);
    this.#callOf.delete(attempt);
    this.#router.forget(attempt);
  }

  onLost(attempt: Attempt, { reason, kind }: Loss): void {
    const call = this.#callOf.get(attempt);
    if (call === undefined) return;
    const index = call.attempts.get(attempt)!;
    this.#end(call, attempt);
    const numTokens = call.numGiven;
    this.#router.journeys.note(call.message.callId, { type: "lost", replica: attempt.replica, reason, numTokens });
    if (kind === "refused") call.refusedBy.add(attempt.replica);
    else if (kind === "fault" && !call.lose()) {
      this.#fail(call, errorFor("replicas_lost", { value: call.numLost, reason }));
      return;
    }
    this.#endAborted(call);
    if (call.isOver) return;
    call.waitingSinceMs = performance.now();
    this.#send(call, index);
  }

  /** Samples that need not go on are over. */
  #endAborted(call: RoutedCall): void {
    for (const [index, sample] of call.samples.entries())
      if (sample.isAborting && !sample.isOver) this.#say(call, call.endOf(index));
    if (!call.isOver) return;
    this.#noteEnd(call, "abort");
    this.#drop(call);
  }

  #noteEnd(call: RoutedCall, reason: string, cachedTokens: number | null = null): void {
    const { callId } = call.message;
    this.#router.journeys.note(callId, { type: "end", reason, numTokens: call.numGiven, cachedTokens });
  }

  onFlush(): void {
    this.#hasOutputs = false;
    const outputs = this.#outputs.take(null);
    if (outputs !== null) this.#options.listener(outputs);
  }

  #flushSoon(): void {
    if (this.#hasOutputs) queueMicrotask(() => this.onFlush());
  }

  // --- the model as a whole ----------------------------------------------------------------------------------------

  #onChange(): void {
    const replicas = this.#placement.replicas();
    const isAway = !replicas.some(({ state }) => state === "ready");
    const reason = isAway ? this.#noReplica().message : null;
    if (reason !== this.#wasAway) this.#options.listener({ type: "away", reason });
    this.#wasAway = reason;
    if (replicas.length > 0) {
      this.#options.listener({ type: "ready", facts: this.#facts() });
      this.#tellAdapters(clusterAdapters(replicas));
    }
    if (this.#waiting.size > 0) this.#tryWaiting();
  }

  /** While no replica is there requests may name what they last had, and wait. */
  #tellAdapters(adapters: readonly AdapterInfo[]): void {
    if (JSON.stringify(adapters) === JSON.stringify(this.#adapters)) return;
    this.#adapters = adapters;
    this.#options.listener({ type: "adapters", adapters });
  }

  #facts(): EngineFacts {
    return clusterFacts(this.#options.facts, this.#placement.replicas());
  }

  #answer(what: "stats" | "cache" | "plan"): unknown {
    if (what === "stats") return clusterStats(this.#options.model, this.#placement.replicas());
    return what === "cache" ? { pageSize: this.#facts().pageSize, groups: [], nodes: [], requests: [] } : [];
  }
}
