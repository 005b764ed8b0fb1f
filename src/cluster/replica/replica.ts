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

import { CapacityError, errorFor, type PagodaError } from "../../core/errors.js";
import { type RelayEngine, textFieldsOf } from "../../engine/client/relay.js";
import { toWire } from "../../engine/messages.js";
import type { SampleOutput } from "../../engine/outputs.js";
import type { Mailbox } from "../bus/mailbox.js";
import { type AddCall, saltOf, type ToReplica, toWireOutput, type WireOutput } from "../bus/wire.js";
import { isToReplica } from "../bus/wire-check.js";
import type { ReplicaLoad } from "../membership/registration.js";
import type { PeerPages } from "./peer-pages.js";
import { PrefixFeed } from "./prefix-feed.js";
import { type ReplicaLimits, ServedCall, ServedCalls } from "./served-calls.js";

interface Router {
  heardMs: number;
  leaseMs: number;
}

export class Replica {
  readonly prefixes: PrefixFeed;
  readonly #engine: RelayEngine;
  readonly #mailbox: Mailbox;
  readonly #calls: ServedCalls;
  readonly #routers = new Map<string, Router>();
  readonly #outbox = new Map<string, WireOutput[]>(); // by router
  readonly #watch: NodeJS.Timeout;
  #numFailed = 0;
  #numRefused = 0;
  #isDraining = false;
  /** Hears that there is no room for more. */
  onFull: () => void = () => undefined;
  /** Set once pages can move. */
  peers: PeerPages | null = null;
  #onIdle: (() => void) | null = null;

  constructor(engine: RelayEngine, mailbox: Mailbox, limits: ReplicaLimits) {
    this.#engine = engine;
    this.#mailbox = mailbox;
    this.#calls = new ServedCalls(limits);
    this.prefixes = new PrefixFeed(mailbox);
    engine.watchPrefixes((change) => this.prefixes.take(change));
    mailbox.listen(mailbox.subjects.inbox(mailbox.member), (message) => {
      if (isToReplica(message)) this.#take(message, message.from);
    });
    this.#watch = setInterval(() => this.#endOrphans(), 250);
  }

  get isDraining(): boolean {
    return this.#isDraining;
  }

  get numCalls(): number {
    return this.#calls.size;
  }

  /** What is to be done, and what was not. */
  load(): ReturnType<ServedCalls["load"]> & Pick<ReplicaLoad, "callsFailed" | "callsRefused"> {
    return { ...this.#calls.load(), callsFailed: this.#numFailed, callsRefused: this.#numRefused };
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
    this.#handOver(() => true); // said in this turn, before anybody who waits goes on
  }

  close(): void {
    clearInterval(this.#watch);
    this.#isDraining = true;
    for (const call of this.#calls.list()) this.#end(call);
  }

  #take(message: ToReplica, from: string): void {
    const router = this.#routers.get(from) ?? { heardMs: 0, leaseMs: 0 };
    router.heardMs = performance.now();
    this.#routers.set(from, router);
    switch (message.type) {
      case "add":
        router.leaseMs = message.leaseMs;
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
    if (this.#calls.get(router, message.id) !== undefined) return;
    const call = new ServedCall(router, message);
    try {
      if (this.#isDraining) throw new CapacityError("draining");
      const other = this.#calls.inTheWayOf(call);
      if (other !== null) this.#fail(other, this.#calls.full());
    } catch (error) {
      this.#fail(call, error as PagodaError);
      return;
    }
    this.#calls.add(call);
    if (this.#calls.isFull) this.onFull();
    if (call.isRunning) this.#begin(call);
    else this.#beginNext();
  }

  #beginNext(): void {
    if (this.#isDraining) return;
    for (let next = this.#calls.runNext(); next !== undefined; next = this.#calls.runNext()) this.#begin(next);
  }

  #begin(call: ServedCall): void {
    const { peer, prompt, salt, adapter } = call.message;
    if (peer !== undefined && this.peers !== null)
      void this.peers.fetch(peer, Int32Array.from(prompt), saltOf(salt, adapter)).then(() => this.#relay(call));
    else this.#relay(call);
  }

  /** To the engine, unless it was aborted while its pages were fetched. */
  #relay(call: ServedCall): void {
    const { message } = call;
    const { kind, prompt, sampling, priority, salt, client = "", constraint, speculation, adapter, resumed } = message;
    const { router, id } = call;
    if (!this.#calls.has(call)) return;
    try {
      if (adapter !== undefined) this.#checkAdapter(adapter);
      const options = {
        ...sampling,
        priority,
        salt,
        client,
        id: `${router}.${id}`,
        ...(constraint === null ? {} : { constraint }),
        ...(speculation === undefined ? {} : { speculative: speculation }),
        ...(adapter === undefined ? {} : { adapter: { name: adapter.name, scale: adapter.scale } }),
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

  /** It may have left, or other numbers may have come under its name, since the router heard of it. */
  #checkAdapter({ name, identity }: NonNullable<AddCall["adapter"]>): void {
    const own = this.#engine.adapters;
    if (own.some((adapter) => adapter.name === name && adapter.identity === identity)) return;
    throw errorFor("adapter_unknown", { value: name, known: own.map((adapter) => adapter.name).join(", ") || "none" });
  }

  #abort(router: string, id: string, index: number): void {
    const call = this.#calls.get(router, id);
    if (call === undefined) return;
    if (index >= 0) call.abort(index);
    else this.#end(call);
  }

  #deliver(call: ServedCall, output: SampleOutput | PagodaError, isLast: boolean): void {
    if (!this.#calls.has(call)) return; // ended here
    if (!("callId" in output)) {
      this.#fail(call, output);
      return;
    }
    call.hasBegun = true;
    const at = call.numSent[output.index] ?? 0;
    call.numSent[output.index] = at + output.numTokens;
    this.#send(call.router, toWireOutput(call.id, at, output));
    if (output.note.error !== null) this.#numFailed++;
    if (isLast) this.#forget(call);
  }

  #fail(call: ServedCall, error: PagodaError): void {
    if (error.code === "queue_full") this.#numRefused++;
    else if (error.code !== "draining") this.#numFailed++;
    this.#send(call.router, { id: call.id, at: 0, finishReason: "error", error: toWire(error, "step_failed") });
    this.#forget(call);
  }

  /** Without a word: its router knows, or is gone. */
  #end(call: ServedCall): void {
    this.#forget(call);
    call.abort(-1);
  }

  #forget(call: ServedCall): void {
    if (!this.#calls.remove(call)) return;
    if (this.#calls.size === 0) this.#onIdle?.();
    else this.#beginNext();
  }

  /** They go on elsewhere. */
  #handOver(isMoved: (call: ServedCall) => boolean): void {
    for (const call of this.#calls.list().filter(isMoved)) {
      this.#fail(call, new CapacityError("draining"));
      call.abort(-1);
    }
  }

  #compare(router: string, named: ReadonlySet<string>): void {
    for (const call of this.#calls.list()) if (call.router === router && !named.has(call.id)) this.#end(call);
    this.#flush(); // what was said of a call goes before the word that it is gone
    const ids = [...named].filter((id) => this.#calls.get(router, id) === undefined);
    if (ids.length > 0) this.#mailbox.send(router, { type: "gone", ids });
  }

  #endOrphans(): void {
    const nowMs = performance.now();
    for (const [id, { heardMs, leaseMs }] of this.#routers) {
      if (nowMs - heardMs <= leaseMs) continue;
      this.#routers.delete(id);
      for (const call of this.#calls.list()) if (call.router === id) this.#end(call);
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
