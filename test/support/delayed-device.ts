// The null device as if it ran beside the host: work is queued and done as late as the host allows, when it waits for a flight, or
// earlier by chance. Its KV is one integer per slot, made from the token and its position, and a token chosen is a hash over all
// slots of the row's context: a wrong, stale or foreign page changes the answer, as it would with a real model. Further groups hold
// the same integers, a state the hash of all of them so far: a row in which they differ from the first group gives a wrong token.
//
// It knows which slots the flights under way write, and reports (`hazards`) a page handed to another owner before they have landed.

import type { AttentionPlan } from "../../src/core/attention-plan.js";
import type { Batch } from "../../src/core/batch.js";
import { argmax } from "../../src/core/choose-token.js";
import { DRAW, DRAW_WORDS, Draws, isPlainDraw } from "../../src/core/draws.js";
import { keepTokens, sampleRow, writeRows } from "../../src/core/sample-row.js";
import type {
  KvPool,
  KvPoolSpec,
  StagedBatch,
  StatePool,
  StatePoolSpec,
  Tensor,
  TokenBuffer,
} from "../../src/device/device.js";
import { NullDevice } from "../../src/device/null/null-device.js";
import { HostTokenBuffer, resolveTokens } from "../../src/device/token-buffer.js";

interface Job {
  run(): void;
  /** The batch whose slots the job writes. */
  readonly writes?: Batch;
  /** The flight that ends with this job. */
  readonly ends?: TokenBuffer;
}

/** What the host would read if it read too early. */
const NOT_THERE = -1_000_000;

class DelayedTokens extends HostTokenBuffer {
  readonly onDevice: HostTokenBuffer;

  constructor(maxRows: number) {
    super(maxRows);
    this.onDevice = new HostTokenBuffer(maxRows);
  }

  land(): void {
    this.ids.set(this.onDevice.ids);
    this.logprobs.set(this.onDevice.logprobs);
    this.topIds.set(this.onDevice.topIds);
    this.topLogprobs.set(this.onDevice.topLogprobs);
  }
}

export class DelayedDevice extends NullDevice {
  override readonly info;
  readonly hazards: string[] = [];
  /** Flights whose draws came later. */
  numLate = 0;
  readonly #isDue: () => boolean;
  #isFaulty = false;
  /** Pages or states were written beside the flights, and may be in the queue yet. */
  #hasWritten = false;
  #pageSize = 1;
  readonly #kv: Int32Array[] = []; // [groups with pages] of [numPages * P]
  #states = new Int32Array(0); // [numSlots]
  /** Rows whose groups differ, of each batch. Behind a flight that failed they may: what they give is dropped. */
  readonly #wrongRows = new WeakMap<Batch, Set<number>>();
  #queue: Job[] = [];
  #block: { readonly batch: Batch; readonly first: number } | null = null;
  /** Of the flight that is launched. */
  #ahead: DelayedTokens | null = null;

  /** `isDue` decides now and then whether the next job is done early. */
  constructor(asyncDepth: 1 | 2, isDue: () => boolean) {
    super();
    this.info = { ...new NullDevice().info, asyncDepth };
    this.#isDue = isDue;
  }

  override allocKvPool(spec: KvPoolSpec): KvPool {
    this.#pageSize = spec.pageSize;
    this.#kv[spec.group ?? 0] = new Int32Array(spec.numPages * spec.pageSize);
    return super.allocKvPool(spec);
  }

  override allocStatePool(spec: StatePoolSpec): StatePool {
    this.#states = new Int32Array(spec.numSlots);
    return super.allocStatePool(spec);
  }

  override createTokenBuffer(maxRows: number): DelayedTokens {
    return new DelayedTokens(maxRows);
  }

