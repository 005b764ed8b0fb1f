// One step in flight: everything of it, from what the scheduler chose to the tokens that came back. Allocated once; a ring of
// `depth` of them goes round (depth 1: a flight lands before the next one starts).
//
//   schedule -> launch (queues all device work, reads nothing) -> ... -> commit (waits, appends, publishes, frees, emits)

import { Batch } from "../../core/batch.js";
import { NULL_PAGE } from "../../core/ids.js";
import { ceilDiv, NEVER } from "../../core/math.js";
import { endsWithPrompt, forksAt } from "../../core/request.js";
import { SAMPLING } from "../../core/sampling.js";
import type { Device, StagedBatch, Tensor, TokenBuffer } from "../../device/device.js";
import type { Step } from "../../scheduler/scheduler.js";
import { MediaRows } from "./media-rows.js";
import type { Session } from "./session.js";

/** The cache groups as a row's tables have them. */
export interface FlightGroups {
  readonly numPaged: number;
  /** -1: the model has no states. */
  readonly stateIndex: number;
}

/** Further samples that can begin in one flight: the scheduler counts them as tokens of the step, all but those of its last call. */
const forkRoom = (maxTokens: number): number => maxTokens + SAMPLING.n.max;

export class Flight {
  readonly step: Step;
  readonly batch: Batch;
  readonly staged: StagedBatch;
  readonly sessions: Session[] = []; // [R]
  readonly rowOfLogit: Int32Array; // [numLogitRows] the row a logit row belongs to
  /** What the device sampled: for each logit row a token or the report on a prompt's token, then the forks' first tokens. */
  readonly tokens: TokenBuffer; // [maxTokens + forkRoom]
  numForks!: number; // set by clear(), like the others without a value
  /** The row's logit rows: [first, end). */
  readonly firstLogit: Int32Array; // [R]
  readonly endLogit: Int32Array; // [R]
  /** The row's draws: a logit row for its last token and each of its drafts, [firstDraw, lastLogit]. lastLogit -1: the row gives no token. */
  readonly firstDraw: Int32Array; // [R]
  readonly lastLogit: Int32Array; // [R]
  /** The entry of the first further sample of the row's call, where there are any and the device chooses for them. */
  readonly forkEntries: Int32Array; // [R]
  /** What the row's own constraint threw while its mask was made; undefined: nothing. */
  readonly rowFaults: unknown[] = []; // [R]
  /** First of the rows kept for the host: logits that a hook edits, hidden states of an embedding; -1: none. */
  readonly readbacks: Int32Array; // [R]
  /** What its rows have of their media. */
  readonly media: MediaRows;
  readonly logits: HostReadback; // of width V
  readonly hidden: HostReadback; // of width hidden
  readonly #stateGroup: number;
  /** Of rows that nobody reads. */
  readonly #anyTokens: Int32Array; // [P]
  startMs!: number;
  /** Its rows are decodes and chunks whose tokens the device chooses, and nothing else is asked of them. */
  isPlain!: boolean;
  /** Its draws wait for masks behind tokens of the flight ahead: they follow when that one has landed (Launcher.drawLate). */
  isLate!: boolean;
  /** Why it could not be launched; found out when it lands, in its turn. */
  fault: unknown;

  constructor(
    step: Step,
    device: Device,
    pageSize: number,
    maxTokens: number,
    groups: FlightGroups,
    hiddenSize: number,
  ) {
    this.step = step;
    this.batch = new Batch(pageSize, maxTokens, groups.numPaged);
    this.#stateGroup = groups.stateIndex;
    this.staged = device.createStagedBatch(maxTokens);
    this.#anyTokens = new Int32Array(pageSize);
    this.rowOfLogit = new Int32Array(maxTokens);
    this.tokens = device.createTokenBuffer(maxTokens + forkRoom(maxTokens));
    this.firstLogit = new Int32Array(maxTokens);
    this.endLogit = new Int32Array(maxTokens);
    this.firstDraw = new Int32Array(maxTokens);
    this.lastLogit = new Int32Array(maxTokens);
    this.forkEntries = new Int32Array(maxTokens);
    this.readbacks = new Int32Array(maxTokens);
    this.media = new MediaRows(hiddenSize);
    this.logits = new HostReadback(device);
    this.hidden = new HostReadback(device);
  }

