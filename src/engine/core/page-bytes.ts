// The content of pages and states as bytes, group by group: what moves to disk or host memory and back.

import type { PageMemory } from "../../cache/host-tier.js";
import type { Device, StatePool } from "../../device/device.js";
import type { Caches } from "../../models/model.js";

export class PageBytes implements PageMemory {
  readonly pageBytes: readonly number[]; // [G] of a page, or of a slot of states
  readonly #device: Device;
  readonly #pools: Caches; // [G]
  readonly #page = new Int32Array(1);

  constructor(device: Device, pools: Caches) {
    this.#device = device;
    this.#pools = pools;
    this.pageBytes = pools.map((pool) => (isStates(pool) ? pool.spec.floats * 4 : device.kvPageBytes(pool.spec)));
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
}

function isStates(pool: Caches[number]): pool is StatePool {
  return "floats" in pool.spec;
}
