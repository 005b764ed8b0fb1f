// The null device: counts calls and does no arithmetic, so that the scheduler, the cache and the loop run in simulation at full
// speed. sample() gives each logit row a token that depends on (position, token id) alone: a request's tokens are the same
// however it is batched, chunked, cached or preempted, which is what a simulation checks. Nothing is allocated per call.

import { freemem } from "node:os";
import { AttentionPlanner, type PlanShape } from "../../attention/planner.js";
import type { AttentionPlan } from "../../core/attention-plan.js";
import { Batch } from "../../core/batch.js";
import { DRAW, DRAW_WORDS, type Draws, isPlainDraw } from "../../core/draws.js";
import { keepTokens, NO_ROWS, sampleRow, writeRows } from "../../core/sample-row.js";
import type { HostTensor } from "../../core/tensor.js";
import type {
  Device,
  DeviceInfo,
  HeadWeights,
  KvPool,
  KvPoolSpec,
  MapOp,
  MapSpec,
  RotarySpec,
  RotaryTable,
  StagedBatch,
  StatePool,
  StatePoolSpec,
  Tensor,
  TokenBuffer,
  Weight,
} from "../device.js";
import { kvLayout } from "../kv-layout.js";
import { HostTokenBuffer, resolveInputs, resolveTokens } from "../token-buffer.js";

/** Ops that a step calls; `calls` counts each. */
export const NULL_OPS = [
  "stage",
  "embed",
  "addPositions",
  "addTypes",
  "matmul",
  "headMatmul",
  "rmsNorm",
  "addRmsNorm",
  "layerNorm",
  "map",
  "gatherLogitRows",
  "copyHeads",
  "rotaryTable",
  "writeRotary",
  "rotary",
  "rotaryAppend",
  "attention",
  "copyPage",
  "shortConv",
  "decayGates",
  "linearAttention",
  "copyStates",
  "mixtureOfExperts",
  "sample",
  "write",
  "read",
] as const;

export type NullOp = (typeof NULL_OPS)[number];

class NullTensor implements Tensor {
  readonly rows: number;
  readonly cols: number;
  readonly stride: number;

  constructor(rows: number, cols: number, stride: number) {
    this.rows = rows;
    this.cols = cols;
    this.stride = stride;
  }

  columns(from: number, to: number): NullTensor {
    return new NullTensor(this.rows, to - from, this.stride);
  }
}

class NullStagedBatch implements StagedBatch {
  batch = new Batch(1, 0);

  get numTokens(): number {
    return this.batch.numTokens;
  }
  get numRows(): number {
    return this.batch.numRows;
  }
  get numLogitRows(): number {
    return this.batch.numLogitRows;
  }
}

export class NullDevice implements Device {
  readonly info: DeviceInfo = {
    name: "null",
    numerics: "null",
    description: "counts calls, computes nothing",
    numWorkers: 1,
    promptChunk: 128,
    kvChunk: 256,
    asyncDepth: 1,
    hasOwnMemory: false,
    canReadPages: true,
    kvDtype: "f16",
    maxPoolBytes: Number.POSITIVE_INFINITY,
    logitTolerance: 0,
    draftsPay: false,
    isOracle: false,
    hostTierBytes: 0,
  };
  /** How often each op was called. */
  readonly calls = Object.fromEntries(NULL_OPS.map((op) => [op, 0])) as Record<NullOp, number>;
  // The logit rows gathered last, which the next sample or read of logits is about.
  #batch = new Batch(1, 0);
  #firstLogitRow = 0;
  #logits: Tensor | null = null;
  #row = new Float32Array(0); // [V] zeros between calls
  protected rows = NO_ROWS;
  #previous: TokenBuffer | null = null;

  usage(): null {
    return null;
  }

  allocTensor(rows: number, cols: number): Tensor {
    return new NullTensor(rows, cols, cols);
  }
  loadTensor(_values: Float32Array, rows: number, cols: number): Tensor {
    return new NullTensor(rows, cols, cols);
  }
  loadWeight(parts: readonly HostTensor[], options: { transposed?: boolean } = {}): Weight {
    const [rowAxis, colAxis] = options.transposed ? [1, 0] : [0, 1];
    const rows = parts.reduce((sum, part) => sum + part.shape[rowAxis]!, 0);
    return { rows, cols: parts[0]!.shape[colAxis]!, dtype: "null", byteLength: 0 };
  }
  packedBytes(): number {
    return 0;
  }
  freeMemory(): number {
    return freemem() / 4;
  }
  createPlanner(shape: PlanShape): AttentionPlanner {
    return new AttentionPlanner({ ...shape, numWorkers: this.info.numWorkers, kvChunk: this.info.kvChunk });
  }
  allocKvPool(spec: KvPoolSpec): KvPool {
    return { spec, byteLength: 0 };
  }
  allocStatePool(spec: StatePoolSpec): StatePool {
    return { spec, byteLength: 0 };
  }
  /** What f32 pages would take, so that sizing by memory gives a plausible number of pages. */
  kvPageBytes(spec: Omit<KvPoolSpec, "numPages">): number {
    return kvLayout(spec).page * 4;
  }
  createRotary(spec: RotarySpec): RotaryTable {
    return { spec };
  }
  createStagedBatch(): StagedBatch {
    return new NullStagedBatch();
  }

