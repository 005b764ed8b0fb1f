// A replica: serves the calls of routers on its engine, and says of itself what they need to choose.
//
//   router                                    replica
//     add ---------------------------------->   relay to the engine
//     <------------------------------ outputs   one message per step and router
//     abort -------------------------------->   ended within a step
//     open (all the time): ids ------------->   what is not named is ended; <-- gone: what is named and not here
//
// Messages may be lost when NATS restarts: `open` and `gone` make good for any of them. A router that is silent for its lease is dead, and
// its calls are ended.

import type { PagodaError } from "../core/errors.js";
import { CapacityError } from "../core/errors.js";
import { type RelayEngine, textFieldsOf } from "../engine/client/relay.js";
import { type RequestOutput, toWire } from "../engine/messages.js";
import type { Mailbox } from "./mailbox.js";
import type { PeerPages } from "./peer-pages.js";
import { PrefixFeed } from "./prefix-feed.js";
import type { ReplicaLoad } from "./registration.js";
import { type AddCall, type ToReplica, toWireOutput, type WireOutput } from "./wire.js";

interface ServedCall {
  readonly router: string;
  readonly id: string;
  readonly promptTokens: number;
  readonly startMs: number;
  /** Tokens sent of each sample. */
  readonly numSent: number[];
  abort: (index: number) => void;
  hasBegun: boolean;
}

interface Router {
  heardMs: number;
  leaseMs: number;
}

export interface ReplicaLimits {
  readonly slots: number;
  readonly maxQueued: number;
}

const DEFAULT_LEASE_MS = 3000;

export class Replica {
  readonly prefixes: PrefixFeed;
  readonly #engine: RelayEngine;
  readonly #mailbox: Mailbox;
  readonly #limits: ReplicaLimits;
  readonly #calls = new Map<string, ServedCall>(); // by router and id
  readonly #routers = new Map<string, Router>();
  readonly #outbox = new Map<string, WireOutput[]>(); // by router
  readonly #watch: NodeJS.Timeout;
  #meanCallMs = 1000;
  #isDraining = false;
  /** Set once pages can move. */
  peers: PeerPages | null = null;
  #onIdle: (() => void) | null = null;

  constructor(engine: RelayEngine, mailbox: Mailbox, limits: ReplicaLimits) {
    this.#engine = engine;
    this.#mailbox = mailbox;
    this.#limits = limits;
    this.prefixes = new PrefixFeed(mailbox);
    engine.watchPrefixes((change) => this.prefixes.take(change));
    mailbox.listen(mailbox.subjects.inbox(mailbox.member), (message) =>
      this.#take(message as ToReplica & { from: string }),
    );
    this.#watch = setInterval(() => this.#endOrphans(), 250);
  }

  get isDraining(): boolean {
    return this.#isDraining;
  }

  get numCalls(): number {
    return this.#calls.size;
  }

