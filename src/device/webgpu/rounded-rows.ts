// Rows rounded to 8 bits for products with block encodings. What was rounded last is kept: products of the same rows follow each other, and
// kernels that make such rows round them at once.

import type { GpuBuffer, GpuQueue } from "./gpu-queue.js";
import { BLOCK_UNIT } from "./kernels/encodings.js";
import { ROUND_ROWS, ROUND_ROWS_SERIAL, ROUNDED_UNITS } from "./kernels/rounding.js";
import type { GpuTensor } from "./tensor.js";

/** Room for rounded rows. */
interface Room {
  codes: GpuBuffer; // [n, units] 32 bytes
  factors: GpuBuffer; // [n, units] the factor and two sums of codes
  capacity: number; // units
}

export class RoundedRows {
  /** What products read. */
  #room: Room;
  /** What a product that rounds its own rows writes. */
  #next: Room;
  readonly #queue: GpuQueue;
  readonly #widths = new Set<number>();
  #of: GpuTensor | null = null;
  #version = 0;
  #rows = 0;

  constructor(queue: GpuQueue) {
    this.#queue = queue;
    const nothing = queue.alloc(16, "rounded rows");
    this.#room = { codes: nothing, factors: nothing, capacity: 0 };
    this.#next = { codes: nothing, factors: nothing, capacity: 0 };
  }

  get codes(): GpuBuffer {
    return this.#room.codes;
  }

  get factors(): GpuBuffer {
    return this.#room.factors;
  }

  /** Room beside the rows that a launch reads, for those of x, which it rounds; hold() behind it after turn(). */
  besideFor(x: GpuTensor): Readonly<Room> {
    this.#reserve(this.#next, (x.rows * x.cols) / BLOCK_UNIT);
    return this.#next;
  }

  /** The rows that were written beside are those that products read now. */
  turn(): void {
    [this.#room, this.#next] = [this.#next, this.#room];
  }

  /** A weight with codes has rows of so many columns. */
  expect(cols: number): void {
    this.#widths.add(cols);
  }

  /** Whether what makes x may round it at once: it is as wide as rows that meet codes. On a processor the barriers cost more. */
  isFor(x: GpuTensor): boolean {
    return this.#widths.has(x.cols) && !this.#queue.isSerial;
  }

  /** Room for rows of x, whose kernel rounds them itself. */
  reserveFor(x: GpuTensor): void {
    this.#reserve(this.#room, (x.rows * x.cols) / BLOCK_UNIT);
  }

  /** The kernel that was dispatched last has rounded the first n rows of x. */
  hold(x: GpuTensor, n: number): void {
    this.#of = x;
    this.#version = x.buffer.version;
    this.#rows = n;
  }

  /** The first n rows of x are in `codes` and `factors` for the launches that follow. */
  of(x: GpuTensor, n: number): void {
    const of = this.#of;
    const isSame =
      of !== null && of.buffer === x.buffer && of.offset === x.offset && of.cols === x.cols && of.stride === x.stride;
    if (isSame && this.#version === x.buffer.version && n <= this.#rows) return;
    const units = x.cols / BLOCK_UNIT;
    this.reserveFor(x);
    const { isSerial } = this.#queue;
    this.#queue
      .begin(isSerial ? ROUND_ROWS_SERIAL : ROUND_ROWS)
      .operand(this.codes)
      .operand(this.factors)
      .operand(x.buffer)
      .u32(units)
      .u32(x.offset)
      .u32(x.stride)
      .dispatch(Math.ceil(units / (isSerial ? ROUNDED_UNITS.serial : ROUNDED_UNITS.parallel)), n);
    this.hold(x, n);
  }

  #reserve(room: Room, units: number): void {
    if (units <= room.capacity) return;
    if (room.capacity > 0) {
      this.#queue.free(room.codes);
      this.#queue.free(room.factors);
    }
    room.capacity = Math.max(units, 2 * room.capacity);
    room.codes = this.#queue.alloc(32 * room.capacity, "rounded rows");
    room.factors = this.#queue.alloc(8 * room.capacity, "the factors of rounded rows");
  }
}
