// Sampling on the device (native/cuda/sample.cu): draws and their lists go in by one copy, rows of requests when they are new; the tokens stay for the next
// flight's embedding, and the kernel writes them to the host's memory too; log-probabilities come back by copies when the flight ends.

import { DRAW, DRAW_WORDS, type Draws, MAX_TOP_LOGPROBS } from "../../core/draws.js";
import type { StepRoom, TokenBuffer } from "../device.js";
import { check } from "./driver/abi.js";
import type { GraphCache } from "./driver/graph-cache.js";
import type { CudaRuntime } from "./runtime.js";
import type { CudaTensor } from "./tensor.js";

const THREADS = 1024;
/** Of few rows each has several blocks, which share its vocabulary; ids of one such block, at least. */
const SHARED_ROWS = 64;
const SHARED_IDS = 64;
/** Words of biases and forbidden tokens of a row, and of tokens of all rows of a call: what there is room for from the start. */
const ROW_LISTS = 256;
const MOST_TOKENS = 2 ** 20;
/** Bytes of Found, Best and Totals of sample.cuh. */
const FOUND_BYTES = 16;
const BEST_BYTES = 16;
const TOTALS_BYTES = 8 * THREADS + 8 + 4 * THREADS + 8;

interface Block {
  readonly host: number;
  readonly ints: Int32Array;
  readonly device: number;
  readonly capacity: number;
}