  override stage(
    staged: StagedBatch,
    batch: Batch,
    plans: readonly AttentionPlan[],
    previous: TokenBuffer | null = null,
  ): void {
    while (this.#queue.length > 0 && this.#isDue()) this.#queue.shift()!.run();
    super.stage(staged, batch, plans); // the host does not know the tokens of the flight before
    this.#ahead = previous as DelayedTokens | null;
    this.#checkWrites(batch);
    this.#queue.push({ run: () => this.#compute(batch, previous), writes: batch });
  }

  override gatherLogitRows(out: Tensor, x: Tensor, staged: StagedBatch, first: number, n: number): void {
    super.gatherLogitRows(out, x, staged, first, n);
    const { batch } = staged as unknown as { batch: Batch };
    this.#block = { batch, first };
  }

  override sample(out: TokenBuffer, first: number, logits: Tensor, _n: number, draws: Draws): void {
    this.calls.sample++;
    const { batch, first: firstLogit } = this.#block!;
    out.ids.fill(NOT_THERE, first, first + draws.count);
    const own = copyOf(draws); // the caller's are refilled before this runs
    const ahead = this.#ahead;
    this.#queue.push({
      run: () => {
        resolveTokens(own, ahead === null ? null : ahead.onDevice);
        writeRows(this.rows, own);
        keepTokens(this.rows, own);
        for (let d = 0; d < own.count; d++) {
          const logitRow = own.ints[d * DRAW_WORDS + DRAW.logitRow]!;
          const values = new Float32Array(logits.cols);
          values[this.#tokenOf(batch, firstLogit + logitRow, logits.cols)] = 1;
          if (isPlainDraw(own, d)) (out as DelayedTokens).onDevice.ids[first + d] = argmax(values);
          else sampleRow((out as DelayedTokens).onDevice, first + d, values, own, d, this.rows);
        }
      },
    });
  }

  override readLater(out: Float32Array, x: Tensor, firstRow: number, n: number): void {
    const block = this.#block;
    out.fill(Number.NaN, 0, n * x.cols);
    this.#queue.push({ run: () => this.#read(out, x, firstRow, n, block) });
  }

  /** Waits for everything queued. */
  override read(out: Float32Array, x: Tensor, firstRow: number, n: number): void {
    this.calls.read++;
    this.#runUntil(null);
    this.#read(out, x, firstRow, n, this.#block);
  }

