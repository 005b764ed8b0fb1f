// The calls that a replica has: so many in the engine at once (slots), so many waiting for a place, no more.

import { CapacityError } from "../../core/errors.js";
import type { AddCall } from "../bus/wire.js";
import type { CallLoad, ReplicaLoad } from "../membership/registration.js";
import { Backlog } from "../router/backlog.js";
import { CallQueue } from "./call-queue.js";

export interface ReplicaLimits {
  readonly slots: number;
  readonly maxQueued: number;
}

export class ServedCall {
  readonly router: string;
  readonly message: AddCall;
  readonly startMs = performance.now();
  /** Tokens sent of each sample. */
  readonly numSent: number[] = [];
  /** It is in the engine, or its pages are on the way; else it waits for a place. */
  isRunning = false;
  /** Something of its answer was sent. */
  hasBegun = false;
  abort: (index: number) => void = () => undefined;

  constructor(router: string, message: AddCall) {
    this.router = router;
    this.message = message;
    const { resumed } = message;
    if (resumed !== null) this.numSent[resumed.index] = resumed.tokens.length;
  }

  get id(): string {
    return this.message.id;
  }

  get priority(): number {
    return this.message.priority;
  }
}

export class ServedCalls {
  readonly #limits: ReplicaLimits;
  readonly #calls = new Map<string, ServedCall>(); // by router and id
  readonly #queue = new CallQueue<ServedCall>();
  #numRunning = 0;
  #meanMs = 1000;

  constructor(limits: ReplicaLimits) {
    this.#limits = limits;
  }

  get size(): number {
    return this.#calls.size;
  }

  get(router: string, id: string): ServedCall | undefined {
    return this.#calls.get(keyOf(router, id));
  }

  has(call: ServedCall): boolean {
    return this.get(call.router, call.id) === call;
  }

  /** As they are now: calls may end while one goes through them. */
  list(): ServedCall[] {
    return [...this.#calls.values()];
  }

  get isFull(): boolean {
    return this.#calls.size >= this.#limits.slots + this.#limits.maxQueued;
  }

  /**
   * The call that has to go so that this one can stay; null: there is room. Throws when it must go itself. One that goes on was accepted by
   * the cluster long ago: it does not wait at the door again. Else the worst of those that wait gives way, if it is worse than the
   * newcomer: whoever sends most must not shut out who matters more.
   */
  inTheWayOf({ message, priority }: ServedCall): ServedCall | null {
    if (message.resumed !== null || !this.isFull) return null;
    const { worst } = this.#queue;
    if (worst === undefined || worst.priority <= priority) throw this.full();
    return worst;
  }

  full(): CapacityError {
    const { slots, maxQueued } = this.#limits;
    return new CapacityError("queue_full", { value: this.#calls.size, limit: slots + maxQueued });
  }

  add(call: ServedCall): void {
    this.#calls.set(keyOf(call.router, call.id), call);
    if (call.message.resumed !== null) this.#run(call);
    else this.#queue.add(call);
  }

  /** The next that has a place; undefined: none is free, or nobody waits. */
  runNext(): ServedCall | undefined {
    const call = this.#numRunning < this.#limits.slots ? this.#queue.takeBest() : undefined;
    if (call !== undefined) this.#run(call);
    return call;
  }

  /** false: it was not here any more. */
  remove(call: ServedCall): boolean {
    if (!this.#calls.delete(keyOf(call.router, call.id))) return false;
    this.#meanMs += 0.1 * (performance.now() - call.startMs - this.#meanMs);
    if (call.isRunning) this.#numRunning--;
    else this.#queue.remove(call);
    return true;
  }

  /** What is to be done for all routers, and for each. */
  load(): Pick<ReplicaLoad, "calls" | "callsOf" | "meanCallMs"> {
    const all = this.list();
    const callsOf: Record<string, CallLoad> = {};
    for (const router of new Set(all.map((call) => call.router)))
      callsOf[router] = loadOf(all.filter((call) => call.router === router));
    return { calls: loadOf(all), callsOf, meanCallMs: this.#meanMs };
  }

  #run(call: ServedCall): void {
    call.isRunning = true;
    this.#numRunning++;
  }
}

function keyOf(router: string, id: string): string {
  return `${router} ${id}`;
}

function loadOf(calls: readonly ServedCall[]): CallLoad {
  const backlog = new Backlog();
  for (const { hasBegun, priority, message } of calls) if (!hasBegun) backlog.add(priority, message.prompt.length);
  return { count: calls.length, queued: backlog.list() };
}
