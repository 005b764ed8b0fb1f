// Sampling on the device (native/cuda/sample.cu): the sampling rows and their lists go in by one copy, the tokens stay for the next
// flight's embedding, and what was found comes back by one copy when the flight ends.

import { FIELD, MAX_TOP_LOGPROBS, ROW_WORDS, type SamplingRows } from "../../core/sampling-rows.js";
import type { TokenBuffer } from "../device.js";
import { check } from "./abi.js";
import type { CudaRuntime } from "./runtime.js";
import type { CudaTensor } from "./tensor.js";

const THREADS = 1024;

/** What one flight's rows are sampled by and what they give, on both sides of the bus. */
export class CudaTokenBuffer implements TokenBuffer {
  readonly ids: Int32Array; // [maxRows] page-locked
  readonly logprobs: Float32Array; // [maxRows]
  readonly topIds: Int32Array; // [maxRows, MAX_TOP_LOGPROBS]
  readonly topLogprobs: Float32Array; // [maxRows, MAX_TOP_LOGPROBS]
  readonly maxRows: number;
  /** Device: ids, logprobs, topIds, topLogprobs, end to end. */
  readonly address: number;
  readonly #runtime: CudaRuntime;
  readonly #hostAddress: number;
  #event = 0; // comes when the flight has landed
  /** Pinned and device blocks of rows, editedOf and lists, one for each call of `sample` in a flight. */
  readonly #calls: { host: number; ints: Int32Array; device: number; capacity: number }[] = [];
  #numCalls = 0;
  /** Entries written since the flight before ended. */
  #from = 0;
  #to = 0;
  /** Pairs of an entry that asks for log-probabilities and how many alternatives it wants. */
  #reports: number[] = [];
  // What the device reports, as it lies there: page-locked, taken over when the flight has landed.
  readonly #hostLogprobs: Float32Array;
  readonly #hostTopIds: Int32Array;
  readonly #hostTopLogprobs: Float32Array;

  constructor(runtime: CudaRuntime, maxRows: number) {
    const { context } = runtime;
    const words = maxRows * (2 + 2 * MAX_TOP_LOGPROBS);
    this.#runtime = runtime;
    this.maxRows = maxRows;
    this.address = context.alloc(4 * words, "a flight's tokens");
    const host = context.allocPinned(4 * words);
    this.#hostAddress = host.address;
    const tops = maxRows * MAX_TOP_LOGPROBS;
    this.ids = new Int32Array(host.buffer, 0, maxRows);
    this.logprobs = new Float32Array(maxRows);
    this.topIds = new Int32Array(tops);
    this.topLogprobs = new Float32Array(tops);
    this.#hostLogprobs = new Float32Array(host.buffer, 4 * maxRows, maxRows);
    this.#hostTopIds = new Int32Array(host.buffer, 8 * maxRows, tops);
    this.#hostTopLogprobs = new Float32Array(host.buffer, 8 * maxRows + 4 * tops, tops);
  }

  /** Samples entries [first, first + rows.count). */
  sample(first: number, logits: CudaTensor, rows: SamplingRows, scratch: EditScratch): void {
    const { count } = rows;
    if (count === 0) return;
    if (first + count > this.maxRows) {
      throw new RangeError(`sampling of ${count} rows from ${first} on, room for ${this.maxRows}`);
    }
    const rowWords = count * ROW_WORDS;
    const listsAt = Math.ceil((rowWords + count) / 4) * 4;
    const call = this.#callFor(listsAt + rows.numLists);
    let numEdited = 0;
    const numReports = this.#reports.length;
    for (let r = 0; r < count; r++) {
      const at = r * ROW_WORDS;
      call.ints[rowWords + r] = isEdited(rows, at) ? numEdited++ : -1;
      const numTop = rows.ints[at + FIELD.numTop]!;
      if (numTop >= 0) this.#reports.push(first + r, numTop);
    }
    call.ints.set(rows.ints.subarray(0, rowWords));
    call.ints.set(rows.lists.subarray(0, rows.numLists), listsAt);
    if (numEdited > 0) scratch.reserve(numEdited, logits.cols);
    const { context } = this.#runtime;
    const bytes = 4 * (listsAt + rows.numLists);
    // Ahead of what is queued: nothing queued reads this call's block.
    check(context.driver, context.driver.copyIn(call.device, call.host, bytes, context.stream), "copyIn", bytes);
    if (numEdited > 0) this.#launch("edit_rows", first, count, logits, call.device, rowWords, listsAt, scratch);
    this.#launch("sample_rows", first, count, logits, call.device, rowWords, listsAt, scratch);
    if (this.#reports.length > numReports)
      this.#launch("report_rows", first, count, logits, call.device, rowWords, listsAt, scratch);
    this.#from = this.#to === 0 ? first : Math.min(this.#from, first);
    this.#to = Math.max(this.#to, first + count);
  }

  #launch(
    kernel: string,
    first: number,
    count: number,
    logits: CudaTensor,
    block: number,
    rowWords: number,
    listsAt: number,
    scratch: EditScratch,
  ): void {
    const { queue, modules } = this.#runtime;
    const { maxRows, address } = this;
    const tops = maxRows * MAX_TOP_LOGPROBS;
    const top = first * MAX_TOP_LOGPROBS;
    queue
      .begin(modules.functionOf("sample", kernel), count, 1, 1, THREADS, 0)
      .long(address + 4 * first)
      .long(address + 4 * (maxRows + first))
      .long(address + 4 * (2 * maxRows + top))
      .long(address + 4 * (2 * maxRows + tops + top))
      .long(logits.address)
      .long(block)
      .long(block + 4 * listsAt)
      .long(scratch.edited)
      .long(scratch.counts)
      .long(block + 4 * rowWords)
      .long(logits.stride)
      .int(logits.cols)
      .int(MAX_TOP_LOGPROBS)
      .end();
  }

