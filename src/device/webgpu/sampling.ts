// Sampling on the GPU: rows and their lists go in by one write, tokens stay there for the flight behind.

import { FIELD, MAX_TOP_LOGPROBS, ROW_WORDS, type SamplingRows } from "../../core/sampling-rows.js";
import type { GpuBuffer, GpuQueue } from "./gpu-queue.js";
import { ADDED, EDIT_ROWS, GPU_ROW_WORDS, REPORT_ROWS, SAMPLE_ROWS } from "./kernels/sample.js";
import type { GpuTensor } from "./tensor.js";
import type { GpuTokenBuffer } from "./token-buffer.js";

const MINUS_INFINITY = 0xff800000;
/** Weights are fractions of this (kernels/sample.ts). */
const WHOLE_WEIGHT = 2 ** 39;

export class GpuSampler {
  readonly #queue: GpuQueue;
  readonly #nothing: GpuBuffer;
  #block = new Int32Array(4096);
  #blockFloats = new Float32Array(this.#block.buffer);
  #edited: GpuBuffer;
  #counts: GpuBuffer;
  #history: GpuBuffer;

  constructor(queue: GpuQueue, nothing: GpuBuffer) {
    this.#queue = queue;
    this.#nothing = this.#edited = this.#counts = this.#history = nothing;
  }

  reserveHistory(numTokens: number): void {
    this.#history = this.#queue.alloc(4 * numTokens, "tokens that penalties count");
  }

  sample(out: GpuTokenBuffer, first: number, logits: GpuTensor, rows: SamplingRows, previous: GpuBuffer): void {
    const { count } = rows;
    if (count === 0) return;
    if (first + count > out.maxRows)
      throw new RangeError(`sampling of ${count} rows from ${first} on, room for ${out.maxRows}`);
    const numEdited = this.#pack(rows, first);
    const words = count * GPU_ROW_WORDS + rows.numLists;
    const block = out.blockFor(4 * words);
    this.#queue.writeNow(block, 0, this.#block, 0, 4 * words);
    if (numEdited > 0) {
      this.#reserve(numEdited * logits.cols);
      this.#queue
        .begin(EDIT_ROWS)
        .operand(this.#edited)
        .operand(this.#counts)
        .operand(this.#history)
        .operand(logits.buffer)
        .operand(block)
        .operand(previous)
        .u32(logits.cols)
        .u32(logits.offset)
        .u32(logits.stride)
        .u32(MINUS_INFINITY)
        .dispatch(count);
    }
    this.#queue
      .begin(SAMPLE_ROWS)
      .operand(out.buffer)
      .operand(this.#edited)
      .operand(logits.buffer)
      .operand(block)
      .u32(logits.cols)
      .u32(logits.offset)
      .u32(logits.stride)
      .dispatch(count);
    out.expect(first, first + count);
    let hasReports = false;
    for (let r = 0; r < count; r++) {
      const numTop = rows.ints[r * ROW_WORDS + FIELD.numTop]!;
      if (numTop < 0) continue;
      hasReports = true;
      out.expectReport(first + r, numTop);
    }
    if (!hasReports) return;
    this.#queue
      .begin(REPORT_ROWS)
      .operand(out.reports)
      .operand(out.buffer)
      .operand(logits.buffer)
      .operand(block)
      .u32(logits.cols)
      .u32(logits.offset)
      .u32(logits.stride)
      .u32(MAX_TOP_LOGPROBS)
      .u32(MINUS_INFINITY)
      .dispatch(count);
  }

  /** Rows as the kernels read them, then the lists; fields that are places in the lists are places in the block. Returns how many are edited. */
  #pack(rows: SamplingRows, first: number): number {
    const { ints, floats, doubles, lists, count, numLists } = rows;
    const listsAt = count * GPU_ROW_WORDS;
    if (listsAt + numLists > this.#block.length) {
      this.#block = new Int32Array(2 * (listsAt + numLists));
      this.#blockFloats = new Float32Array(this.#block.buffer);
    }
    const block = this.#block;
    let numEdited = 0;
    for (let r = 0; r < count; r++) {
      const from = r * ROW_WORDS;
      const to = r * GPU_ROW_WORDS;
      for (let i = 2; i < ROW_WORDS; i++) block[to + i] = ints[from + i]!;
      this.#putFraction(to, doubles[from / 2]!);
      // Just below topP: what is exactly the share is enough.
      const topP = floats[from + FIELD.topP]!;
      this.#putFraction(to + ADDED.topP, topP <= 0 ? 0 : topP >= 1 ? 1 - 2 ** -53 : topP - 2 ** -54);
      const floor = Math.ceil(Math.max(0, floats[from + FIELD.minP]!) * WHOLE_WEIGHT);
      block[to + ADDED.floor] = (floor % 2 ** 32) | 0;
      block[to + ADDED.floor + 1] = Math.floor(floor / 2 ** 32);
      block[to + ADDED.entry] = first + r;
      block[to + FIELD.tokens] = ints[from + FIELD.tokens]! + listsAt;
      block[to + FIELD.bias] = ints[from + FIELD.bias]! + listsAt;
      block[to + FIELD.forbidden] = ints[from + FIELD.forbidden]! + listsAt;
      if (ints[from + FIELD.mask]! >= 0) block[to + FIELD.mask] = ints[from + FIELD.mask]! + listsAt;
      if (this.#blockFloats[to + FIELD.temperature] === 0) block[to + FIELD.temperature] = 0; // -0
      block[to + ADDED.edited] = isEdited(ints, from) ? numEdited++ : -1;
    }
    for (let i = 0; i < numLists; i++) block[listsAt + i] = lists[i]!;
    return numEdited;
  }

  /** A number in [0, 1) as a fraction of 2^64, low word first. */
  #putFraction(at: number, value: number): void {
    const scaled = value * 2 ** 32;
    const high = Math.floor(scaled);
    this.#block[at] = Math.floor((scaled - high) * 2 ** 32) | 0;
    this.#block[at + 1] = high | 0;
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

function isEdited(ints: Int32Array, at: number): boolean {
  if (ints[at + FIELD.given]! >= 0) return false;
  const numTokens = ints[at + FIELD.numHeld]! + ints[at + FIELD.numTokens]!;
  return numTokens + ints[at + FIELD.numBias]! + ints[at + FIELD.numForbidden]! > 0 || ints[at + FIELD.mask]! >= 0;
}
