// The tokens of a flight: on the GPU for the flight behind it, and on their way to the host.

import { MAX_TOP_LOGPROBS } from "../../core/draws.js";
import type { TokenBuffer } from "../device.js";
import type { DawnEvents } from "./events.js";
import type { GpuBuffer, GpuQueue } from "./gpu-queue.js";
import { Landing } from "./landing.js";

export class GpuTokenBuffer implements TokenBuffer {
  readonly ids: Int32Array; // [maxRows]
  readonly logprobs: Float32Array; // [maxRows]
  readonly topIds: Int32Array; // [maxRows, MAX_TOP_LOGPROBS]
  readonly topLogprobs: Float32Array; // [maxRows, MAX_TOP_LOGPROBS]
  readonly maxRows: number;
  /** ids [maxRows], by which the flight behind it finds its tokens. */
  readonly buffer: GpuBuffer;
  /** By entry: the log-probability, then ids and log-probabilities of the most probable tokens. */
  readonly reports: GpuBuffer;
  readonly landing: Landing;
  // Entries that the flight has written, and those with reports.
  #from = 0;
  #to = 0;
  readonly #reported: number[] = []; // pairs of an entry and its number of alternatives
  readonly #queue: GpuQueue;
  /** Draws and lists, one block for each call of sample() in a flight. */
  readonly #blocks: GpuBuffer[] = [];
  #numBlocks = 0;

  constructor(queue: GpuQueue, events: DawnEvents | null, maxRows: number) {
    this.maxRows = maxRows;
    this.#queue = queue;
    this.ids = new Int32Array(maxRows);
    this.logprobs = new Float32Array(maxRows);
    this.topIds = new Int32Array(maxRows * MAX_TOP_LOGPROBS);
    this.topLogprobs = new Float32Array(maxRows * MAX_TOP_LOGPROBS);
    this.buffer = queue.alloc(4 * maxRows, "a flight's tokens");
    this.reports = queue.alloc(4 * maxRows * REPORT_WORDS, "a flight's log-probabilities");
    this.landing = new Landing(queue, events);
  }

  /** Room for the draws of the next call, which nothing queued reads. */
  blockFor(bytes: number): GpuBuffer {
    const i = this.#numBlocks++;
    const known = this.#blocks[i];
    if (known !== undefined && known.byteLength >= bytes) return known;
    if (known !== undefined) this.#queue.free(known);
    const block = this.#queue.alloc(Math.max(4096, 2 * bytes), "a flight's draws");
    this.#blocks[i] = block;
    return block;
  }

  /** Entries [first, end) are written by the flight that has begun. */
  expect(first: number, end: number): void {
    this.#from = this.#to === 0 ? first : Math.min(this.#from, first);
    this.#to = Math.max(this.#to, end);
  }

  /** Entry `row` reports `numTop` alternatives. */
  expectReport(row: number, numTop: number): void {
    this.#reported.push(row, numTop);
  }

  get resultBytes(): number {
    return 4 * (this.#to - this.#from) + 2 * this.#reported.length * 4 * REPORT_WORDS;
  }

  addResults(): void {
    const from = this.#from;
    const count = this.#to - from;
    if (count > 0) this.landing.add(bytesOf(this.ids, from, count), this.buffer, 4 * from, 4 * count);
    for (let i = 0; i < this.#reported.length; i += 2) {
      const row = this.#reported[i]!;
      const numTop = this.#reported[i + 1]!;
      const at = 4 * row * REPORT_WORDS;
      this.landing.add(bytesOf(this.logprobs, row, 1), this.reports, at, 4);
      if (numTop === 0) continue;
      const first = row * MAX_TOP_LOGPROBS;
      this.landing.add(bytesOf(this.topIds, first, numTop), this.reports, at + 4, 4 * numTop);
      this.landing.add(
        bytesOf(this.topLogprobs, first, numTop),
        this.reports,
        at + 4 + 4 * MAX_TOP_LOGPROBS,
        4 * numTop,
      );
    }
    this.#from = this.#to = this.#numBlocks = 0;
    this.#reported.length = 0;
  }
}

/** Words of an entry's report. */
export const REPORT_WORDS = 1 + 2 * MAX_TOP_LOGPROBS;

function bytesOf(array: Int32Array | Float32Array, first: number, count: number): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset + 4 * first, 4 * count);
}
