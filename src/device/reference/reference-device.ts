// The reference device: every op in plain TypeScript over Float32Arrays, as the maths is written. It is the oracle the other
// devices are tested against, and what runs where there is no native library. It is not fast, and except for matmul it does
// not try to be: routing and sampling even allocate, where that reads better. Sums run in f64 in one ascending order and are
// rounded to f32 when stored.

import { AttentionPlanner, type PlanShape } from "../../attention/planner.js";
import type { AttentionPlan } from "../../core/attention-plan.js";
import type { Batch } from "../../core/batch.js";
import { DRAW, DRAW_WORDS, type Draws } from "../../core/draws.js";
import { keepTokens, NO_ROWS, sampleRow, writeRows } from "../../core/sample-row.js";
import type { HostTensor } from "../../core/tensor.js";
import type {
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
  Tensor,
  TokenBuffer,
  Weight,
  WeightQuantization,
  WeightShape,
} from "../device.js";
import { availableMemory } from "../host.js";
import { HostLowRanks } from "../host-low-ranks.js";
import { HostTokenBuffer, resolveInputs, resolveTokens } from "../token-buffer.js";
import { checkBytes } from "./allocation.js";
import { loadWeight } from "./load-weight.js";
import { addLowRank, ReferenceLowRank } from "./low-rank.js";
import { matmul } from "./matmul.js";
import { ExpertScratch, mixtureOfExperts } from "./moe.js";
import { ReferenceRecurrentOps } from "./recurrent-ops.js";
import { ReferenceStagedBatch } from "./staged-batch.js";
import { ReferenceTensor, type ReferenceWeight } from "./tensor.js";

export class ReferenceDevice extends ReferenceRecurrentOps implements Device {
  readonly info: DeviceInfo = {
    name: "reference",
    numerics: "reference",
    description: "plain TypeScript, one thread",
    numWorkers: 1,
    promptChunk: 128,
    kvChunk: 256,
    asyncDepth: 1,
    hasOwnMemory: false,
    canReadPages: true,
    kvDtype: "f32",
    maxPoolBytes: 2 ** 30,
    logitTolerance: 1e-3,
    draftsPay: false,
    isOracle: true,
    hostTierBytes: 0,
  };
  readonly #experts = new ExpertScratch();
  #rows = NO_ROWS;
  /** Tokens of the flight ahead, while this one is launched. */
  #previous: TokenBuffer | null = null;

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
    this.#previous = previous;
    batch.adapters.group(batch);
    (staged as ReferenceStagedBatch).batch = batch;
    (staged as ReferenceStagedBatch).plans = plans;
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

  loadLowRank(spec: LowRankSpec): ReferenceLowRank {
    return new ReferenceLowRank(spec);
  }

  /** Garbage collection does. */
  freeLowRank(_lowRank: LowRank): void {}

  createLowRanks(): HostLowRanks {
    return new HostLowRanks();
  }

  bindHeads(weights: readonly Weight[]): HeadWeights {
    return { weights };
  }

  headMatmul(out: Tensor, x: Tensor, { weights }: HeadWeights, outHead: number, xHead: number, n: number): void {
    for (const [h, weight] of weights.entries()) {
      const from = x.columns(h * xHead, h * xHead + weight.cols);
      this.matmul(out.columns(h * outHead, h * outHead + weight.rows), from, weight, n);
    }
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
    (lowRanks as HostLowRanks).addTo(this, out, x, batch, n, firstLogit);
  }

  addLowRank(out: Tensor, x: Tensor, lowRank: LowRank, rows: Int32Array, from: number, to: number, base: number): void {
    const { spec, shrunk } = lowRank as ReferenceLowRank;
    for (let i = from; i < to; i++) {
      const row = rows[i]! - base;
      addLowRank((out as ReferenceTensor).row(row), (x as ReferenceTensor).row(row), spec, shrunk);
    }
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

  reserveRows(numWords: number): void {
    this.#rows = new Int32Array(numWords);
  }

  sample(out: TokenBuffer, first: number, logits: Tensor, _n: number, draws: Draws): void {
    resolveTokens(draws, this.#previous);
    writeRows(this.#rows, draws);
    keepTokens(this.#rows, draws);
    for (let d = 0; d < draws.count; d++) {
      const logitRow = draws.ints[d * DRAW_WORDS + DRAW.logitRow]!;
      sampleRow(out, first + d, (logits as ReferenceTensor).row(logitRow), draws, d, this.#rows);
    }
  }

  // Every call computes before it returns: there is nothing to wait for.
  readLater(out: Float32Array, x: Tensor, firstRow: number, n: number): void {
    this.read(out, x, firstRow, n);
  }
  submit(_tokens: TokenBuffer): void {}
  waitFor(_tokens: TokenBuffer): void {}

  /** Garbage collection frees what the caller lets go of. */
  close(): void {}
}
