// cos and sin of every position met so far, computed on the host as the reference device does, and the rows of a batch's tokens.

import type { RotarySpec, RotaryTable } from "../op-specs.js";
import type { GpuBuffer, GpuQueue } from "./gpu-queue.js";
import { GATHER_TABLE } from "./kernels/rotary.js";
import type { GpuStagedBatch } from "./staged-batch.js";

const FIRST_POSITIONS = 512;

export class GpuRotary implements RotaryTable {
  readonly spec: RotarySpec;
  readonly half: number;
  /** [token, half] of (cos, sin). */
  readonly buffer: GpuBuffer;
  readonly #queue: GpuQueue;
  #positions: GpuBuffer; // [position, half]
  #capacity = 0;

  constructor(queue: GpuQueue, spec: RotarySpec, maxTokens: number) {
    this.spec = spec;
    this.half = spec.invFreq.length;
    this.#queue = queue;
    this.buffer = queue.alloc(8 * maxTokens * this.half, "a rotary table");
    this.#positions = this.buffer;
  }

  fill(staged: GpuStagedBatch): void {
    if (staged.lastPosition >= this.#capacity) this.#grow(staged.lastPosition + 1);
    this.#queue
      .begin(GATHER_TABLE)
      .operand(this.buffer)
      .operand(this.#positions)
      .operand(staged.buffer)
      .u32(this.half)
      .u32(staged.positions)
      .dispatch(Math.ceil(this.half / 64), staged.numTokens);
  }

  #grow(needed: number): void {
    let capacity = Math.max(FIRST_POSITIONS, this.#capacity);
    while (capacity < needed) capacity *= 2;
    const { invFreq, scale } = this.spec;
    const values = new Float32Array(2 * capacity * this.half);
    for (let position = 0, at = 0; position < capacity; position++) {
      for (let i = 0; i < this.half; i++) {
        const angle = Math.fround(position * invFreq[i]!);
        values[at++] = Math.fround(Math.cos(angle)) * scale;
        values[at++] = Math.fround(Math.sin(angle)) * scale;
      }
    }
    const old = this.#capacity > 0 ? this.#positions : null;
    this.#positions = this.#queue.alloc(values.byteLength, "cos and sin of positions");
    this.#queue.write(this.#positions, 0, values);
    if (old !== null) this.#queue.free(old);
    this.#capacity = capacity;
  }
}
