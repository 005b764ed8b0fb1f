// Sampling on the GPU: draws and their lists go in by one write, rows of requests when they are new, tokens stay there for the flight behind.

import { DRAW, DRAW_WORDS, type Draws, MAX_TOP_LOGPROBS } from "../../core/draws.js";
import type { GpuBuffer, GpuQueue } from "./gpu-queue.js";
import { EDIT_ROWS, REPORT_ROWS, SAMPLE_ROWS } from "./kernels/sample.js";
import type { GpuTensor } from "./tensor.js";
import type { GpuTokenBuffer } from "./token-buffer.js";

const MINUS_INFINITY = 0xff800000;

export class GpuSampler {
  readonly #queue: GpuQueue;
  readonly #nothing: GpuBuffer;
  #block = new Int32Array(4096);
  #edited: GpuBuffer;
  #counts: GpuBuffer;
  #rows: GpuBuffer;

  constructor(queue: GpuQueue, nothing: GpuBuffer) {
    this.#queue = queue;
    this.#nothing = this.#edited = this.#counts = this.#rows = nothing;
  }

  reserveRows(numWords: number): void {
    if (numWords > 0) this.#rows = this.#queue.alloc(4 * numWords, "how requests are sampled");
  }

  sample(out: GpuTokenBuffer, first: number, logits: GpuTensor, draws: Draws, previous: GpuBuffer): void {
    const { count, numEdited } = draws;
    if (count === 0) return;
    if (first + count > out.maxRows) throw new RangeError(`${count} draws from ${first} on, room for ${out.maxRows}`);
    const block = this.#bring(out, draws);
    const listsAt = count * DRAW_WORDS;
    if (numEdited > 0) {
      this.#reserve(numEdited * logits.cols);
      this.#queue
        .begin(EDIT_ROWS)
        .operand(this.#edited)
        .operand(this.#counts)
        .operand(this.#rows)
        .operand(logits.buffer)
        .operand(block)
        .operand(previous)
        .u32(logits.cols)
        .u32(logits.offset)
        .u32(logits.stride)
        .u32(listsAt)
        .u32(MINUS_INFINITY)
        .dispatch(count);
    }
    this.#queue
      .begin(SAMPLE_ROWS)
      .operand(out.buffer)
      .operand(this.#edited)
      .operand(logits.buffer)
      .operand(block)
      .operand(this.#rows)
      .u32(logits.cols)
      .u32(logits.offset)
      .u32(logits.stride)
      .u32(listsAt)
      .u32(first)
      .dispatch(count);
    out.expect(first, first + count);
    if (draws.mostTop < 0) return;
    for (let d = 0; d < count; d++) {
      const numTop = draws.ints[d * DRAW_WORDS + DRAW.numTop]!;
      if (numTop >= 0) out.expectReport(first + d, numTop);
    }
    this.#queue
      .begin(REPORT_ROWS)
      .operand(out.reports)
      .operand(out.buffer)
      .operand(logits.buffer)
      .operand(block)
      .u32(logits.cols)
      .u32(logits.offset)
      .u32(logits.stride)
      .u32(first)
      .u32(MAX_TOP_LOGPROBS)
      .u32(MINUS_INFINITY)
      .dispatch(count);
  }

  /** Draws, then lists; and the rows that are new. */
  #bring(out: GpuTokenBuffer, { ints, lists, count, numLists, writes, numWrites }: Draws): GpuBuffer {
    const listsAt = count * DRAW_WORDS;
    const words = listsAt + numLists;
    if (words > this.#block.length) this.#block = new Int32Array(2 * words);
    this.#block.set(ints.subarray(0, listsAt));
    if (numLists > 0) this.#block.set(lists.subarray(0, numLists), listsAt);
    const block = out.blockFor(4 * words);
    this.#queue.writeNow(block, 0, this.#block, 0, 4 * words);
    for (let i = 0; i < 3 * numWrites; i += 3) {
      const from = 4 * (listsAt + writes[i + 1]!);
      this.#queue.writeNow(this.#rows, 4 * writes[i]!, this.#block, from, 4 * writes[i + 2]!);
    }
    return block;
  }

  #reserve(numbers: number): void {
    if (4 * numbers <= this.#edited.byteLength && this.#edited !== this.#nothing) return;
    if (this.#edited !== this.#nothing) {
      this.#queue.free(this.#edited);
      this.#queue.free(this.#counts);
    }
    this.#edited = this.#queue.alloc(4 * numbers, "edited logits");
    this.#counts = this.#queue.alloc(4 * numbers, "counts of tokens");
  }
}
