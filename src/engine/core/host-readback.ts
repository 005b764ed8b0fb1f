// Rows of numbers that a flight brings back from the device for the host to read when it has landed: logits that a hook edits,
// hidden states that become an embedding. Memory is added outside the hot path, in blocks that never move: a copy may be under way.

import type { Device, Tensor } from "../../device/device.js";

const BLOCK_BYTES = 2 ** 20;

export class HostReadback {
  readonly #device: Device;
  readonly #blocks: Float32Array[] = [];
  readonly #rows: Float32Array[] = []; // views of rows kept
  #block = 0;
  /** Floats of the current block in use. */
  #used = 0;

  constructor(device: Device) {
    this.#device = device;
  }

  clear(): void {
    this.#rows.length = 0;
    this.#block = 0;
    this.#used = 0;
  }

  /** Keeps rows [firstRow, firstRow + n) of x as they are at this point of the flight; returns the index of the first. */
  keep(x: Tensor, firstRow: number, n: number): number {
    const first = this.#rows.length;
    const out = this.#take(n * x.cols);
    this.#device.readLater(out, x, firstRow, n);
    for (let i = 0; i < n; i++) this.#rows.push(out.subarray(i * x.cols, (i + 1) * x.cols));
    return first;
  }

  row(index: number): Float32Array {
    return this.#rows[index]!;
  }

  #take(numFloats: number): Float32Array {
    while (this.#block < this.#blocks.length && this.#used + numFloats > this.#blocks[this.#block]!.length) {
      this.#block++;
      this.#used = 0;
    }
    if (this.#block === this.#blocks.length) {
      this.#blocks.push(this.#device.allocHost(Math.max(numFloats, BLOCK_BYTES / 4)));
    }
    const from = this.#used;
    this.#used += numFloats;
    return this.#blocks[this.#block]!.subarray(from, this.#used);
  }
}
