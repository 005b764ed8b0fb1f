// The WebGPU device: any GPU, in Node through Dawn (the package `webgpu`) and in a browser. It is given a GPU object and asks nothing else of
// its surroundings. In Node the host can wait for the GPU (events.ts); in a browser it cannot, and has landed() and readAsync().

import { AttentionPlanner, type PlanShape } from "../../attention/planner.js";
import type { AttentionPlan } from "../../core/attention-plan.js";
import type { Batch } from "../../core/batch.js";
import type { Draws } from "../../core/draws.js";
import type { HostTensor } from "../../core/tensor.js";
import type {
  Device,
  DeviceInfo,
  DeviceUsage,
  ExpertWeights,
  KvPool,
  LowRank,
  LowRankSpec,
  LowRanks,
  MatmulOptions,
  RouterSpec,
  StagedBatch,
  StatePool,
  Tensor,
  TokenBuffer,
  Weight,
  WeightQuantization,
  WeightShape,
} from "../device.js";
import { HostLowRanks } from "../host-low-ranks.js";
import { readTensor } from "../read-tensor.js";
import type { Gpu } from "./api.js";
import type { DawnEvents } from "./events.js";
import { GpuExperts } from "./experts.js";
import type { GpuBuffer, GpuQueue } from "./gpu-queue.js";
import { KEYS, mostTileRows } from "./kernels/attention.js";
import { isFloat } from "./kernels/encodings.js";
import type { GpuKvPool, GpuStatePool } from "./kv-pool.js";
import { Landing } from "./landing.js";
import { GpuLowRank, LowRankAdder } from "./low-rank.js";
import { GpuRecurrentOps } from "./recurrent-ops.js";
import { GpuSampler } from "./sampling.js";
import { GpuStagedBatch } from "./staged-batch.js";
import { GpuTensor, type GpuWeight } from "./tensor.js";
import { GpuTokenBuffer } from "./token-buffer.js";
import { loadWeight, packedBytes } from "./weights.js";

export interface OpenGpu {
  /** Held as long as the device: Dawn's instance goes with it, whatever still runs. */
  readonly gpu: Gpu;
  readonly queue: GpuQueue;
  /** null: the host cannot wait. */
  readonly events: DawnEvents | null;
  /** Vendor, architecture and driver, in one line. */
  readonly adapter: string;
  readonly isSoftware: boolean;
  /** Bytes that weights and pools may take together: WebGPU does not tell what the GPU has. */
  readonly memoryBytes: number;
}

/** Work units that attention is split for: WebGPU does not tell how many a GPU has. */
const WORKERS = { software: 8, hardware: 256 };

export class WebGpuDevice extends GpuRecurrentOps implements Device {
  info: DeviceInfo;
  /** Resolves once the flight has landed; only where the host cannot wait. */
  landed?: (tokens: TokenBuffer) => Promise<void>;
  readAsync?: (out: Float32Array, x: Tensor, firstRow: number, n: number) => Promise<void>;
  readonly #gpu: OpenGpu;
  readonly #sampler: GpuSampler;
  readonly #experts: GpuExperts;
  readonly #lowRanks: LowRankAdder;
  #adapting: GpuStagedBatch | null = null;
  /** Results that readLater() asked for in the flight that has begun. */
  readonly #reads: { out: Float32Array; x: GpuTensor; firstRow: number; n: number }[] = [];
  #previous: GpuTokenBuffer | null = null;

  constructor(gpu: OpenGpu) {
    super(gpu.queue);
    this.#gpu = gpu;
    this.#lowRanks = new LowRankAdder(gpu.queue, this.nothing);
    this.#experts = new GpuExperts(gpu.queue, this.nothing, this.rounded);
    this.#sampler = new GpuSampler(gpu.queue, this.nothing);
    const { limits } = gpu.queue.handle;
    this.info = {
      name: "webgpu",
      numerics: `webgpu ${gpu.adapter}`,
      description: gpu.adapter,
      numWorkers: gpu.isSoftware ? WORKERS.software : WORKERS.hardware,
      promptChunk: gpu.isSoftware ? 128 : 512,
      kvChunk: KEYS,
      asyncDepth: 2,
      hasOwnMemory: true,
      canReadPages: gpu.events !== null,
      kvDtype: "f16",
      maxPoolBytes: Math.min(limits.maxBufferSize, limits.maxStorageBufferBindingSize),
      logitTolerance: 0.1,
      draftsPay: false,
      isOracle: false,
      hostTierBytes: 0,
    };
    if (gpu.events === null) {
      this.landed = (tokens) => (tokens as GpuTokenBuffer).landing.landed();
      this.readAsync = (out, x, firstRow, n) => this.#readAsync(out, x as GpuTensor, firstRow, n);
    }
  }