  createTokenBuffer(maxRows: number): HostTokenBuffer {
    return new HostTokenBuffer(maxRows);
  }
  reserveRows(numWords: number): void {
    this.rows = new Int32Array(numWords);
  }
  allocHost(numFloats: number): Float32Array {
    return new Float32Array(numFloats);
  }

  stage(
    staged: StagedBatch,
    batch: Batch,
    _plans: readonly AttentionPlan[],
    previous: TokenBuffer | null = null,
  ): void {
    this.calls.stage++;
    resolveInputs(batch, previous);
    this.#previous = previous;
    (staged as NullStagedBatch).batch = batch;
  }
  embed(): void {
    this.calls.embed++;
  }
  write(): void {
    this.calls.write++;
  }
  addPositions(): void {
    this.calls.addPositions++;
  }
  addTypes(): void {
    this.calls.addTypes++;
  }
  bindHeads(weights: readonly Weight[]): HeadWeights {
    return { weights };
  }

  headMatmul(): void {
    this.calls.headMatmul++;
  }

  matmul(out: Tensor): void {
    this.calls.matmul++;
    this.#logits = out; // the last matmul before sampling is the head's
  }
  rmsNorm(): void {
    this.calls.rmsNorm++;
  }
  addRmsNorm(): void {
    this.calls.addRmsNorm++;
  }
  layerNorm(): void {
    this.calls.layerNorm++;
  }
  createMap(spec: MapSpec): MapOp {
    return { spec };
  }
  map(): void {
    this.calls.map++;
  }
  gatherLogitRows(_out: Tensor, _x: Tensor, staged: StagedBatch, first: number, _n: number): void {
    this.calls.gatherLogitRows++;
    this.#batch = (staged as NullStagedBatch).batch;
    this.#firstLogitRow = first;
  }
  copyHeads(): void {
    this.calls.copyHeads++;
  }
  rotaryTable(): void {
    this.calls.rotaryTable++;
  }
  writeRotary(): void {
    this.calls.writeRotary++;
  }
  rotary(): void {
    this.calls.rotary++;
  }
  rotaryAppend(): void {
    this.calls.rotaryAppend++;
  }
  attention(): void {
    this.calls.attention++;
  }
  copyPage(_pool: KvPool, _from: number, _to: number): void {
    this.calls.copyPage++;
  }
  readPages(out: Uint8Array, pool: KvPool, _pages: Int32Array, count: number): void {
    out.fill(0, 0, count * this.kvPageBytes(pool.spec));
  }
  writePages(_pool: KvPool, _pages: Int32Array, _count: number, _bytes: Uint8Array): void {}
  shortConv(): void {
    this.calls.shortConv++;
  }
  decayGates(): void {
    this.calls.decayGates++;
  }
  linearAttention(): void {
    this.calls.linearAttention++;
  }
  copyStates(): void {
    this.calls.copyStates++;
  }
  readStates(out: Float32Array): void {
    out.fill(0);
  }
  writeStates(): void {}
  mixtureOfExperts(): void {
    this.calls.mixtureOfExperts++;
  }

  /** The token of (position, token id), whatever the rule; a draw with edits or reports is made from logits that favour it. */
  sample(out: TokenBuffer, first: number, logits: Tensor, _n: number, draws: Draws): void {
    this.calls.sample++;
    this.keep(draws);
    for (let d = 0; d < draws.count; d++) {
      const token = this.#tokenOf(draws.ints[d * DRAW_WORDS + DRAW.logitRow]!, logits.cols);
      if (isPlainDraw(draws, d)) {
        out.ids[first + d] = token;
        continue;
      }
      if (this.#row.length !== logits.cols) this.#row = new Float32Array(logits.cols);
      this.#row[token] = 1;
      sampleRow(out, first + d, this.#row, draws, d, this.rows);
      this.#row[token] = 0;
    }
  }

  /** The rows that are new, and the tokens that draws list for penalties. */
  protected keep(draws: Draws): void {
    resolveTokens(draws, this.#previous);
    writeRows(this.rows, draws);
    keepTokens(this.rows, draws);
  }

  /** Zeros; rows of logits have a one at the token that sample() would give, so that choosing on the host agrees with it. */
  read(out: Float32Array, x: Tensor, firstRow: number, n: number): void {
    this.calls.read++;
    out.fill(0, 0, n * x.cols);
    if (x !== this.#logits) return;
    for (let r = 0; r < n; r++) out[r * x.cols + this.#tokenOf(firstRow + r, x.cols)] = 1;
  }

  // Every call computes before it returns: there is nothing to wait for.
  readLater(out: Float32Array, x: Tensor, firstRow: number, n: number): void {
    this.read(out, x, firstRow, n);
  }
  submit(_tokens: TokenBuffer): void {}
  waitFor(_tokens: TokenBuffer): void {}

  close(): void {}

  #tokenOf(logitRow: number, vocab: number): number {
    const t = this.#batch.logitRows[this.#firstLogitRow + logitRow]!;
    return hash(this.#batch.positions[t]!, this.#batch.inputIds[t]!) % vocab;
  }
}

/** Mixes two integers into 32 even bits; both multipliers are odd, so no input is lost. */
function hash(a: number, b: number): number {
  let h = Math.imul(a + 1, 0x9e3779b1) ^ Math.imul(b + 1, 0x85ebca77);
  h = Math.imul(h ^ (h >>> 15), 0x2c1b3c6d);
  return (h ^ (h >>> 13)) >>> 0;
}
