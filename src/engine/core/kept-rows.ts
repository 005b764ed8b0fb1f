// Rows of numbers that a flight brings back from the device for the host to read when it has landed: logits that a hook edits,
// hidden states that become an embedding. Grows outside the hot path; most flights keep none.

import type { Device, Tensor } from "../../device/device.js";

export class KeptRows {
  count = 0;
  readonly #device: Device;
  #values = new Float32Array(0); // [capacity, width]
  #width = 0;

  constructor(device: Device) {
    this.#device = device;
  }

  clear(): void {
    this.count = 0;
  }

  /** Keeps rows [firstRow, firstRow + n) of x as they are now; returns the index of the first. */
  keep(x: Tensor, firstRow: number, n: number): number {
    const first = this.count;
    this.#width = x.cols;
    const needed = (first + n) * x.cols;
    if (needed > this.#values.length) {
      const grown = new Float32Array(Math.max(needed, this.#values.length * 2));
      grown.set(this.#values);
      this.#values = grown;
    }
    this.#device.read(this.#values.subarray(first * x.cols), x, firstRow, n);
    this.count += n;
    return first;
  }

  row(index: number): Float32Array {
    return this.#values.subarray(index * this.#width, (index + 1) * this.#width);
  }
}
