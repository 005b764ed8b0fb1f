// The device over the kernels of native/cpu, wherever they run: every op is one call (abi.ts) over the whole ragged batch. Bitwise
// invariant: a row's result depends on nothing but the row, whatever the batch, the chunking or the number of threads.

import { AttentionPlanner, type PlanShape } from "../../attention/planner.js";
import type { AttentionPlan } from "../../core/attention-plan.js";
import type { Batch } from "../../core/batch.js";
import { type Draws, MAX_TOP_LOGPROBS } from "../../core/draws.js";
import { NO_ROWS, writeRows } from "../../core/sample-row.js";
import type { HostTensor } from "../../core/tensor.js";
import type {
  Activation,
  Device,
  DeviceInfo,
  ExpertWeights,
  HeadWeights,
  LowRank,
  LowRankSpec,
  LowRanks,
  MatmulOptions,
  RouterSpec,
  StagedBatch,
  StepRoom,
  Tensor,
  TokenBuffer,
  Weight,
  WeightQuantization,
  WeightShape,
} from "../device.js";
import { HostLowRanks } from "../host-low-ranks.js";
import { HostTokenBuffer, resolveInputs, resolveTokens } from "../token-buffer.js";
import type { NativeLibrary } from "./abi.js";
import { CpuExperts } from "./experts.js";
import { type CpuLowRank, CpuLowRanks } from "./low-rank.js";
import { CpuContext, CpuTensor, hasTiles } from "./memory.js";
import { packedBytes } from "./packed-bytes.js";
import { CpuRecurrentOps } from "./recurrent-ops.js";
import { CpuStagedBatch } from "./staged-batch.js";
import { type CpuWeight, type LoadWeightOptions, loadCpuWeight } from "./weights.js";

export interface KernelDeviceOptions {
  /** Workers, the engine's own thread included. */
  readonly threads: number;
  /** A name of ISA_NAMES; undefined: the best one here. */
  readonly isa: string | undefined;
  /** Bytes that a new allocation can have. */
  readonly availableMemory: () => number;
  readonly maxPoolBytes: number;
}

/** f32 or int8 multiply-adds, bytes read. */
export type PeakKind = "float" | "int8" | "memory";
/** Beside them: bytes read and written back. */
export type PeakRun = PeakKind | "update";
/** Handed over where nothing is to be read or written: WebAssembly copies what it is given, so a step gives it no more than it must. */
const NO_INTS = new Int32Array(0);
const NO_FLOATS = new Float32Array(0);

const PEAK_CODE: Record<PeakRun, number> = { float: 0, int8: 1, memory: 2, update: 3 };

/**
 * A step reads every weight once, however many threads share the work: the more they compute in that time, the more tokens it takes to
 * keep them at it. Two threads gain nothing beyond 128; for 16 with the tiles of AMX 512 were 1.9 times as fast.
 */
export function promptChunkOf(threads: number, isa: string): number {
  return Math.max(128, threads * (hasTiles(isa) ? 64 : 32));
}

export class KernelDevice extends CpuRecurrentOps implements Device {
  readonly info: DeviceInfo;
  protected readonly context: CpuContext;
  readonly #options: KernelDeviceOptions;
  readonly #weights: CpuWeight[] = [];
  readonly #experts: CpuExperts;
  readonly #lowRanks: CpuLowRanks;
  readonly #staged: CpuStagedBatch[] = [];
  #previous: TokenBuffer | null = null;
  /** Of requests: their address, and what lies there. */
  #rowsAt = 0;
  #rows: Int32Array = NO_ROWS;
  /** What steps have at most, once it is known. */
  #stepRoom: StepRoom | null = null;

