// The content of pages and states as bytes, group by group: what moves to disk or host memory and back.

import type { PageMemory } from "../../../cache/host-tier.js";
import type { Device, StatePool } from "../../../device/device.js";
import type { Caches } from "../../../models/model.js";

export class PageBytes implements PageMemory {
  readonly pageBytes: readonly number[]; // [G] of a page, or of a slot of states
  readonly numPages: readonly number[]; // [G]
  readonly #device: Device;
  readonly #pools: Caches; // [G]
  readonly #page = new Int32Array(1);
  #nextAlloc = 0; // not before this time

  constructor(device: Device, pools: Caches) {
    this.#device = device;
    this.#pools = pools;
    this.pageBytes = pools.map((pool) => (isStates(pool) ? pool.spec.floats * 4 : device.kvPageBytes(pool.spec)));
    this.numPages = pools.map((pool) => (isStates(pool) ? pool.spec.numSlots : pool.spec.numPages));
  }

  read(out: Uint8Array, group: number, page: number): void {
    const pool = this.#pools[group]!;
    if (isStates(pool)) {
      const values = new Float32Array(pool.spec.floats);
      this.#device.readStates(values, pool, page);
      out.set(new Uint8Array(values.buffer));
    } else {
      this.#page[0] = page;
      this.#device.readPages(out, pool, this.#page, 1);
    }
  }

  write(group: number, page: number, bytes: Uint8Array): void {
    const pool = this.#pools[group]!;
    if (isStates(pool)) this.#device.writeStates(pool, page, new Float32Array(Uint8Array.from(bytes).buffer));
    else {
      this.#page[0] = page;
      this.#device.writePages(pool, this.#page, 1, bytes);
    }
  }

  /** Memory that a device copies to by itself is locked in place, page by page: at most a twentieth of the time goes to that. */
  allocHost(bytes: number): Uint8Array | null {
    const start = performance.now();
    if (start < this.#nextAlloc) return null;
    const { buffer, byteOffset } = this.#device.allocHost(Math.ceil(bytes / 4));
    const end = performance.now();
    if (this.#device.swapOut !== undefined) this.#nextAlloc = end + 19 * (end - start);
    return new Uint8Array(buffer, byteOffset, bytes);
  }

  save(out: Uint8Array, group: number, page: number): void {
    if (this.#device.swapOut === undefined) this.read(out, group, page);
    else this.#device.swapOut(out, this.#pools[group]!, page);
  }

  load(group: number, page: number, bytes: Uint8Array): void {
    if (this.#device.swapIn === undefined) this.write(group, page, bytes);
    else this.#device.swapIn(this.#pools[group]!, page, bytes);
  }
}

function isStates(pool: Caches[number]): pool is StatePool {
  return "floats" in pool.spec;
}
