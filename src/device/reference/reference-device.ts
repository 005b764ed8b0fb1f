// The reference device: every op in plain TypeScript over Float32Arrays, as the maths is written. It is the oracle the other
// devices are tested against, and what runs where there is no native library. It is not fast, and except for matmul it does
// not try to be: routing and sampling even allocate, where that reads better. Sums run in f64 in one ascending order and are
// rounded to f32 when stored.

import { AttentionPlanner, type PlanShape } from "../../attention/planner.js";
import { activate } from "../../core/activation.js";
import type { AttentionPlan } from "../../core/attention-plan.js";
import type { Batch } from "../../core/batch.js";
import { sampleRow } from "../../core/sample-row.js";
import { FIELD, ROW_WORDS, type SamplingRows } from "../../core/sampling-rows.js";
import type { HostTensor } from "../../core/tensor.js";
import type {
  Activation,
  AttentionParams,
  CopyHeads,
  Device,
  DeviceInfo,
  ExpertWeights,
  KvPool,
  KvPoolSpec,
  LinearAttentionSpec,
  MatmulOptions,
  PositionScale,
  RotarySpec,
  RotaryTable,
  RouterSpec,
  StagedBatch,
  StatePool,
  StatePoolSpec,
  StepLimits,
  Tensor,
  TokenBuffer,
  Weight,
  WeightQuantization,
  WeightShape,
  Xielu,
} from "../device.js";
import { availableMemory } from "../host.js";
import { keyOffset, kvLayout, valueOffset } from "../kv-layout.js";
import { HostTokenBuffer, resolveInputs } from "../token-buffer.js";
import { checkBytes } from "./allocation.js";
import { type HostAttentionParams, runAttention } from "./attention.js";
import { combine, replace } from "./elementwise.js";
import { ReferenceKvPool, roundTo } from "./kv-pool.js";
import { loadWeight } from "./load-weight.js";
import { matmul } from "./matmul.js";
import { ExpertScratch, mixtureOfExperts } from "./moe.js";
import { layerNorm, rmsNorm } from "./norm.js";
import { decayGates, linearAttention, ReferenceStatePool, shortConv } from "./recurrent.js";
import { ReferenceRotary } from "./rotary.js";
import { ReferenceStagedBatch } from "./staged-batch.js";
import { ReferenceTensor, type ReferenceWeight } from "./tensor.js";

export class ReferenceDevice implements Device {
  readonly info: DeviceInfo = {
    name: "reference",
    numerics: "reference",
    description: "plain TypeScript, one thread",
    numWorkers: 1,
    promptChunk: 128,
    kvChunk: 256,
    asyncDepth: 1,
    kvDtype: "f32",
    maxPoolBytes: 2 ** 30,
    logitTolerance: 1e-3,
    isOracle: true,
    hostTierBytes: 0,
  };
  readonly #experts = new ExpertScratch();

  allocTensor(rows: number, cols: number): ReferenceTensor {
    checkBytes(rows * cols * 4, `a tensor of ${rows} x ${cols}`);
    return new ReferenceTensor(new Float32Array(rows * cols), 0, rows, cols, cols);
  }

  loadTensor(values: Float32Array, rows: number, cols: number): ReferenceTensor {
    if (values.length !== rows * cols) throw new RangeError(`${values.length} values for [${rows}, ${cols}]`);
    return new ReferenceTensor(values.slice(), 0, rows, cols, cols);
  }

  loadWeight(
    parts: readonly HostTensor[],
    options: { quantize?: WeightQuantization; transposed?: boolean } = {},
  ): ReferenceWeight {
    return loadWeight(parts, options.quantize ?? "none", options.transposed ?? false);
  }

  /** Everything is held in f32. */
  packedBytes({ shape }: WeightShape): number {
    return 4 * shape.reduce((a, b) => a * b, 1);
  }

  usage(): null {
    return null;
  }

  freeMemory(): number {
    return availableMemory() / 4;
  }

  createPlanner(shape: PlanShape): AttentionPlanner {
    return new AttentionPlanner({ ...shape, numWorkers: this.info.numWorkers, kvChunk: this.info.kvChunk });
  }

  allocKvPool(spec: KvPoolSpec): ReferenceKvPool {
    return new ReferenceKvPool(spec);
  }

