// How long the GPU computed, by its own clock: each pass writes when it began and when it ended, and a flight brings the times along with its
// results. For measurements (PAGODA_WEBGPU_CLOCK): it takes each step some microseconds.

import { USAGE } from "./api.js";
import type { GpuBuffer, GpuQueue } from "./gpu-queue.js";
import type { Landing } from "./landing.js";

/** Passes of a flight that are timed; there is one for all launches between two copies. */
const MOST_PASSES = 32;
const PASS_BYTES = 16;

export class GpuClock {
  ms = 0;
  readonly #set: object;
  readonly #times: GpuBuffer;
  #numPasses = 0; // since the last flight's end
  /** Times of flights that have not landed, from the oldest on. */
  readonly #away: BigUint64Array[] = [];

  constructor(queue: GpuQueue) {
    this.#set = queue.handle.createQuerySet({ type: "timestamp", count: 2 * MOST_PASSES });
    this.#times = queue.alloc(MOST_PASSES * PASS_BYTES, "times of passes", USAGE.queryResolve | USAGE.copySrc);
  }

  /** What the next pass is begun with. */
  next(): object | undefined {
    if (this.#numPasses === MOST_PASSES) return undefined;
    const at = 2 * this.#numPasses++;
    return {
      timestampWrites: { querySet: this.#set, beginningOfPassWriteIndex: at, endOfPassWriteIndex: at + 1 },
    };
  }

  /** The flight's times come with its results; there is room for them. */
  addTo(landing: Landing, queue: GpuQueue): void {
    const times = new BigUint64Array(2 * this.#numPasses);
    this.#away.push(times);
    if (times.length === 0) return;
    queue.resolve(this.#set, times.length, this.#times);
    landing.add(new Uint8Array(times.buffer), this.#times, 0, times.byteLength);
    this.#numPasses = 0;
  }

  /** Room that addTo() takes, at most. */
  get bytes(): number {
    return MOST_PASSES * PASS_BYTES;
  }

  /** The oldest flight has landed. */
  landed(): void {
    const times = this.#away.shift() ?? new BigUint64Array(0);
    for (let i = 0; i < times.length; i += 2) this.ms += Number(times[i + 1]! - times[i]!) / 1e6;
  }
}
