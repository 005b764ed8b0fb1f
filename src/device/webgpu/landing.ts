// Results on their way to the host: ranges of GPU buffers are copied to mappable memory at the end of a flight, and taken over once it has
// landed. One for each flight that can be under way.

import type { GpuMemory } from "./api.js";
import { MAP_READ, USAGE } from "./api.js";
import type { DawnEvents } from "./events.js";
import type { GpuBuffer, GpuQueue } from "./gpu-queue.js";

interface Copy {
  readonly out: Uint8Array;
  readonly at: number; // in the mapped memory
  readonly bytes: number;
}

export class Landing {
  readonly #queue: GpuQueue;
  readonly #events: DawnEvents | null;
  #memory: GpuMemory | null = null;
  #capacity = 0;
  #copies: Copy[] = [];
  #bytes = 0;
  #mapped: Promise<void> | null = null;
  #isAway = false;

  constructor(queue: GpuQueue, events: DawnEvents | null) {
    this.#queue = queue;
    this.#events = events;
  }

  /** Whether a flight ended with it and has not been taken over. */
  get isAway(): boolean {
    return this.#isAway;
  }

  /** Room for `bytes` more in the copies of a flight: before add(). */
  reserve(bytes: number): void {
    if (bytes <= this.#capacity) return;
    this.#memory?.destroy();
    this.#capacity = Math.max(1024, 2 * bytes);
    this.#memory = this.#queue.handle.createBuffer({
      size: this.#capacity,
      usage: USAGE.mapRead | USAGE.copyDst,
      label: "results",
    });
  }

  /** A range of a buffer that `out` gets; whole words. */
  add(out: Uint8Array, from: GpuBuffer, offset: number, bytes: number): void {
    this.#queue.copy(from, offset, this.#memory!, this.#bytes, bytes);
    this.#copies.push({ out, at: this.#bytes, bytes });
    this.#bytes += bytes;
  }

  /** Hands all that is queued to the GPU and asks for the results. */
  send(): void {
    this.#queue.submit();
    this.#isAway = true;
    if (this.#bytes === 0) return;
    const memory = this.#memory!;
    if (this.#events !== null) this.#events.map(memory, this.#bytes);
    else {
      this.#mapped = memory.mapAsync(MAP_READ, 0, this.#bytes).catch(() => {});
    }
  }

  /** Resolves once take() would not block. It never rejects. */
  async landed(): Promise<void> {
    if (this.#mapped !== null) await this.#mapped;
  }

  /** Waits, where that can be, and copies the results out. */
  take(): void {
    if (!this.#isAway) return;
    this.#isAway = false;
    this.#mapped = null;
    const copies = this.#copies;
    const bytes = this.#bytes;
    this.#copies = [];
    this.#bytes = 0;
    if (bytes === 0) return;
    const memory = this.#memory!;
    this.#events?.wait(memory);
    this.#queue.throwFault();
    if (memory.mapState !== "mapped") throw new Error(`the results of a flight cannot be mapped: ${memory.mapState}`);
    const mapped = new Uint8Array(memory.getMappedRange(0, bytes));
    for (const { out, at, bytes: count } of copies) out.set(mapped.subarray(at, at + Math.min(count, out.length)));
    memory.unmap();
  }
}