  constructor(library: NativeLibrary, options: KernelDeviceOptions) {
    super();
    const { threads, isa, maxPoolBytes } = options;
    this.#options = options;
    this.context = new CpuContext(library, threads, isa);
    this.#experts = new CpuExperts(this.context);
    this.#lowRanks = new CpuLowRanks(this.context);
    this.info = {
      name: library.device,
      numerics: `${library.device}-${this.context.isa}`,
      description: `${library.device === "wasm" ? "WebAssembly" : "native"} kernels for ${this.context.isa}, ${threads} threads`,
      numWorkers: threads,
      promptChunk: promptChunkOf(threads, this.context.isa),
      kvChunk: 256,
      asyncDepth: 1,
      hasOwnMemory: false,
      canReadPages: true,
      kvDtype: "f16",
      maxPoolBytes,
      logitTolerance: hasTiles(this.context.isa) ? 0.1 : 2e-3, // tiles round what meets bf16 weights
      ...(hasTiles(this.context.isa) ? { roundsOperands: true } : {}),
      draftsPay: library.device === "cpu",
      isOracle: false,
      hostTierBytes: 0,
    };
  }

  // --- memory ----------------------------------------------------------------------------------------------------------

  allocTensor(rows: number, cols: number): CpuTensor {
    // Rows begin on cache lines.
    const stride = Math.ceil(cols / 16) * 16;
    const address = this.context.alloc(rows * stride * 4, `a tensor of ${rows} x ${cols}`);
    // Any tensor may be the input of a matmul; untouched room costs no memory.
    this.context.check(this.context.native.pg_reserve_activations(this.context.handle, rows, cols), "reserve");
    return new CpuTensor(address, rows, cols, stride);
  }

  loadTensor(values: Float32Array, rows: number, cols: number): CpuTensor {
    if (values.length !== rows * cols) throw new RangeError(`${values.length} values for ${rows} x ${cols}`);
    const tensor = this.allocTensor(rows, cols);
    const floats = this.context.floats(tensor.address, rows * tensor.stride);
    for (let r = 0; r < rows; r++) floats.set(values.subarray(r * cols, (r + 1) * cols), r * tensor.stride);
    return tensor;
  }

  loadWeight(parts: readonly HostTensor[], options: LoadWeightOptions = {}): CpuWeight {
    const weight = loadCpuWeight(this.context, parts, options);
    this.#weights.push(weight);
    return weight;
  }

  packedBytes(tensor: WeightShape, quantize: WeightQuantization): number {
    return packedBytes(tensor, quantize);
  }

  usage(): null {
    return null;
  }

  /** A quarter of what the machine has: the rest is for weights to come, for activations and for other programs. */
  freeMemory(): number {
    return this.#options.availableMemory() / 4;
  }

  createPlanner(shape: PlanShape): AttentionPlanner {
    return new AttentionPlanner({ ...shape, numWorkers: this.info.numWorkers, kvChunk: this.info.kvChunk });
  }

