// Admission: so many requests in the engine at once, so many waiting, no more. Who waits is served by priority, then arrival; when no more
// may wait, the worst of them makes room for one that is better.

import { CapacityError, errorFor } from "../../core/errors.js";

interface Waiter {
  readonly priority: number;
  admit(): void;
  refuse(error: Error): void;
}

export interface GateOptions {
  readonly maxConcurrent: number;
  readonly maxQueued: number;
}

export class Gate {
  readonly #options: GateOptions;
  readonly #clock: () => number;
  readonly #waiters: Waiter[] = [];
  #active = 0;
  #isDraining = false;
  #meanMs = 1000; // of a request's stay, moving; only to tell refused clients when to come back
  #onIdle: (() => void) | null = null;

  constructor(options: GateOptions, clock = (): number => performance.now()) {
    this.#options = options;
    this.#clock = clock;
  }

  get active(): number {
    return this.#active;
  }

  get queued(): number {
    return this.#waiters.length;
  }

  get isDraining(): boolean {
    return this.#isDraining;
  }

  /** Resolves once there is room; the caller must call what it resolves to exactly once, when the request is over. */
  async enter(priority: number, signal: AbortSignal): Promise<() => void> {
    if (this.#isDraining) throw new CapacityError("draining");
    if (this.#active < this.#options.maxConcurrent) this.#active++;
    else await this.#wait(priority, signal);
    const startMs = this.#clock();
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      this.#meanMs += 0.1 * (this.#clock() - startMs - this.#meanMs);
      this.#leave();
    };
  }

  /** Refuses whoever comes or waits from now on; resolves when those inside have left. */
  drain(): Promise<void> {
    this.#isDraining = true;
    for (const waiter of this.#waiters.splice(0)) waiter.refuse(new CapacityError("draining"));
    if (this.#active === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onIdle = resolve;
    });
  }

  #wait(priority: number, signal: AbortSignal): Promise<void> {
    if (this.#waiters.length >= this.#options.maxQueued) {
      const worst = this.#waiters.at(-1);
      if (worst === undefined || worst.priority <= priority) throw this.#full();
      worst.refuse(this.#full());
      this.#waiters.pop();
    }
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        this.#waiters.splice(this.#waiters.indexOf(waiter), 1);
        reject(errorFor("aborted"));
      };
      const settle = (then: () => void) => (): void => {
        signal.removeEventListener("abort", leave);
        then();
      };
      const waiter: Waiter = {
        priority,
        admit: settle(resolve),
        refuse: (error) => settle(() => reject(error))(),
      };
      if (signal.aborted) {
        reject(errorFor("aborted"));
        return;
      }
      signal.addEventListener("abort", leave);
      const after = this.#waiters.findIndex((other) => other.priority > priority);
      this.#waiters.splice(after < 0 ? this.#waiters.length : after, 0, waiter);
    });
  }

  #full(): CapacityError {
    const { maxQueued, maxConcurrent } = this.#options;
    const seconds = (this.#meanMs / 1000) * ((this.#waiters.length + 1) / maxConcurrent);
    const retryAfter = Math.min(60, Math.max(1, Math.ceil(seconds)));
    return new CapacityError("queue_full", { value: this.#waiters.length, limit: maxQueued, retryAfter });
  }

  /** The place of one who leaves goes to the next who waits. */
  #leave(): void {
    const next = this.#waiters.shift();
    if (next !== undefined) next.admit();
    else if (--this.#active === 0) this.#onIdle?.();
  }
}