  clear(): void {
    this.batch.clear();
    this.media.clear();
    this.logits.clear();
    this.hidden.clear();
    this.fault = null;
    this.numForks = 0;
    this.isPlain = true;
    this.isLate = false;
  }

  /**
   * Rows that nobody reads, up to so many rows and tokens: at the beginning of the null page each, as long as each other. A device that knows its
   * steps then has few sizes to know.
   */
  pad(numRows: number, numTokens: number): void {
    const { batch } = this;
    while (batch.numRows < numRows) {
      const queryLen = Math.ceil((numTokens - batch.numTokens) / (numRows - batch.numRows));
      batch.addRow(this.#anyTokens, 0, queryLen, NULL_PAGES, 0);
      for (let g = 1; g < batch.groups.length; g++) batch.addPages(g, NULL_PAGES);
    }
  }

  /** The logit row is one that the row draws from. */
  isDraw(row: number, logitRow: number): boolean {
    return this.lastLogit[row]! >= 0 && logitRow >= this.firstDraw[row]!;
  }

  /** The first of `count` entries for first tokens of forks. */
  reserveForks(count: number): number {
    const first = this.batch.maxTokens + this.numForks;
    this.numForks += count;
    return first;
  }

  /** Appends the new tokens of the step's next row to the batch, with the logit rows it needs. */
  addRow(): void {
    const { batch, step } = this;
    const row = batch.numRows;
    const session = step.rows[row]!.owner as Session;
    const firstLogit = batch.numLogitRows;
    const { request, kind, promptLogprobs } = session;
    const end = step.endOf(row);
    const givesToken = kind === "generate" && end >= request.numTokens && !endsWithPrompt(request);
    // Of its last token and its drafts, or all that its prompt logprobs still lack.
    const { numDrafted } = request;
    let logitsFrom = givesToken ? end - 1 - numDrafted : NEVER;
    if (promptLogprobs !== null) logitsFrom = Math.min(logitsFrom, promptLogprobs.length - 1);
    const { tables } = request;
    const state = this.#stateGroup < 0 ? -1 : tables[this.#stateGroup]!.pages[0]!;
    const start = step.starts[row]!;
    const stateLen = Math.min(end, request.stateEnd) - start;
    const numPages = ceilDiv(end, batch.pageSize);
    batch.addRow(request.tokens, start, step.queryLens[row]!, tables[0]!.headOf(numPages), logitsFrom, state, stateLen);
    for (let g = 1; g < batch.groups.length; g++) batch.addPages(g, tables[g]!.headOf(numPages));
    batch.adapterSlots[row] = request.adapterSlot;
    if (request.isAtomic) batch.setVisibleEnd(end, 0, end);
    if (end > request.secondStart) batch.setTokenType(request.secondStart);
    for (let i = firstLogit; i < batch.numLogitRows; i++) this.rowOfLogit[i] = row;
    this.sessions[row] = session;
    const hasMedia = !session.isPlain && session.media.length > 0 && this.media.add(batch, session.media, start, end);
    this.lastLogit[row] = givesToken ? batch.numLogitRows - 1 : -1;
    this.firstDraw[row] = this.lastLogit[row]! - numDrafted;
    const hasReports = firstLogit < (givesToken ? this.firstDraw[row]! : batch.numLogitRows);
    const isHooked = !session.isPlain && (kind !== "generate" || session.sampling.editLogits !== null);
    if (hasMedia || hasReports || isHooked || forksAt(request, end) > 0) this.isPlain = false;
    if (givesToken && request.readiness !== null && end - numDrafted > request.numTokens) this.isLate = true;
    if (givesToken && request.runsAhead) request.addPlaceholder(end, this.lastLogit[row]!);
    this.firstLogit[row] = firstLogit;
    this.endLogit[row] = batch.numLogitRows;
    this.rowFaults[row] = undefined;
    this.readbacks[row] = -1;
  }
}

const NULL_PAGES = new Int32Array([NULL_PAGE]);

const BLOCK_BYTES = 2 ** 20;

/**
 * Rows of numbers that a flight brings back from the device for the host to read when it has landed: logits that a hook edits, hidden states
 * that become an embedding. Memory is added outside the hot path, in blocks that never move: a copy may be under way.
 */
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
