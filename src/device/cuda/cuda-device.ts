// The CUDA device: kernels of native/cuda, launched from here. Activations are f32; products with 16-bit weights round their input
// to the weight's type and add in f32. Bitwise invariant: a row's result depends on nothing but the row (native/cuda/common.cuh).

import { AttentionPlanner, type PlanShape } from "../../attention/planner.js";
import type { AttentionPlan } from "../../core/attention-plan.js";
import type { Batch } from "../../core/batch.js";
import type { Draws } from "../../core/draws.js";
import type { HostTensor } from "../../core/tensor.js";
import type {
  Activation,
  Device,
  DeviceInfo,
  DeviceUsage,
  ExpertWeights,
  HeadWeights,
  KvPool,
  LowRank,
  LowRankSpec,
  LowRanks,
  MatmulOptions,
  RotaryTable,
  RouterSpec,
  StagedBatch,
  StepRoom,
  Tensor,
  TokenBuffer,
  Weight,
  WeightQuantization,
  WeightShape,
} from "../device.js";
import { availableMemory } from "../host.js";
import { ACTIVATION_CODE } from "./codes.js";
import { BusyTime } from "./driver/busy-time.js";
import { CudaContext } from "./driver/context.js";
import { GraphCache } from "./driver/graph-cache.js";
import type { Graph } from "./driver/launch-queue.js";
import type { TraceRecord } from "./driver/trace.js";
import { CudaExperts } from "./experts.js";
import { bindHeads, type CudaHeadWeights, launchHeads } from "./head-matmul.js";
import type { CudaRotary } from "./kv-ops.js";
import { type CudaKvPool, plannerLimits } from "./kv-pool.js";
import { type CudaLowRank, CudaLowRanks, loadLowRank } from "./low-rank.js";
import { canGate, canHoldOthers, launchMatmul, productOf } from "./matmul.js";
import { CudaRecurrentOps } from "./recurrent-ops.js";
import { RowUploads } from "./row-uploads.js";
import { CudaRuntime } from "./runtime.js";
import { CudaTokenBuffer, EditScratch } from "./sample.js";
import { CudaStagedBatch } from "./staged-batch.js";
import { CHUNK } from "./staged-plan.js";
import { CudaTensor, type CudaWeight } from "./tensor.js";
import { type LoadWeightOptions, packedBytes, WeightLoader } from "./weights.js";

export interface CudaDeviceOptions {
  /** Which GPU; default 0. */
  readonly index?: number;
  /** Share of the GPU's memory to use at most; default 0.9. */
  readonly memoryShare?: number;
}

/** Steps of at most this many tokens are held back and launched as a graph; larger ones go out as they are written. */
const GRAPH_TOKENS = 512;

export class CudaDevice extends CudaRecurrentOps implements Device {
  readonly info: DeviceInfo;
  protected readonly runtime: CudaRuntime;
  readonly #weights: WeightLoader;
  readonly #experts: CudaExperts;
  readonly #scratch: EditScratch;
  readonly #uploads: RowUploads;
  readonly #busy: BusyTime;
  readonly #begin = (): void => this.#busy.begin();
  readonly #graphs: GraphCache;
  /** Known steps are written all the same, and compared. */
  readonly #isChecking = process.env.PAGODA_CUDA_CHECK !== undefined;
  #expected: Graph | null = null;
  /** Whose rows were brought for a step that may be known. */
  #probed: CudaTokenBuffer | null = null;
  #flushesAtStage = 0;

  /** Throws DeviceError device_unavailable with one line that says what is missing. */
  constructor(options: CudaDeviceOptions = {}) {
    super();
    const context = new CudaContext(options.index ?? 0, options.memoryShare ?? 0.9);
    this.runtime = new CudaRuntime(context);
    this.#weights = new WeightLoader(this.runtime);
    this.#experts = new CudaExperts(this.runtime);
    this.#scratch = new EditScratch(this.runtime);
    this.#uploads = new RowUploads(this.runtime);
    this.#busy = new BusyTime(context);
    this.#graphs = new GraphCache(context);
    const { name, arch, multiprocessors, memoryBytes } = context.facts;
    this.info = {
      name: "cuda",
      numerics: `cuda-${arch}`,
      description: `${name}, ${arch}, ${multiprocessors} multiprocessors, ${(memoryBytes / 2 ** 30).toFixed(0)} GiB`,
      numWorkers: Math.max(1, multiprocessors >> 1),
      promptChunk: 512,
      kvChunk: CHUNK,
      asyncDepth: 2,
      hasOwnMemory: true,
      canReadPages: true,
      kvDtype: "f16",
      maxPoolBytes: Number.POSITIVE_INFINITY,
      logitTolerance: 0.1,
      roundsOperands: true,
      draftsPay: false,
      hasSlowFirsts: true,
      isOracle: false,
      hostTierBytes: Math.floor(availableMemory() / 4),
    };
  }