  override copyStates(_pool?: StatePool, from = 0, to = 0): void {
    this.calls.copyStates++;
    this.#hasWritten = true;
    this.#queue.push({
      run: () => {
        this.#states[to] = this.#states[from]!;
      },
    });
  }

  /** Waits for everything queued. */
  override readPages(out: Uint8Array, pool: KvPool, pages: Int32Array): void {
    this.#runUntil(null);
    out.set(this.#bytesOf(pool.spec.group ?? 0, pages[0]!));
  }

  override writePages(pool: KvPool, pages: Int32Array, _count: number, bytes: Uint8Array): void {
    const [page, copy] = [pages[0]!, bytes.slice()];
    this.#hasWritten = true;
    this.#queue.push({ run: () => this.#bytesOf(pool.spec.group ?? 0, page).set(copy) });
  }

  override readStates(out: Float32Array, _pool?: StatePool, slot = 0): void {
    this.#runUntil(null);
    new Int32Array(out.buffer)[0] = this.#states[slot]!;
  }

  override writeStates(_pool?: StatePool, slot = 0, values: Float32Array = new Float32Array(1)): void {
    const state = new Int32Array(values.buffer)[0]!;
    this.#hasWritten = true;
    this.#queue.push({
      run: () => {
        this.#states[slot] = state;
      },
    });
  }

  /** At once, beside the flights under way: their pages are not to be saved. Writes beside the flights are done first. */
  swapOut(out: Uint8Array, pool: KvPool | StatePool, page: number): void {
    if (this.#hasWritten) this.#runUntil(null);
    this.#hasWritten = false;
    if ("floats" in pool.spec) {
      out.set(new Uint8Array(this.#states.buffer, 4 * page, 4));
      return;
    }
    const group = pool.spec.group ?? 0;
    if (this.#isWritten(group, page)) this.hazards.push(`page ${page} is saved while a flight can still write to it`);
    out.set(this.#bytesOf(group, page));
  }

  swapIn(pool: KvPool | StatePool, page: number, bytes: Uint8Array): void {
    if ("floats" in pool.spec) this.writeStates(pool as StatePool, page, new Float32Array(bytes.slice().buffer));
    else this.writePages(pool as KvPool, Int32Array.of(page), 1, bytes);
  }

  override kvPageBytes(spec: Pick<KvPoolSpec, "pageSize">): number {
    return 4 * spec.pageSize;
  }

  #bytesOf(group: number, page: number): Uint8Array {
    const size = 4 * this.#pageSize;
    return new Uint8Array(this.#kv[group]!.buffer, page * size, size);
  }

  override copyPage(pool: KvPool, from: number, to: number): void {
    this.calls.copyPage++;
    const P = this.#pageSize;
    const group = pool.spec.group ?? 0;
    this.#hasWritten = true;
    if (this.#isWritten(group, to)) {
      this.hazards.push(`page ${to} is the target of a copy while a flight can still write to it`);
    }
    this.#queue.push({ run: () => this.#kv[group]!.copyWithin(to * P, from * P, (from + 1) * P) });
  }

  /** A flight under way writes the page. */
  #isWritten(group: number, page: number): boolean {
    const P = this.#pageSize;
    return this.#queue.some(
      ({ writes }) => writes !== undefined && slotsOf(writes, group).some((slot) => Math.floor(slot / P) === page),
    );
  }

  start(): void {
    this.numLate++;
  }

  override submit(tokens: TokenBuffer): void {
    this.#queue.push({ run: () => (tokens as DelayedTokens).land(), ends: tokens });
  }

  override waitFor(tokens: TokenBuffer): void {
    this.#runUntil(tokens);
    if (!this.#isFaulty) return;
    this.#isFaulty = false;
    throw new Error("injected fault");
  }

  /** The next flight that is waited for turns out to have failed. */
  injectFault(): void {
    this.#isFaulty = true;
  }

  #runUntil(tokens: TokenBuffer | null): void {
    if (tokens !== null && !this.#queue.some((job) => job.ends === tokens)) return; // it has landed early
    for (let job = this.#queue.shift(); job !== undefined; job = this.#queue.shift()) {
      job.run();
      if (tokens !== null && job.ends === tokens) return;
    }
  }

  /** A new owner's first write is to the first slots of a page; those in flight belong to another, who has gone. */
  #checkWrites(batch: Batch): void {
    for (let g = 0; g < batch.groups.length; g++) this.#checkGroup(batch, g);
  }

  #checkGroup(batch: Batch, g: number): void {
    const P = this.#pageSize;
    const lastInFlight = new Map<number, number>(); // page -> the last offset that a flight under way writes
    for (const { writes } of this.#queue) {
      if (writes === undefined) continue;
      for (const slot of slotsOf(writes, g)) {
        const page = Math.floor(slot / P);
        lastInFlight.set(page, Math.max(lastInFlight.get(page) ?? -1, slot % P));
      }
    }
    for (const slot of slotsOf(batch, g)) {
      const last = lastInFlight.get(Math.floor(slot / P)) ?? -1;
      if (slot % P <= last) this.hazards.push(`slot ${slot} is written while a flight can still write to its page`);
    }
  }

  #compute(batch: Batch, previous: TokenBuffer | null): void {
    for (let t = 0; t < batch.numTokens; t++) {
      const input = batch.inputIds[t]!;
      const id = input < 0 ? (previous as DelayedTokens).onDevice.ids[-input - 1]! : input;
      for (const [g, kv] of this.#kv.entries()) kv[slotsOf(batch, g)[t]!] = mix(id, batch.positions[t]!);
    }
    const wrong = new Set<number>();
    for (let row = 0; row < batch.numRows; row++) {
      for (let g = 1; g < this.#kv.length; g++) if (!this.#isSameIn(g, batch, row)) wrong.add(row);
      if (batch.stateSlots[row]! >= 0 && !this.#advanceState(batch, row)) wrong.add(row);
    }
    this.#wrongRows.set(batch, wrong);
  }

  /** The last keys of the row, which every window of a test shows, are the same in both groups. */
  #isSameIn(g: number, batch: Batch, row: number): boolean {
    const end = batch.contextLen(row);
    for (let pos = Math.max(0, end - LEAST_WINDOW); pos < end; pos++) {
      if (this.#kv[g]![this.#slotAt(batch, row, g, pos)] !== this.#kv[0]![this.#slotAt(batch, row, 0, pos)])
        return false;
    }
    return true;
  }

  /** false: the state is not that of the row's context. */
  #advanceState(batch: Batch, row: number): boolean {
    const start = batch.positions[batch.qoIndptr[row]!]!;
    const end = batch.contextLen(row);
    const slot = batch.stateSlots[row]!;
    let hash = start === 0 ? SEED : this.#states[slot]!;
    for (let pos = start; pos < end; pos++) {
      hash = mix(hash, this.#kv[0]![this.#slotAt(batch, row, 0, pos)]!);
      if (pos + 1 === start + batch.stateLens[row]!) this.#states[slot] = hash;
    }
    return hash === this.#hashOf(batch, row, end);
  }

  #slotAt(batch: Batch, row: number, g: number, pos: number): number {
    const { kvIndptr, kvIndices } = batch.groups[g]!;
    return kvIndices[kvIndptr[row]! + Math.floor(pos / this.#pageSize)]! * this.#pageSize + (pos % this.#pageSize);
  }

  /** Over the row's whole context, as attention reads it. */
  #hashOf(batch: Batch, row: number, end: number): number {
    let hash = SEED;
    for (let pos = 0; pos < end; pos++) hash = mix(hash, this.#kv[0]![this.#slotAt(batch, row, 0, pos)]!);
    return hash;
  }

  #read(
    out: Float32Array,
    x: Tensor,
    firstRow: number,
    n: number,
    block: { batch: Batch; first: number } | null,
  ): void {
    out.fill(0, 0, n * x.cols);
    if (x.cols === HIDDEN) return;
    for (let r = 0; r < n; r++) out[r * x.cols + this.#tokenOf(block!.batch, block!.first + firstRow + r, x.cols)] = 1;
  }

  #tokenOf(batch: Batch, logitRow: number, vocab: number): number {
    const t = batch.logitRows[logitRow]!;
    let row = 0;
    while (batch.qoIndptr[row + 1]! <= t) row++;
    const hash = this.#hashOf(batch, row, batch.positions[t]! + 1);
    return ((hash >>> 3) + (this.#wrongRows.get(batch)!.has(row) ? 1 : 0)) % vocab;
  }
}

/** Width of hidden states, by which they are told from logits. */
export const HIDDEN = 4;
const SEED = 17;
/** Windows of tests are no shorter. */
const LEAST_WINDOW = 8;

/** The token this device chooses after these: the oracle. */
export function tokenAfter(tokens: ArrayLike<number>, vocab: number): number {
  let hash = SEED;
  for (let pos = 0; pos < tokens.length; pos++) hash = mix(hash, mix(tokens[pos]!, pos));
  return (hash >>> 3) % vocab;
}

function mix(hash: number, value: number): number {
  const product = Math.imul(hash ^ Math.imul(value + 1, 0x9e3779b1), 0x85ebca6b);
  return product ^ (product >>> 13);
}

function copyOf(draws: Draws): Draws {
  const copy = new Draws(draws.count);
  copy.ints.set(draws.ints.subarray(0, draws.count * DRAW_WORDS));
  copy.count = draws.count;
  copy.lists = draws.lists.slice(0, draws.numLists);
  copy.numLists = draws.numLists;
  copy.writes.push(...draws.writes);
  copy.numWrites = draws.numWrites;
  return copy;
}

function slotsOf(batch: Batch, g: number): Int32Array {
  return batch.groups[g]!.slots.subarray(0, batch.numTokens);
}