  allocStatePool(spec: StatePoolSpec): ReferenceStatePool {
    return new ReferenceStatePool(spec);
  }

  /** Numbers are held in f32 whatever the kv dtype. */
  kvPageBytes(spec: Omit<KvPoolSpec, "numPages">): number {
    return kvLayout(spec).page * 4;
  }

  createRotary(spec: RotarySpec, maxTokens: number): ReferenceRotary {
    return new ReferenceRotary(spec, maxTokens);
  }

  createStagedBatch(_maxTokens: number): ReferenceStagedBatch {
    return new ReferenceStagedBatch();
  }

  createTokenBuffer(maxRows: number): HostTokenBuffer {
    return new HostTokenBuffer(maxRows);
  }

  allocHost(numFloats: number): Float32Array {
    return new Float32Array(numFloats);
  }

  stage(staged: StagedBatch, batch: Batch, plans: readonly AttentionPlan[], previous: TokenBuffer | null = null): void {
    resolveInputs(batch, previous);
    (staged as ReferenceStagedBatch).batch = batch;
    (staged as ReferenceStagedBatch).plans = plans;
  }

  embed(out: Tensor, table: Weight, staged: StagedBatch, scale: number): void {
    const { data, offset, cols, stride } = out as ReferenceTensor;
    const { inputOf } = (staged as ReferenceStagedBatch).batch;
    const rows = (table as ReferenceWeight).data;
    for (let t = 0; t < staged.numTokens; t++) {
      const from = inputOf[t]! * cols;
      for (let c = 0; c < cols; c++) data[offset + t * stride + c] = scale * rows[from + c]!;
    }
  }

  addPositions(out: Tensor, table: Weight, staged: StagedBatch): void {
    this.#addRows(out, table, (staged as ReferenceStagedBatch).batch.positions, staged.numTokens);
  }

  addTypes(out: Tensor, table: Weight, staged: StagedBatch): void {
    this.#addRows(out, table, (staged as ReferenceStagedBatch).batch.typeOf, staged.numTokens);
  }