  /** The adapter computes on the processor: for tests, and where it is asked for by name. */
  get isSoftware(): boolean {
    return this.#gpu.isSoftware;
  }

  // --- memory ---

  allocTensor(rows: number, cols: number): GpuTensor {
    return new GpuTensor(this.queue.alloc(4 * rows * cols, `a tensor of ${rows} x ${cols}`), 0, rows, cols, cols);
  }

  loadTensor(values: Float32Array, rows: number, cols: number): GpuTensor {
    if (values.length !== rows * cols) throw new RangeError(`${values.length} values for [${rows}, ${cols}]`);
    const tensor = this.allocTensor(rows, cols);
    this.queue.writeNow(tensor.buffer, 0, values);
    return tensor;
  }

  loadWeight(
    parts: readonly HostTensor[],
    options: { quantize?: WeightQuantization; transposed?: boolean } = {},
  ): GpuWeight {
    const weight = loadWeight(this.queue, parts, options);
    if (!isFloat(weight.dtype)) this.rounded.expect(weight.cols);
    return weight;
  }

  packedBytes({ dtype, shape }: WeightShape, quantize: WeightQuantization): number {
    const cols = shape[shape.length - 1]!;
    return packedBytes(dtype, shape.reduce((a, b) => a * b, 1) / cols, cols, quantize);
  }

