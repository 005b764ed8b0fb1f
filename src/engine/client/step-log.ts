// The last thousand step records, and new ones as they come, for those that follow them.

import type { StepRecord } from "../types.js";

const CAPACITY = 1000;

interface Follower {
  readonly queue: StepRecord[];
  wake: (() => void) | null;
}

export class StepLog {
  readonly #ring: StepRecord[] = [];
  #next = 0;
  readonly #followers = new Set<Follower>();
  #isOver = false;

  append(record: StepRecord): void {
    this.#ring[this.#next] = record;
    this.#next = (this.#next + 1) % CAPACITY;
    for (const follower of this.#followers) {
      // A follower that does not read loses the oldest records, not the process's memory.
      if (follower.queue.length === CAPACITY) follower.queue.shift();
      follower.queue.push(record);
      follower.wake?.();
    }
  }

  /** Oldest first. */
  history(): readonly StepRecord[] {
    return [...this.#ring.slice(this.#next), ...this.#ring.slice(0, this.#next)];
  }

  async *follow(signal?: AbortSignal): AsyncGenerator<StepRecord> {
    const follower: Follower = { queue: [], wake: null };
    const wake = () => follower.wake?.();
    this.#followers.add(follower);
    signal?.addEventListener("abort", wake);
    try {
      for (;;) {
        const record = follower.queue.shift();
        if (record !== undefined) {
          yield record; // also what came before the end, to a reader that is behind
        } else if (this.#isOver || signal?.aborted === true) return;
        else {
          await new Promise<void>((resolve) => {
            follower.wake = resolve;
          });
        }
      }
    } finally {
      this.#followers.delete(follower);
      signal?.removeEventListener("abort", wake);
    }
  }

  end(): void {
    this.#isOver = true;
    for (const follower of this.#followers) follower.wake?.();
  }
}