/** What one flight draws and gives, on both sides of the bus. */
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
  /** Pinned and device blocks of draws and lists, one for each call of `sample` in a flight. */
  readonly #calls: Block[] = [];
  #numCalls = 0;
  /** Of draws whose launches are still to come. */
  #brought: Block | null = null;
  #numEdited = 0;
  #numReports = 0;
  #numDraws = 0;
  /** Draws whose report is not about the logits that they draw from. */
  #numApart = 0;
  readonly #best: number; // device [maxRows, 2] Best
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
    this.#best = context.alloc(2 * BEST_BYTES * maxRows, "the best tokens of a flight's rows");
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
    if (runtime.stepRoom !== null) this.#reserveCalls(runtime.stepRoom);
  }

  /** Samples entries [first, first + draws.count). */
  sample(first: number, logits: CudaTensor, draws: Draws, scratch: EditScratch): void {
    if (draws.count === 0) return;
    if (this.#brought === null) this.upload(first, logits.cols, draws, scratch);
    if (this.#numEdited > 0) this.#launch("edit_rows", first, draws.count, logits, scratch);
    this.#launch("sample_rows", first, draws.count, logits, scratch);
    if (this.#numDraws > 0) this.#launch("draw_rows", first, draws.count, logits, scratch);
    if (this.#numApart > 0) this.#launch("report_best", first, draws.count, logits, scratch);
    if (this.#numReports > 0) this.#launch("report_rows", first, draws.count, logits, scratch);
    this.#brought = null;
  }

  /** The draws to the device: for the sample() to come, or for a graph that has its launches. */
  upload(first: number, vocabSize: number, draws: Draws, scratch: EditScratch): void {
    const { count, ints, lists, numLists } = draws;
    if (first + count > this.maxRows) {
      throw new RangeError(`${count} draws from ${first} on, room for ${this.maxRows}`);
    }
    const listsAt = listsOf(count);
    const call = this.#callFor(listsAt + numLists);
    this.#brought = call;
    this.#numEdited = draws.numEdited;
    this.#numDraws = draws.numDrawn;
    this.#numReports = this.#numApart = 0;
    if (draws.mostTop >= 0) this.#noteReports(first, draws);
    call.ints.set(ints.subarray(0, count * DRAW_WORDS));
    if (numLists > 0) call.ints.set(lists.subarray(0, numLists), listsAt);
    if (this.#numEdited > 0) scratch.reserve(this.#numEdited, vocabSize);
    const { driver, stream } = this.#runtime.context;
    const bytes = 4 * (listsAt + numLists);
    // Ahead of what is queued: nothing queued reads this call's block, or rows that are new.
    check(driver, driver.copyIn(call.device, call.host, bytes, stream), "copyIn", bytes);
    for (let i = 0; i < 3 * draws.numWrites; i += 3) {
      const to = scratch.rows + 4 * draws.writes[i]!;
      const from = call.host + 4 * (listsAt + draws.writes[i + 1]!);
      check(driver, driver.copyIn(to, from, 4 * draws.writes[i + 2]!, stream), "copyIn", to);
    }
    this.#from = this.#to === 0 ? first : Math.min(this.#from, first);
    this.#to = Math.max(this.#to, first + count);
  }

  #noteReports(first: number, { ints, count }: Draws): void {
    for (let d = 0; d < count; d++) {
      const at = d * DRAW_WORDS;
      const numTop = ints[at + DRAW.numTop]!;
      if (numTop < 0) continue;
      this.#reports.push(first + d, numTop);
      this.#numReports++;
      if (ints[at + DRAW.given]! >= 0 || ints[at + DRAW.edited]! >= 0) this.#numApart++;
    }
  }

  /** What the launches of a sample() of these draws from entry 0 on depend on; they have been brought. */
  addToKey(key: GraphCache, { count }: Draws): void {
    key.add(this.address).add(this.#brought!.device).add(count);
    key.add(this.#numEdited > 0 ? 1 : 0).add(this.#numReports > 0 ? 1 : 0);
    key.add(this.#numDraws > 0 ? 1 : 0).add(this.#numApart > 0 ? 1 : 0);
  }

  /** The launches of what was brought are in a graph, or do not come. */
  cancelUpload(): void {
    this.#brought = null;
  }

  #launch(kernel: string, first: number, count: number, logits: CudaTensor, scratch: EditScratch): void {
    const { queue, modules } = this.#runtime;
    const { maxRows, address } = this;
    const block = this.#brought!.device;
    const tops = maxRows * MAX_TOP_LOGPROBS;
    const top = first * MAX_TOP_LOGPROBS;
    queue
      .begin(modules.functionOf("sample", kernel), count, blocksOf(count, logits.cols), 1, THREADS, 0)
      .long(address + 4 * first)
      .long(this.#hostAddress + 4 * first)
      .long(address + 4 * (maxRows + first))
      .long(address + 4 * (2 * maxRows + top))
      .long(address + 4 * (2 * maxRows + tops + top))
      .long(logits.address)
      .long(block)
      .long(block + 4 * listsOf(count))
      .long(scratch.edited)
      .long(scratch.counts)
      .long(scratch.rows)
      .long(scratch.previous)
      .long(scratch.found)
      .long(this.#best + 2 * BEST_BYTES * first)
      .long(scratch.totals)
      .long(logits.stride)
      .int(logits.cols)
      .int(MAX_TOP_LOGPROBS)
      .end();
  }

  /** Everything queued goes to the driver, then the copies of log-probabilities, then `event`. */
  submit(event: number): void {
    const { context, queue } = this.#runtime;
    const { driver, stream } = context;
    queue.flush();
    const from = this.#from;
    const count = this.#to - from;
    if (this.#reports.length > 0) {
      const { maxRows } = this;
      const tops = maxRows * MAX_TOP_LOGPROBS;
      this.#copyOut(maxRows + from, count);
      this.#copyOut(2 * maxRows + from * MAX_TOP_LOGPROBS, count * MAX_TOP_LOGPROBS);
      this.#copyOut(2 * maxRows + tops + from * MAX_TOP_LOGPROBS, count * MAX_TOP_LOGPROBS);
    }
    this.#from = 0;
    this.#to = 0;
    this.#numCalls = 0;
    this.#brought = null;
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

  /** Rows and masks of a call of all logit rows, prompts that penalties are about; rows alone of the calls of further ones. */
  #reserveCalls({ maxTokens, maxLogitRows, vocabSize, maxContext }: StepRoom): void {
    const rows = Math.min(maxTokens, maxLogitRows);
    const lists = rows * (Math.ceil(vocabSize / 32) + ROW_LISTS) + Math.min(MOST_TOKENS, rows * maxContext);
    for (let first = 0; first < this.maxRows; first += rows) this.#callFor(listsOf(rows) + (first === 0 ? lists : 0));
    this.#numCalls = 0;
  }

  /** The next block of the flight, with room for so many words; grows by doubling where nobody has said what steps have. */
  #callFor(words: number): Block {
    const index = this.#numCalls++;
    const known = this.#calls[index];
    if (known !== undefined && known.capacity >= words) return known;
    const { context, queue } = this.#runtime;
    queue.flush();
    context.synchronize();
    if (known !== undefined) context.free(known.device);
    const capacity = this.#runtime.stepRoom !== null && this.#event === 0 ? words : Math.max(2 * words, 4096);
    const { address, buffer } = context.allocPinned(4 * capacity);
    const device = context.alloc(4 * capacity, "a flight's draws");
    const call = { host: address, ints: new Int32Array(buffer, 0, capacity), device, capacity };
    this.#calls[index] = call;
    return call;
  }
}

/** Memory for edited copies of logits, rows of requests and what blocks of a draw have found, shared by all flights: kernels of one stream use it in turn. */
export class EditScratch {
  readonly found: number; // [SHARED_ROWS] Found of sample.cuh
  readonly totals: number; // [SHARED_ROWS] Totals
  edited = 0; // [draws, vocab]
  counts = 0; // [draws, vocab]
  rows = 0; // of requests
  previous = 0; // tokens of the flight ahead
  #numbers = 0;
  readonly #runtime: CudaRuntime;

  constructor(runtime: CudaRuntime) {
    this.#runtime = runtime;
    this.found = runtime.context.alloc(FOUND_BYTES * SHARED_ROWS, "what blocks have found");
    this.totals = runtime.context.alloc(TOTALS_BYTES * SHARED_ROWS, "what blocks have found");
  }

  reserveRows(numWords: number): void {
    if (numWords > 0) this.rows = this.#runtime.context.alloc(4 * numWords, "how requests are sampled");
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

/** Blocks of each of so many rows: 16 of one row, and as many in all of up to SHARED_ROWS. */
function blocksOf(rows: number, vocabSize: number): number {
  if (rows > SHARED_ROWS) return 1;
  return Math.max(1, Math.min(16, Math.floor((2 * SHARED_ROWS) / rows), Math.floor(vocabSize / SHARED_IDS)));
}

/** Where the lists begin behind so many draws, in words. */
function listsOf(count: number): number {
  return Math.ceil((count * DRAW_WORDS) / 4) * 4;
}