  // --- memory ----------------------------------------------------------------------------------------------------------

  allocTensor(rows: number, cols: number): CudaTensor {
    const stride = Math.ceil(cols / 4) * 4;
    const address = this.runtime.context.alloc(rows * stride * 4, `a tensor of ${rows} x ${cols}`);
    return new CudaTensor(address, rows, cols, stride, { version: 0 });
  }

  loadTensor(values: Float32Array, rows: number, cols: number): CudaTensor {
    if (values.length !== rows * cols) throw new RangeError(`${values.length} values for ${rows} x ${cols}`);
    const tensor = this.allocTensor(rows, cols);
    const { stride } = tensor;
    const padded = new Float32Array(rows * stride);
    for (let r = 0; r < rows; r++) padded.set(values.subarray(r * cols, (r + 1) * cols), r * stride);
    this.runtime.upload(tensor.address, new Uint8Array(padded.buffer));
    return tensor;
  }

  loadWeight(parts: readonly HostTensor[], options: LoadWeightOptions = {}): CudaWeight {
    return this.#weights.load(parts, options);
  }

  packedBytes({ dtype, shape }: WeightShape, quantize: WeightQuantization): number {
    const count = shape.reduce((product, size) => product * size, 1);
    if (shape.length < 2) return 4 * count;
    return packedBytes(dtype, count / shape.at(-1)!, shape.at(-1)!, quantize);
  }

  freeMemory(): number {
    return this.runtime.freeMemory();
  }

  reserveSteps(room: StepRoom, rehearse: () => void): void {
    this.#scratch.reserve(Math.min(room.maxLogitRows, room.maxTokens), room.vocabSize);
    this.runtime.rehearse(rehearse);
    this.runtime.stepRoom = room;
  }