  createStagedBatch(maxTokens: number): CpuStagedBatch {
    const staged = new CpuStagedBatch(this.context, maxTokens);
    if (this.#stepRoom !== null) staged.reserve(this.#stepRoom);
    this.#staged.push(staged);
    return staged;
  }

  createTokenBuffer(maxRows: number): HostTokenBuffer {
    return new HostTokenBuffer(maxRows);
  }

  /** Ops have theirs from what was loaded; steps' integers get theirs when a flight is made. */
  reserveSteps(room: StepRoom): void {
    this.#stepRoom = room;
  }

  /** Times that native memory was taken since the start. */
  get numAllocations(): number {
    return this.context.numAllocations;
  }

  reserveRows(numWords: number): void {
    if (numWords === 0) return;
    this.#rowsAt = this.context.alloc(4 * numWords, "how requests are sampled");
    this.#rows = this.context.ints(this.#rowsAt, numWords);
  }

  allocHost(numFloats: number): Float32Array {
    return new Float32Array(numFloats);
  }

  stage(staged: StagedBatch, batch: Batch, plans: readonly AttentionPlan[], previous: TokenBuffer | null = null): void {
    resolveInputs(batch, previous);
    this.#previous = previous;
    batch.adapters.group(batch);
    (staged as CpuStagedBatch).stage(batch, plans);
  }

  // --- matmul and lookups ------------------------------------------------------------------------------------------------

  embed(out: Tensor, table: Weight, batch: StagedBatch, scale: number): void {
    const { native, handle } = this.context;
    const step = (batch as CpuStagedBatch).handle;
    const to = (out as CpuTensor).address;
    this.context.check(
      native.pg_embed(handle, to, out.stride, (table as CpuWeight).tableHandle, step, scale),
      "pg_embed",
    );
  }

  addPositions(out: Tensor, table: Weight, batch: StagedBatch): void {
    const { native, handle } = this.context;
    const step = (batch as CpuStagedBatch).handle;
    const to = (out as CpuTensor).address;
    this.context.check(
      native.pg_add_positions(handle, to, out.stride, (table as CpuWeight).tableHandle, step),
      "pg_add_positions",
    );
  }

  addTypes(out: Tensor, table: Weight, batch: StagedBatch): void {
    const { native, handle } = this.context;
    const step = (batch as CpuStagedBatch).handle;
    const to = (out as CpuTensor).address;
    this.context.check(
      native.pg_add_types(handle, to, out.stride, (table as CpuWeight).tableHandle, step),
      "pg_add_types",
    );
  }

  matmul(out: Tensor, x: Tensor, weight: Weight, n: number, options?: MatmulOptions): void {
    const { native, handle } = this.context;
    const to = out as CpuTensor;
    const from = x as CpuTensor;
    const bias = (options?.bias ?? null) as CpuTensor | null;
    this.context.check(
      native.pg_matmul(
        handle,
        to.address,
        to.stride,
        from.address,
        from.stride,
        (weight as CpuWeight).handle,
        n,
        bias === null ? 0 : bias.address,
        options?.scale ?? 1,
        options?.accumulate === true ? 1 : 0,
      ),
      "pg_matmul",
    );
  }

  bindHeads(weights: readonly Weight[]): HeadWeights {
    return { weights };
  }

  headMatmul(out: Tensor, x: Tensor, { weights }: HeadWeights, outHead: number, xHead: number, n: number): void {
    const { native, handle } = this.context;
    const [to, from] = [(out as CpuTensor).address, (x as CpuTensor).address];
    for (let h = 0; h < weights.length; h++) {
      const weight = (weights[h] as CpuWeight).handle;
      const [outAt, xAt] = [to + 4 * h * outHead, from + 4 * h * xHead];
      const status = native.pg_matmul(handle, outAt, out.stride, xAt, x.stride, weight, n, 0, 1, 0);
      if (status !== 0) this.context.check(status, "pg_matmul");
    }
  }

  gatedMatmul(out: Tensor, x: Tensor, weight: Weight, activation: Activation, n: number): boolean {
    return this.#lowRanks.gate(out as CpuTensor, x as CpuTensor, weight as CpuWeight, activation, n);
  }

  adaptedGatedMatmul(
    out: Tensor,
    x: Tensor,
    weight: Weight,
    activation: Activation,
    lowRanks: LowRanks,
    batch: StagedBatch,
  ): boolean {
    (lowRanks as HostLowRanks).addTo(this.#lowRanks, out, x, batch, batch.numTokens, -1);
    return this.gatedMatmul(out, x, weight, activation, batch.numTokens);
  }

  loadLowRank(spec: LowRankSpec): CpuLowRank {
    return this.#lowRanks.load(spec);
  }

  freeLowRank(lowRank: LowRank): void {
    this.#lowRanks.free(lowRank as CpuLowRank);
  }

  createLowRanks(): HostLowRanks {
    return new HostLowRanks();
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
    if (weight !== null) this.matmul(out, x, weight, n, options);
    (lowRanks as HostLowRanks).addTo(this.#lowRanks, out, x, batch, n, firstLogit);
    this.#lowRanks.addAll(out as CpuTensor, x as CpuTensor);
  }

  mixtureOfExperts(
    out: Tensor,
    x: Tensor,
    routerLogits: Tensor,
    router: RouterSpec,
    experts: ExpertWeights,
    n: number,
  ): void {
    const { native, handle } = this.context;
    const o = out as CpuTensor;
    const i = x as CpuTensor;
    const l = routerLogits as CpuTensor;
    const e = this.#experts.handleOf(experts, router, i.rows);
    this.context.check(
      native.pg_mixture_of_experts(handle, o.address, o.stride, i.address, i.stride, l.address, l.stride, e, n),
      "pg_mixture_of_experts",
    );
  }

  /** What the machine can do at best on this device's threads, per second; see pg_measure_peak. Not for use in a step. */
  measurePeak(kind: PeakKind): number {
    const out = new Float64Array(1);
    const { native, handle } = this.context;
    this.context.check(native.pg_measure_peak(handle, PEAK_CODE[kind], out), "pg_measure_peak");
    return out[0]!;
  }

  /** One short run of it, to be timed beside other work: operations done, or bytes of `data` moved. */
  runPeak(kind: PeakRun, data: Tensor | null): number {
    const out = new Float64Array(1);
    const { native, handle } = this.context;
    const address = data === null ? 0 : (data as CpuTensor).address;
    const count = data === null ? 0 : data.rows * data.cols;
    this.context.check(native.pg_run_peak(handle, PEAK_CODE[kind], address, count, out), "pg_run_peak");
    return out[0]!;
  }

  // --- results -----------------------------------------------------------------------------------------------------------

  sample(out: TokenBuffer, first: number, logits: Tensor, n: number, draws: Draws): void {
    const { native, handle } = this.context;
    const { address, stride, cols } = logits as CpuTensor;
    if (n > logits.rows || first + draws.count > out.ids.length) {
      throw new RangeError(`${draws.count} draws from ${first} on, room for ${out.ids.length}`);
    }
    resolveTokens(draws, this.#previous);
    writeRows(this.#rows, draws);
    const { mostTop } = draws;
    this.context.check(
      native.pg_sample(
        handle,
        from(out.ids, first),
        mostTop < 0 ? NO_FLOATS : from(out.logprobs, first),
        mostTop < 1 ? NO_INTS : from(out.topIds, first * MAX_TOP_LOGPROBS),
        mostTop < 1 ? NO_FLOATS : from(out.topLogprobs, first * MAX_TOP_LOGPROBS),
        MAX_TOP_LOGPROBS,
        address,
        stride,
        n,
        cols,
        draws.ints,
        draws.count,
        draws.numLists === 0 ? NO_INTS : draws.lists,
        draws.numLists,
        this.#rowsAt,
        this.#rows.length,
      ),
      "pg_sample",
    );
  }

  // Every call computes before it returns: there is nothing to wait for.
  readLater(out: Float32Array, x: Tensor, firstRow: number, n: number): void {
    this.read(out, x, firstRow, n);
  }
  submit(_tokens: TokenBuffer): void {}
  waitFor(_tokens: TokenBuffer): void {}

  close(): void {
    const { native, handle } = this.context;
    this.#experts.close();
    this.#lowRanks.close();
    this.freePools();
    for (const staged of this.#staged.splice(0)) staged.free();
    for (const weight of this.#weights.splice(0)) {
      native.pg_weight_free(handle, weight.handle);
      if (weight.tableHandle !== weight.handle) native.pg_weight_free(handle, weight.tableHandle);
    }
    this.context.close();
  }
}

/** What lies behind `first`; the array itself where that is all of it, since a step makes no views. */
function from<T extends Int32Array | Float32Array>(array: T, first: number): T {
  return first === 0 ? array : (array.subarray(first) as T);
}