  #addRows(out: Tensor, table: Weight, indices: Int32Array, n: number): void {
    const { data, offset, cols, stride } = out as ReferenceTensor;
    const rows = (table as ReferenceWeight).data;
    for (let t = 0; t < n; t++) {
      const from = indices[t]! * cols;
      for (let c = 0; c < cols; c++) data[offset + t * stride + c]! += rows[from + c]!;
    }
  }

  matmul(out: Tensor, x: Tensor, weight: Weight, n: number, options?: MatmulOptions): void {
    matmul(
      out as ReferenceTensor,
      x as ReferenceTensor,
      (weight as ReferenceWeight).data,
      weight.rows,
      weight.cols,
      n,
      (options?.bias as ReferenceTensor | null | undefined) ?? null,
      options?.scale ?? 1,
      options?.accumulate ?? false,
    );
  }

  rmsNorm(out: Tensor, x: Tensor, weight: Tensor, eps: number, n: number, groupCols = x.cols): void {
    rmsNorm(out as ReferenceTensor, x as ReferenceTensor, weight as ReferenceTensor, eps, n, groupCols);
  }

  addRmsNorm(out: Tensor, residual: Tensor, x: Tensor, weight: Tensor, eps: number, n: number): void {
    this.add(residual, residual, x, 1, n);
    this.rmsNorm(out, residual, weight, eps, n);
  }

  layerNorm(out: Tensor, x: Tensor, weight: Tensor, bias: Tensor, eps: number, n: number, groupCols = x.cols): void {
    const w = weight as ReferenceTensor;
    layerNorm(out as ReferenceTensor, x as ReferenceTensor, w, bias as ReferenceTensor, eps, n, groupCols);
  }

  add(out: Tensor, a: Tensor, b: Tensor, scale: number, n: number): void {
    combine(out, a, b, n, (left, right) => left + scale * right);
  }

  scale(x: Tensor, factor: number, n: number): void {
    replace(x, n, (v) => v * factor);
  }

  scaleRows(x: Tensor, factors: Tensor, n: number): void {
    const { data, offset, stride } = factors as ReferenceTensor;
    replace(x, n, (v, t) => v * data[offset + t * stride]!);
  }

  scaleByPosition(x: Tensor, { beta, period, shift }: PositionScale, staged: StagedBatch): void {
    const { positions } = (staged as ReferenceStagedBatch).batch;
    replace(x, staged.numTokens, (v, t) => v * (1 + beta * Math.log1p(Math.floor((positions[t]! + shift) / period))));
  }

  xielu(x: Tensor, { alphaP, alphaN, beta, eps }: Xielu, n: number): void {
    replace(x, n, (v) => (v > 0 ? v * (alphaP * v + beta) : alphaN * (Math.expm1(Math.min(v, eps)) - v) + beta * v));
  }

  softcap(x: Tensor, cap: number, n: number): void {
    replace(x, n, (v) => cap * Math.tanh(v / cap));
  }

  gatedActivation(out: Tensor, gate: Tensor, up: Tensor, activation: Activation, n: number): void {
    combine(out, gate, up, n, (g, u) => activate(activation, g) * u);
  }

  activation(out: Tensor, x: Tensor, activation: Activation, n: number): void {
    combine(out, x, x, n, (v) => activate(activation, v));
  }

  gatherLogitRows(out: Tensor, x: Tensor, staged: StagedBatch, first: number, n: number): void {
    const o = out as ReferenceTensor;
    const i = x as ReferenceTensor;
    const { logitRows } = (staged as ReferenceStagedBatch).batch;
    for (let r = 0; r < n; r++) {
      const from = i.offset + logitRows[first + r]! * i.stride;
      for (let c = 0; c < o.cols; c++) o.data[o.offset + r * o.stride + c] = i.data[from + c]!;
    }
  }

  copyHeads(out: Tensor, x: Tensor, shape: CopyHeads, n: number): void {
    const o = out as ReferenceTensor;
    const i = x as ReferenceTensor;
    for (let t = 0; t < n; t++) {
      for (let h = 0; h < shape.numHeads; h++) {
        const from = i.offset + t * i.stride + h * shape.inHead + shape.inOffset;
        const to = o.offset + t * o.stride + h * shape.outHead + shape.outOffset;
        for (let c = 0; c < shape.width; c++) o.data[to + c] = i.data[from + c]!;
      }
    }
  }

  rotaryTable(table: RotaryTable, staged: StagedBatch): void {
    (table as ReferenceRotary).fill(staged as ReferenceStagedBatch);
  }

  rotary(x: Tensor, table: RotaryTable, headDim: number, offset: number, staged: StagedBatch): void {
    const { data, offset: base, cols, stride } = x as ReferenceTensor;
    for (let t = 0; t < staged.numTokens; t++) {
      for (let head = 0; head < cols; head += headDim) {
        (table as ReferenceRotary).rotate(data, base + t * stride + head + offset, t);
      }
    }
  }

  rotaryAppend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    table: RotaryTable | null,
    pool: KvPool,
    layer: number,
    staged: StagedBatch,
  ): void {
    const { numKvHeads, keyDim, valueDim, pageSize, dtype, isLatent = false } = pool.spec;
    const { data: pages, layout } = pool as ReferenceKvPool;
    const { slots } = (staged as ReferenceStagedBatch).batch.groups[pool.spec.group ?? 0]!;
    if (table !== null) this.rotary(q, table, keyDim, 0, staged);
    for (let t = 0; t < staged.numTokens; t++) {
      const page = Math.floor(slots[t]! / pageSize);
      const slotInPage = slots[t]! % pageSize;
      for (let head = 0; head < numKvHeads; head++) {
        const keyAt = keyOffset(layout, page, layer, head, slotInPage);
        const valueAt = valueOffset(layout, page, layer, head, slotInPage);
        copyHead(pages, keyAt, k as ReferenceTensor, t, head, keyDim);
        if (table !== null) (table as ReferenceRotary).rotate(pages, keyAt, t);
        roundTo(dtype, pages, keyAt, keyDim);
        if (isLatent) continue; // the value is part of the key
        copyHead(pages, valueAt, v as ReferenceTensor, t, head, valueDim);
        roundTo(dtype, pages, valueAt, valueDim);
      }
    }
  }

  attention(
    out: Tensor,
    q: Tensor,
    pool: KvPool,
    layer: number,
    staged: StagedBatch,
    planIndex: number,
    params: AttentionParams,
  ): void {
    const { batch, plans } = staged as ReferenceStagedBatch;
    runAttention(
      out as ReferenceTensor,
      q as ReferenceTensor,
      pool as ReferenceKvPool,
      layer,
      batch,
      plans[planIndex]!,
      params as HostAttentionParams,
      (pool as ReferenceKvPool).scratch,
    );
  }

  copyPage(pool: KvPool, from: number, to: number): void {
    (pool as ReferenceKvPool).copyPage(from, to);
  }

  readPages(out: Uint8Array, pool: KvPool, pages: Int32Array, count: number): void {
    const size = this.kvPageBytes(pool.spec);
    for (let i = 0; i < count; i++) out.set((pool as ReferenceKvPool).bytesOf(pages[i]!), i * size);
  }

  writePages(pool: KvPool, pages: Int32Array, count: number, bytes: Uint8Array): void {
    const size = this.kvPageBytes(pool.spec);
    for (let i = 0; i < count; i++) {
      (pool as ReferenceKvPool).bytesOf(pages[i]!).set(bytes.subarray(i * size, (i + 1) * size));
    }
  }

  shortConv(
    out: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | null,
    activation: Activation,
    pool: StatePool,
    offset: number,
    staged: StagedBatch,
  ): void {
    shortConv(
      out as ReferenceTensor,
      x as ReferenceTensor,
      weight as ReferenceTensor,
      bias as ReferenceTensor | null,
      activation,
      pool as ReferenceStatePool,
      offset,
      staged as ReferenceStagedBatch,
    );
  }

  decayGates(decay: Tensor, step: Tensor, x: Tensor, bias: Tensor, rate: Tensor, limits: StepLimits, n: number): void {
    decayGates(
      decay as ReferenceTensor,
      step as ReferenceTensor,
      x as ReferenceTensor,
      bias as ReferenceTensor,
      rate as ReferenceTensor,
      limits,
      n,
    );
  }

  linearAttention(
    out: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    decay: Tensor,
    rate: Tensor,
    spec: LinearAttentionSpec,
    pool: StatePool,
    offset: number,
    staged: StagedBatch,
  ): void {
    linearAttention(
      out as ReferenceTensor,
      q as ReferenceTensor,
      k as ReferenceTensor,
      v as ReferenceTensor,
      decay as ReferenceTensor,
      rate as ReferenceTensor,
      spec,
      pool as ReferenceStatePool,
      offset,
      staged as ReferenceStagedBatch,
    );
  }

  copyStates(pool: StatePool, from: number, to: number): void {
    (pool as ReferenceStatePool).copy(from, to);
  }

  readStates(out: Float32Array, pool: StatePool, slot: number): void {
    out.set((pool as ReferenceStatePool).slot(slot));
  }

  writeStates(pool: StatePool, slot: number, values: Float32Array): void {
    (pool as ReferenceStatePool).slot(slot).set(values);
  }

  mixtureOfExperts(
    out: Tensor,
    x: Tensor,
    routerLogits: Tensor,
    router: RouterSpec,
    experts: ExpertWeights,
    n: number,
  ): void {
    mixtureOfExperts(
      out as ReferenceTensor,
      x as ReferenceTensor,
      routerLogits as ReferenceTensor,
      router,
      experts,
      n,
      this.#experts,
    );
  }

  sample(out: TokenBuffer, first: number, logits: Tensor, _n: number, rows: SamplingRows): void {
    for (let r = 0; r < rows.count; r++) {
      const logitRow = rows.ints[r * ROW_WORDS + FIELD.logitRow]!;
      sampleRow(out, first + r, (logits as ReferenceTensor).row(logitRow), rows, r);
    }
  }

  read(out: Float32Array, x: Tensor, firstRow: number, n: number): void {
    for (let r = 0; r < n; r++) out.set((x as ReferenceTensor).row(firstRow + r), r * x.cols);
  }

  // Every call computes before it returns: there is nothing to wait for.
  readLater(out: Float32Array, x: Tensor, firstRow: number, n: number): void {
    this.read(out, x, firstRow, n);
  }
  endFlight(_tokens: TokenBuffer): void {}
  waitFor(_tokens: TokenBuffer): void {}

  /** Garbage collection frees what the caller lets go of. */
  close(): void {}
}

function copyHead(pages: Float32Array, at: number, x: ReferenceTensor, t: number, head: number, dim: number): void {
  const from = x.offset + t * x.stride + head * dim;
  for (let i = 0; i < dim; i++) pages[at + i] = x.data[from + i]!;
}