  /** Everything queued goes to the driver, then the copies of what was found, then `event`. */
  endFlight(event: number): void {
    const { context, queue } = this.#runtime;
    const { driver, stream } = context;
    queue.flush();
    const from = this.#from;
    const count = this.#to - from;
    if (count > 0) {
      this.#copyOut(from, count);
      if (this.#reports.length > 0) {
        const { maxRows } = this;
        const tops = maxRows * MAX_TOP_LOGPROBS;
        this.#copyOut(maxRows + from, count);
        this.#copyOut(2 * maxRows + from * MAX_TOP_LOGPROBS, count * MAX_TOP_LOGPROBS);
        this.#copyOut(2 * maxRows + tops + from * MAX_TOP_LOGPROBS, count * MAX_TOP_LOGPROBS);
      }
    }
    this.#from = 0;
    this.#to = 0;
    this.#numCalls = 0;
    this.#event = event;
    check(driver, driver.eventRecord(event, stream), "eventRecord");
  }

  wait(): void {
    const { driver } = this.#runtime.context;
    check(driver, driver.eventSynchronize(this.#event), "eventSynchronize");
    if (this.#reports.length > 0) this.#takeReports();
  }

  #takeReports(): void {
    for (let i = 0; i < this.#reports.length; i += 2) {
      const entry = this.#reports[i]!;
      const top = entry * MAX_TOP_LOGPROBS;
      this.logprobs[entry] = this.#hostLogprobs[entry]!;
      for (let j = top; j < top + this.#reports[i + 1]!; j++) {
        this.topIds[j] = this.#hostTopIds[j]!;
        this.topLogprobs[j] = this.#hostTopLogprobs[j]!;
      }
    }
    this.#reports = [];
  }

  #copyOut(word: number, count: number): void {
    this.#runtime.copyOut(this.#hostAddress + 4 * word, this.address + 4 * word, 4 * count);
  }

  /** The next block of the flight, with room for so many words; grows by doubling, outside the hot path. */
  #callFor(words: number): { host: number; ints: Int32Array; device: number; capacity: number } {
    const index = this.#numCalls++;
    const known = this.#calls[index];
    if (known !== undefined && known.capacity >= words) return known;
    const { context, queue } = this.#runtime;
    queue.flush();
    context.synchronize();
    if (known !== undefined) context.free(known.device);
    const capacity = Math.max(2 * words, 4096);
    const { address, buffer } = context.allocPinned(4 * capacity);
    const device = context.alloc(4 * capacity, "a flight's sampling rows");
    const call = { host: address, ints: new Int32Array(buffer, 0, capacity), device, capacity };
    this.#calls[index] = call;
    return call;
  }
}

/** Memory for edited copies of logits, shared by all flights: kernels of one stream use it in turn. */
export class EditScratch {
  edited = 0; // [rows, vocab]
  counts = 0; // [rows, vocab]
  #numbers = 0;
  readonly #runtime: CudaRuntime;

  constructor(runtime: CudaRuntime) {
    this.#runtime = runtime;
  }

  reserve(rows: number, vocab: number): void {
    if (rows * vocab <= this.#numbers) return;
    const { context, queue } = this.#runtime;
    queue.flush();
    context.synchronize();
    if (this.edited !== 0) {
      context.free(this.edited);
      context.free(this.counts);
    }
    this.#numbers = Math.max(rows * vocab, 2 * this.#numbers);
    this.edited = context.alloc(4 * this.#numbers, "edited logits");
    this.counts = context.alloc(4 * this.#numbers, "token counts");
  }
}

/** Whether anything changes the row's logits before the choice. */
function isEdited({ ints }: SamplingRows, at: number): boolean {
  return (
    ints[at + FIELD.given]! < 0 &&
    (ints[at + FIELD.numBias]! > 0 ||
      ints[at + FIELD.numPrompt]! + ints[at + FIELD.numAnswer]! > 0 ||
      ints[at + FIELD.numForbidden]! > 0 ||
      ints[at + FIELD.mask]! >= 0)
  );
}