  /** What is to be done for all routers, and for each. */
  load(): Pick<ReplicaLoad, "calls" | "callsOf" | "meanCallMs"> {
    const calls = { count: 0, backlogTokens: 0 };
    const callsOf: Record<string, { count: number; backlogTokens: number }> = {};
    for (const { router, hasBegun, promptTokens } of this.#calls.values()) {
      callsOf[router] ??= { count: 0, backlogTokens: 0 };
      for (const sum of [calls, callsOf[router]]) {
        sum.count++;
        if (!hasBegun) sum.backlogTokens += promptTokens;
      }
    }
    return { calls, callsOf, meanCallMs: this.#meanCallMs };
  }

  /**
   * Takes no new calls. Those that have not begun go to other replicas at once, the others have so long to finish, and go on elsewhere
   * then.
   */
  async drain(ms: number): Promise<void> {
    this.#isDraining = true;
    this.#handOver((call) => !call.hasBegun);
    if (this.#calls.size > 0) {
      let timer: NodeJS.Timeout | undefined;
      await new Promise<void>((resolve) => {
        this.#onIdle = resolve;
        timer = setTimeout(resolve, ms);
      });
      clearTimeout(timer);
    }
    this.#handOver(() => true);
    this.#flush();
  }

  close(): void {
    clearInterval(this.#watch);
    for (const call of [...this.#calls.values()]) this.#end(call);
  }

  #take(message: ToReplica & { readonly from: string }): void {
    const { from } = message;
    const router = this.#routers.get(from) ?? { heardMs: 0, leaseMs: DEFAULT_LEASE_MS };
    router.heardMs = performance.now();
    this.#routers.set(from, router);
    switch (message.type) {
      case "add":
        this.#add(from, message);
        break;
      case "abort":
        this.#abort(from, message.id, message.index);
        break;
      case "open":
        router.leaseMs = message.leaseMs;
        this.#compare(from, new Set(message.ids));
        break;
      case "prefixes":
        this.prefixes.tell(from);
        break;
      case "lend":
      case "lent":
      case "offer":
        this.peers?.hear(message, from);
        break;
    }
  }

  #add(router: string, message: AddCall): void {
    const { id, prompt, salt, resumed } = message;
    const key = keyOf(router, id);
    if (this.#calls.has(key)) return;
    const call: ServedCall = {
      router,
      id,
      promptTokens: prompt.length,
      startMs: performance.now(),
      numSent: [],
      abort: () => undefined,
      hasBegun: false,
    };
    if (resumed !== null) call.numSent[resumed.index] = resumed.tokens.length;
    try {
      this.#requireRoom(resumed !== null);
      this.#calls.set(key, call);
      if (message.peer !== undefined && this.peers !== null)
        void this.peers.fetch(message.peer, Int32Array.from(prompt), salt).then(() => this.#relay(call, message));
      else this.#relay(call, message);
    } catch (error) {
      this.#fail(call, error as PagodaError);
    }
  }

  /** To the engine, unless it was aborted while its pages were fetched. */
  #relay(call: ServedCall, message: AddCall): void {
    const { kind, prompt, sampling, priority, salt, constraint, resumed } = message;
    const { router, id } = call;
    if (this.#calls.get(keyOf(router, id)) !== call) return;
    try {
      const options = {
        ...sampling,
        priority,
        salt,
        id: `${router}.${id}`,
        ...(constraint === null ? {} : { constraint }),
      };
      const given = resumed === null ? null : { index: resumed.index, tokens: Int32Array.from(resumed.tokens) };
      call.abort = this.#engine.relay(
        { kind, prompt, options, resumed: given, ...textFieldsOf(message) },
        (output, isLast) => this.#deliver(call, output, isLast),
      );
    } catch (error) {
      this.#fail(call, error as PagodaError);
    }
  }

  /** A call that goes on was accepted by the cluster long ago: it does not wait at the door again. */
  #requireRoom(isResumed: boolean): void {
    if (this.#isDraining) throw new CapacityError("draining");
    const { slots, maxQueued } = this.#limits;
    if (!isResumed && this.#calls.size >= slots + maxQueued)
      throw new CapacityError("queue_full", { value: this.#calls.size, limit: slots + maxQueued });
  }

  #abort(router: string, id: string, index: number): void {
    const call = this.#calls.get(keyOf(router, id));
    if (call === undefined) return;
    if (index >= 0) call.abort(index);
    else this.#end(call);
  }

  #deliver(call: ServedCall, output: RequestOutput | PagodaError, isLast: boolean): void {
    if (this.#calls.get(keyOf(call.router, call.id)) !== call) return; // ended here
    if (!("callId" in output)) {
      this.#fail(call, output);
      return;
    }
    call.hasBegun = true;
    const at = call.numSent[output.index] ?? 0;
    call.numSent[output.index] = at + output.tokens.length;
    this.#send(call.router, toWireOutput(call.id, at, output));
    if (isLast) this.#forget(call);
  }

  #fail(call: ServedCall, error: PagodaError): void {
    this.#send(call.router, { id: call.id, at: 0, finishReason: "error", error: toWire(error, "step_failed") });
    this.#forget(call);
  }

  /** Without a word: its router knows, or is gone. */
  #end(call: ServedCall): void {
    this.#forget(call);
    call.abort(-1);
  }

  #forget(call: ServedCall): void {
    if (!this.#calls.delete(keyOf(call.router, call.id))) return;
    this.#meanCallMs += 0.1 * (performance.now() - call.startMs - this.#meanCallMs);
    if (this.#calls.size === 0) this.#onIdle?.();
  }

  /** They go on elsewhere. */
  #handOver(isMoved: (call: ServedCall) => boolean): void {
    for (const call of [...this.#calls.values()].filter(isMoved)) {
      this.#fail(call, new CapacityError("draining"));
      call.abort(-1);
    }
  }

  #compare(router: string, named: ReadonlySet<string>): void {
    for (const call of [...this.#calls.values()]) if (call.router === router && !named.has(call.id)) this.#end(call);
    this.#flush(); // what was said of a call goes before the word that it is gone
    const ids = [...named].filter((id) => !this.#calls.has(keyOf(router, id)));
    if (ids.length > 0) this.#mailbox.send(router, { type: "gone", ids });
  }

  #endOrphans(): void {
    const nowMs = performance.now();
    for (const [id, { heardMs, leaseMs }] of this.#routers) {
      if (nowMs - heardMs <= leaseMs) continue;
      this.#routers.delete(id);
      for (const call of [...this.#calls.values()]) if (call.router === id) this.#end(call);
    }
  }

  /** What a step gives to the calls of one router goes as one message. */
  #send(router: string, output: WireOutput): void {
    if (this.#outbox.size === 0) queueMicrotask(() => this.#flush());
    const outputs = this.#outbox.get(router);
    if (outputs === undefined) this.#outbox.set(router, [output]);
    else outputs.push(output);
  }

  #flush(): void {
    for (const [router, outputs] of this.#outbox) this.#mailbox.send(router, { type: "outputs", outputs });
    this.#outbox.clear();
  }
}

function keyOf(router: string, id: string): string {
  return `${router} ${id}`;
}