  freeMemory(): number {
    return Math.max(0, this.#gpu.memoryBytes - this.queue.allocatedBytes);
  }

  usage(): DeviceUsage {
    return {
      memoryBytes: this.#gpu.memoryBytes,
      memoryUsedBytes: this.queue.allocatedBytes,
      busyMs: this.queue.clock?.ms ?? 0,
      launches: this.queue.launches,
      graphReplays: 0,
    };
  }

  allocHost(numFloats: number): Float32Array {
    return new Float32Array(numFloats);
  }

  createPlanner(shape: PlanShape): AttentionPlanner {
    const { numWorkers } = this.info;
    const workers = Math.max(1, Math.ceil(numWorkers / (shape.numKvHeads ?? 1)));
    return new AttentionPlanner({
      ...shape,
      numWorkers: workers,
      kvChunk: KEYS,
      qTile: mostTileRows(shape.headDim),
      pairCost: 0,
    });
  }

  createStagedBatch(maxTokens: number): GpuStagedBatch {
    return new GpuStagedBatch(this.queue, maxTokens, this.nothing);
  }

  createTokenBuffer(maxRows: number): GpuTokenBuffer {
    return new GpuTokenBuffer(this.queue, this.#gpu.events, maxRows);
  }

  /** Gives a buffer's memory back; nothing may use it after. */
  release(buffer: GpuBuffer): void {
    this.queue.free(buffer);
  }

  async checkMemory(): Promise<void> {
    const probe = this.allocTensor(1, 4);
    await readTensor(this, new Float32Array(4), probe, 0, 1);
    this.queue.free(probe.buffer);
    this.queue.throwFault();
  }

  get isLost(): boolean {
    return this.queue.isLost;
  }

  // --- adapters ---

  loadLowRank(spec: LowRankSpec): GpuLowRank {
    return new GpuLowRank(this.queue, spec);
  }

  freeLowRank(lowRank: LowRank): void {
    this.queue.free((lowRank as GpuLowRank).a);
    this.queue.free((lowRank as GpuLowRank).b);
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
    this.#adapting = batch as GpuStagedBatch;
    (lowRanks as HostLowRanks).addTo(this, out, x, batch, n, firstLogit);
  }

  addLowRank(out: Tensor, x: Tensor, lowRank: LowRank, rows: Int32Array, from: number, to: number, base: number): void {
    const staged = this.#adapting!;
    const column = rows === staged.adapters.logits ? staged.adapterLogits : staged.adapterTokens;
    this.#lowRanks.add(out as GpuTensor, x as GpuTensor, lowRank as GpuLowRank, staged, column + from, to - from, base);
  }

  // --- the step ---

  stage(staged: StagedBatch, batch: Batch, plans: readonly AttentionPlan[], previous: TokenBuffer | null = null): void {
    batch.adapters.group(batch);
    this.#previous = previous as GpuTokenBuffer | null;
    (staged as GpuStagedBatch).stage(batch, plans, this.#previous?.buffer ?? this.nothing);
  }

  mixtureOfExperts(
    out: Tensor,
    x: Tensor,
    routerLogits: Tensor,
    router: RouterSpec,
    experts: ExpertWeights,
    n: number,
  ): void {
    this.#experts.run(out as GpuTensor, x as GpuTensor, routerLogits as GpuTensor, router, experts, n);
  }

  sample(out: TokenBuffer, first: number, logits: Tensor, _n: number, draws: Draws): void {
    this.#sampler.sample(
      out as GpuTokenBuffer,
      first,
      logits as GpuTensor,
      draws,
      this.#previous?.buffer ?? this.nothing,
    );
  }

  reserveRows(numWords: number): void {
    this.#sampler.reserveRows(numWords);
  }

  start(): void {
    this.queue.submit();
  }

  submit(tokens: TokenBuffer): void {
    const { landing } = tokens as GpuTokenBuffer;
    const { clock } = this.queue;
    let bytes = (tokens as GpuTokenBuffer).resultBytes + (clock?.bytes ?? 0);
    for (const { x, n } of this.#reads) bytes += 4 * n * x.stride;
    landing.reserve(bytes);
    (tokens as GpuTokenBuffer).addResults();
    for (const { out, x, firstRow, n } of this.#reads) this.#addRows(landing, out, x, firstRow, n);
    this.#reads.length = 0;
    clock?.addTo(landing, this.queue);
    landing.send();
  }

  waitFor(tokens: TokenBuffer): void {
    (tokens as GpuTokenBuffer).landing.take();
    this.queue.clock?.landed();
    this.queue.throwFault();
  }

  read(out: Float32Array, x: Tensor, firstRow: number, n: number): void {
    const landing = this.#rowsOf(out, x as GpuTensor, firstRow, n);
    this.#mustWait();
    landing.take();
  }

  async #readAsync(out: Float32Array, x: GpuTensor, firstRow: number, n: number): Promise<void> {
    const landing = this.#rowsOf(out, x, firstRow, n);
    await landing.landed();
    landing.take();
  }

  #rowsOf(out: Float32Array, x: GpuTensor, firstRow: number, n: number): Landing {
    const landing = new Landing(this.queue, this.#gpu.events);
    landing.reserve(4 * n * x.stride);
    this.#addRows(landing, out, x, firstRow, n);
    landing.send();
    return landing;
  }

  readLater(out: Float32Array, x: Tensor, firstRow: number, n: number): void {
    this.#reads.push({ out, x: x as GpuTensor, firstRow, n });
  }

  #addRows(
    landing: Landing,
    out: Float32Array,
    { buffer, offset, stride, cols }: GpuTensor,
    firstRow: number,
    n: number,
  ): void {
    if (n === 0) return;
    const bytes = new Uint8Array(out.buffer, out.byteOffset, 4 * n * cols);
    if (stride === cols) landing.add(bytes, buffer, 4 * (offset + firstRow * stride), 4 * n * cols);
    else {
      for (let r = 0; r < n; r++) {
        landing.add(
          bytes.subarray(4 * r * cols, 4 * (r + 1) * cols),
          buffer,
          4 * (offset + (firstRow + r) * stride),
          4 * cols,
        );
      }
    }
  }

  write(x: Tensor, firstRow: number, values: Float32Array, n: number): void {
    const { buffer, offset, stride, cols } = x as GpuTensor;
    if (stride === cols) this.queue.write(buffer, 4 * (offset + firstRow * stride), values, 0, 4 * n * cols);
    else {
      for (let r = 0; r < n; r++)
        this.queue.write(buffer, 4 * (offset + (firstRow + r) * stride), values, 4 * r * cols, 4 * cols);
    }
  }

  readPages(out: Uint8Array, pool: KvPool, pages: Int32Array, count: number): void {
    const { buffer, layout } = pool as GpuKvPool;
    const size = 4 * layout.page;
    const landing = new Landing(this.queue, this.#gpu.events);
    this.#mustWait();
    landing.reserve(count * size);
    for (let i = 0; i < count; i++) landing.add(out.subarray(i * size, (i + 1) * size), buffer, pages[i]! * size, size);
    landing.send();
    landing.take();
  }

  readStates(out: Float32Array, pool: StatePool, slot: number): void {
    const { buffer, spec } = pool as GpuStatePool;
    const landing = new Landing(this.queue, this.#gpu.events);
    this.#mustWait();
    landing.reserve(4 * spec.floats);
    landing.add(
      new Uint8Array(out.buffer, out.byteOffset, 4 * spec.floats),
      buffer,
      4 * slot * spec.floats,
      4 * spec.floats,
    );
    landing.send();
    landing.take();
  }

  #mustWait(): void {
    if (this.#gpu.events === null) throw new Error("a browser cannot wait for the GPU: use readAsync()");
  }

  close(): void {
    this.queue.handle.destroy();
  }
}