  loadLowRank(spec: LowRankSpec): CudaLowRank {
    return loadLowRank(this.runtime, this.#uploads, spec);
  }

  freeLowRank(lowRank: LowRank): void {
    const { context, queue } = this.runtime;
    queue.flush();
    context.synchronize();
    context.free((lowRank as CudaLowRank).address);
  }

  createLowRanks(numSites: number): CudaLowRanks {
    return new CudaLowRanks(this.runtime, this.#uploads, numSites);
  }

  usage(): DeviceUsage {
    const { context, queue } = this.runtime;
    const { launches, graphReplays } = queue.counts;
    return {
      memoryBytes: context.facts.memoryBytes,
      memoryUsedBytes: context.allocatedBytes,
      busyMs: this.#busy.ms,
      launches,
      graphReplays,
    };
  }

  createPlanner(shape: PlanShape): AttentionPlanner {
    return new AttentionPlanner({ ...shape, ...plannerLimits(this.runtime.context.facts, shape) });
  }

  createStagedBatch(maxTokens: number): CudaStagedBatch {
    return new CudaStagedBatch(this.runtime, maxTokens);
  }

  createTokenBuffer(maxRows: number): CudaTokenBuffer {
    return new CudaTokenBuffer(this.runtime, maxRows);
  }

  reserveRows(numWords: number): void {
    this.#scratch.reserveRows(numWords);
  }

  allocHost(numFloats: number): Float32Array {
    return new Float32Array(this.runtime.allocPinned(4 * numFloats), 0, numFloats);
  }

  stage(staged: StagedBatch, batch: Batch, plans: readonly AttentionPlan[], previous: TokenBuffer | null = null): void {
    const { queue } = this.runtime;
    queue.flush();
    this.#weights.release();
    this.#scratch.previous = (previous as CudaTokenBuffer | null)?.address ?? 0;
    (staged as CudaStagedBatch).stage(batch, plans, this.#scratch.previous);
    this.runtime.pageCopies.join(false);
    queue.isHeld = batch.numTokens <= GRAPH_TOKENS;
    queue.onLaunch = this.#begin;
    this.#graphs.forget();
    this.#probed?.cancelUpload(); // of a step that failed before it was sampled
    this.#probed = null;
    this.#expected = null;
    this.#flushesAtStage = queue.numFlushes;
  }

  tryReplay(batch: StagedBatch, out: TokenBuffer, logits: Tensor, draws: Draws): boolean {
    const { queue } = this.runtime;
    if (!queue.isHeld || draws.count === 0) return false;
    const tokens = out as CudaTokenBuffer;
    this.#probed = tokens;
    tokens.upload(0, logits.cols, draws, this.#scratch);
    this.#graphs.begin();
    (batch as CudaStagedBatch).addToKey(this.#graphs);
    tokens.addToKey(this.#graphs, draws);
    const graph = this.#graphs.find();
    if (graph !== null) queue.counts.knownSteps++;
    if (graph === null || this.#isChecking) {
      this.#expected = graph;
      return false;
    }
    tokens.cancelUpload();
    queue.replay(graph);
    return true;
  }

  // --- matmul and lookups ------------------------------------------------------------------------------------------------

  embed(out: Tensor, table: Weight, batch: StagedBatch, scale: number): void {
    const staged = batch as CudaStagedBatch;
    this.#lookup(out as CudaTensor, table as CudaWeight, staged.inputIds, staged.previous, staged.numTokens, scale, 0);
  }

  addPositions(out: Tensor, table: Weight, batch: StagedBatch): void {
    const staged = batch as CudaStagedBatch;
    this.#lookup(out as CudaTensor, table as CudaWeight, staged.positions, 0, staged.numTokens, 1, 1);
  }

  addTypes(out: Tensor, table: Weight, batch: StagedBatch): void {
    const staged = batch as CudaStagedBatch;
    this.#lookup(out as CudaTensor, table as CudaWeight, staged.tokenTypes, 0, staged.numTokens, 1, 1);
  }

  #lookup(
    out: CudaTensor,
    table: CudaWeight,
    ids: number,
    previous: number,
    count: number,
    scale: number,
    accumulate: number,
  ): void {
    if (count === 0) return;
    out.storage.version++;
    this.runtime
      .overRows("rows", "lookup_rows", table.cols, count)
      .long(out.address)
      .long(table.address)
      .long(ids)
      .long(previous)
      .long(out.stride)
      .int(table.cols)
      .int(table.paddedCols)
      .int(table.rows)
      .int(table.format.code)
      .int(accumulate)
      .float(scale)
      .end();
  }

  matmul(out: Tensor, x: Tensor, weight: Weight, n: number, options?: MatmulOptions): void {
    launchMatmul(this.runtime, out as CudaTensor, x as CudaTensor, weight as CudaWeight, n, productOf(options));
  }

  bindHeads(weights: readonly Weight[]): CudaHeadWeights {
    return bindHeads(this.runtime, weights as readonly CudaWeight[]);
  }

  headMatmul(out: Tensor, x: Tensor, weights: HeadWeights, outHead: number, xHead: number, n: number): void {
    launchHeads(this.runtime, out as CudaTensor, x as CudaTensor, weights as CudaHeadWeights, outHead, xHead, n);
  }

  adaptedMatmul(
    out: Tensor,
    x: Tensor,
    weight: Weight | null,
    lowRanks: LowRanks,
    batch: StagedBatch,
    n: number,
    firstLogit: number,
    options?: MatmulOptions,
  ): void {
    const [to, from, staged] = [out as CudaTensor, x as CudaTensor, batch as CudaStagedBatch];
    const own = lowRanks as CudaLowRanks;
    const isBeside = weight !== null && canHoldOthers(this.runtime, weight as CudaWeight, n);
    if (!isBeside) own.before(to, from, staged, n, firstLogit);
    if (weight !== null) launchMatmul(this.runtime, to, from, weight as CudaWeight, n, productOf(options), isBeside);
    own.behind(to, from, staged, n, firstLogit, isBeside);
  }

  gatedMatmul(out: Tensor, x: Tensor, weight: Weight, activation: Activation, n: number): boolean {
    if (!canGate(this.runtime, weight as CudaWeight, n)) return false;
    launchMatmul(this.runtime, out as CudaTensor, x as CudaTensor, weight as CudaWeight, n, {
      bias: 0,
      scale: 1,
      accumulate: false,
      gate: ACTIVATION_CODE[activation],
    });
    return true;
  }

  bindExperts(experts: ExpertWeights, numExperts: number): void {
    this.#experts.bind(experts, numExperts);
  }

  mixtureOfExperts(
    out: Tensor,
    x: Tensor,
    routerLogits: Tensor,
    router: RouterSpec,
    experts: ExpertWeights,
    n: number,
  ): void {
    this.#experts.run(out as CudaTensor, x as CudaTensor, routerLogits as CudaTensor, router, experts, n);
  }

  // --- results -----------------------------------------------------------------------------------------------------------

  sample(out: TokenBuffer, first: number, logits: Tensor, _n: number, draws: Draws): void {
    (out as CudaTokenBuffer).sample(first, logits as CudaTensor, draws, this.#scratch);
  }

  write(x: Tensor, firstRow: number, values: Float32Array, n: number): void {
    (x as CudaTensor).storage.version++;
    this.#uploads.write(x as CudaTensor, firstRow, values, n);
  }

  writeRotary(table: RotaryTable, first: number, cos: Float32Array, sin: Float32Array, n: number): void {
    const { half, cos: toCos, sin: toSin } = table as CudaRotary;
    this.#uploads.write({ address: toCos, stride: half, cols: half }, first, cos, n);
    this.#uploads.write({ address: toSin, stride: half, cols: half }, first, sin, n);
  }

  readLater(out: Float32Array, x: Tensor, firstRow: number, n: number): void {
    const { address, stride, cols } = x as CudaTensor;
    const to = this.runtime.pinnedAddress(out);
    const isWhole = stride === cols;
    for (let r = 0; r < (isWhole ? Math.min(n, 1) : n); r++) {
      const bytes = 4 * cols * (isWhole ? n : 1);
      this.runtime.copyOut(to + 4 * r * cols, address + 4 * (firstRow + r) * stride, bytes);
    }
  }

  start(): void {
    this.runtime.queue.flush();
  }

  submit(tokens: TokenBuffer): void {
    const { queue } = this.runtime;
    if (!queue.isEmpty) {
      if (this.#expected !== null && !queue.holds(this.#expected)) throw new Error("a known step has other launches");
      queue.flush();
      if (queue.lastGraph !== null && queue.numFlushes === this.#flushesAtStage + 1)
        this.#graphs.learn(queue.lastGraph);
    }
    (tokens as CudaTokenBuffer).submit(this.#busy.end(tokens));
  }

  waitFor(tokens: TokenBuffer): void {
    (tokens as CudaTokenBuffer).wait();
    this.#busy.add(tokens);
  }

  read(out: Float32Array, x: Tensor, firstRow: number, n: number): void {
    const { address, stride, cols } = x as CudaTensor;
    if (n === 0) return;
    const rows = new Float32Array((n - 1) * stride + cols);
    this.runtime.download(new Uint8Array(rows.buffer), address + 4 * firstRow * stride);
    for (let r = 0; r < n; r++) out.set(rows.subarray(r * stride, r * stride + cols), r * cols);
  }

  /** Makes every kernel ready, compiling what is not: how many sources there are, and how many were compiled. */
  compileAll(names?: readonly string[]): { sources: number; compiled: number } {
    return this.runtime.modules.loadAll(names);
  }

  // --- for measurements: memory given back, and written, by hand ---------------------------------------------------------

  free(tensor: Tensor): void {
    this.synchronize();
    const { address, operand } = tensor as CudaTensor;
    this.runtime.context.free(address);
    if (operand !== null) this.runtime.context.free(operand.address);
  }

  freeWeight(weight: Weight): void {
    this.synchronize();
    this.runtime.context.free((weight as CudaWeight).address);
  }

  freePool(pool: KvPool): void {
    this.synchronize();
    this.runtime.context.free((pool as CudaKvPool).address);
  }

  poke(address: number, bytes: Uint8Array): void {
    this.runtime.upload(address, bytes);
  }

  /** Waits for everything queued. */
  synchronize(): void {
    this.runtime.queue.flush();
    this.runtime.context.synchronize();
  }

  /** The timeline of the latest launches; empty unless kernels are traced (trace.ts). */
  readTrace(): TraceRecord[] {
    this.synchronize();
    return this.runtime.modules.trace?.read((bytes, address) => this.runtime.download(bytes, address)) ?? [];
  }

  /** Launches, graph replays and graphs made since the start. */
  get counts() {
    return this.runtime.queue.counts;
  }

  /** Blocks of device memory and of page-locked memory taken since the start. */
  get numAllocations(): number {
    return this.runtime.context.numAllocations;
  }

  /** Milliseconds of device time of what `run` queues. Not for use in a step. */
  time(run: () => void): number {
    return this.runtime.time(run);
  }

  close(): void {
    this.runtime.close();
  }
}
