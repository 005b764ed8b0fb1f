// Waiting for WebGPU without giving up the thread, in Node. Dawn's binding turns its events through `globalThis.setImmediate`, which it looks
// up at each call. Calls that schedule are made with a setImmediate of our own, which also keeps what is scheduled in a set: it can be run
// at once, in a loop, until a buffer is mapped. Whether this works is tried when the device opens; in a browser nothing of it is used.

import type { GpuMemory } from "./api.js";
import { MAP_READ } from "./api.js";

type Callback = (...args: unknown[]) => void;

/** Turns without a result after which the thread sleeps between turns, and for how long. */
const SPINS = 400;
const SLEEP_MS = 0.05;

export class DawnEvents {
  /** What is scheduled, and how it would run by itself: what is turned here must not pile up in the event loop's queue. */
  readonly #pending = new Map<() => void, unknown>();
  readonly #setImmediate = globalThis.setImmediate;
  readonly #sleeper = new Int32Array(new SharedArrayBuffer(4));

  /** Runs `call` so that the events it schedules can be turned by wait(). */
  within<T>(call: () => T): T {
    const before = globalThis.setImmediate;
    globalThis.setImmediate = this.#hold as unknown as typeof setImmediate;
    try {
      return call();
    } finally {
      globalThis.setImmediate = before;
    }
  }

  /** Blocks until the buffer, whose mapping was asked for by map(), is mapped or cannot be. */
  wait(buffer: GpuMemory): void {
    for (let turn = 0; buffer.mapState === "pending"; turn++) {
      if (!this.#turn())
        throw new Error("nothing turns the events of WebGPU: this version of the package webgpu cannot be waited for");
      if (turn > SPINS) Atomics.wait(this.#sleeper, 0, 0, SLEEP_MS);
    }
  }

  map(buffer: GpuMemory, size: number): void {
    this.within(() => void buffer.mapAsync(MAP_READ, 0, size).catch(() => {}));
  }

  readonly #hold = (call: Callback, ...args: unknown[]): unknown => {
    const entry = (): void => {
      if (this.#pending.delete(entry)) this.within(() => call(...args));
    };
    const immediate = this.#setImmediate(entry);
    this.#pending.set(entry, immediate);
    return immediate;
  };

  #turn(): boolean {
    if (this.#pending.size === 0) return false;
    for (const [entry, immediate] of [...this.#pending]) {
      clearImmediate(immediate as ReturnType<typeof setImmediate>);
      entry();
    }
    return true;
  }
}
