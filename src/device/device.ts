// The border between the engine and arithmetic. A model is written against this interface alone; reference (plain TypeScript,
// the oracle), cpu (native), cuda and null (counts calls) implement it and pass the same contract suite.
//
// Shapes: R rows, T tokens in the batch, H query heads, K kv heads, G = H/K, D head dim, Dv value head dim, P page size,
// L layers, V vocab. `n` is the number of leading rows an op works on; rows beyond it are not touched. Output first.
// Guarantees of every op: no allocation; a row's result does not depend on n or on the other rows (bit for bit).

import type { AttentionPlanner, PlanShape } from "../attention/planner.js";
import type { Activation } from "../core/activation.js";
import type { AttentionPlan } from "../core/attention-plan.js";
import type { Batch } from "../core/batch.js";
import type { Draws } from "../core/draws.js";
import type { HostTensor } from "../core/tensor.js";
import type { DeviceInfo, DeviceUsage } from "./device-info.js";
import type {
  HeadWeights,
  KvPool,
  KvPoolSpec,
  LowRank,
  LowRankSpec,
  LowRanks,
  StagedBatch,
  StatePool,
  StatePoolSpec,
  StepRoom,
  Tensor,
  TokenBuffer,
  Weight,
  WeightQuantization,
  WeightShape,
} from "./memory.js";
import type {
  AttentionParams,
  CopyHeads,
  ExpertWeights,
  LinearAttentionSpec,
  MapOp,
  MapSpec,
  MatmulOptions,
  RotarySpec,
  RotaryTable,
  RouterSpec,
  StepLimits,
} from "./op-specs.js";

export type { Activation } from "../core/activation.js";
export type * from "./device-info.js";
export type * from "./memory.js";
export type * from "./op-specs.js";

/**
 * Ops of a step may be queued: they run in the order of their calls, and what they are given (arrays, inputs) is read before the
 * call returns. The host may only rely on results after waitFor(), or after read(), which waits for all that was queued.
 *
 * A device that cannot block the host (a GPU in a browser) has landed() and readAsync(). Then waitFor() may be called only for flights
 * that have landed, read() not at all, and its info says that pages cannot be read.
 */
export interface Device {
  readonly info: DeviceInfo;

  // --- memory: called at load, never in a step --------------------------------------------------------------------
  allocTensor(rows: number, cols: number): Tensor;
  /** A tensor filled from host values (norm weights, biases, sinks). */
  loadTensor(values: Float32Array, rows: number, cols: number): Tensor;
  /**
   * Stacks the parts along their rows into one matrix and packs it. `transposed` parts are stored [inputs, outputs]. The rows of a table
   * (`isTable`) are only looked up, never multiplied: a device may leave them in the file. Those of a matrix (`isMatrix`) are never looked
   * up: it may hold them in a form from which they cannot be read back.
   */
  loadWeight(
    parts: readonly HostTensor[],
    options?: { quantize?: WeightQuantization; transposed?: boolean; isTable?: boolean; isMatrix?: boolean },
  ): Weight;
  /** Matrices of one shape and encoding, for headMatmul. */
  bindHeads(weights: readonly Weight[]): HeadWeights;
  /** Makes experts ready for mixtureOfExperts, and throws where it would: when a model is loaded. Absent: there is nothing to do. */
  bindExperts?(experts: ExpertWeights, numExperts: number): void;
  /** Bytes that loadWeight would hold for a checkpoint's tensor; `inspect` predicts memory with it. */
  packedBytes(tensor: WeightShape, quantize: WeightQuantization): number;
  /**
   * Takes the memory that ops of any step need beside what is handed out, so that none is taken in a step: called once, behind the weights and
   * before page pools are sized. `rehearse` stages steps and calls their ops; nothing is computed. Omitted where ops need none.
   */
  reserveSteps?(room: StepRoom, rehearse: () => void): void;
  /** Bytes that page pools may take now, unless somebody asks for another size. */
  freeMemory(): number;
  /** null: it computes on the host. */
  usage(): DeviceUsage | null;
  allocKvPool(spec: KvPoolSpec): KvPool;
  /** Bytes one page takes with this spec; `inspect` predicts memory with it. */
  kvPageBytes(spec: Omit<KvPoolSpec, "numPages">): number;
  allocStatePool(spec: StatePoolSpec): StatePool;
  createRotary(spec: RotarySpec, maxTokens: number): RotaryTable;
  /** An elementwise op with its numbers, for map(). */
  createMap(spec: MapSpec): MapOp;
  createStagedBatch(maxTokens: number): StagedBatch;
  createTokenBuffer(maxRows: number): TokenBuffer;
  /** Room for the rows that requests have on the device (core/draws.ts), in words; called once, before any step. */
  reserveRows(numWords: number): void;
  /** Host memory that readLater() and swapOut() can fill while the host goes on; throws when there is none. */
  allocHost(numFloats: number): Float32Array;
  /** The planner whose plans suit this device's attention. */
  createPlanner(shape: PlanShape): AttentionPlanner;

  /** An adapter's matrices at one place. Left out, as what else is of adapters, where the device takes none. */
  loadLowRank?(spec: LowRankSpec): LowRank;
  /** Gives its memory back; no flight under way may use it. */
  freeLowRank?(lowRank: LowRank): void;
  /** Of one product whose matrix has `numSites` parts that adapters attach to. */
  createLowRanks?(numSites: number): LowRanks;

  // --- step: inputs --------------------------------------------------------------------------------------------------
  /**
   * Hands the batch and its plans (one per distinct window, in the model's order) to the device: the beginning of a flight. An input
   * -(i + 1) is token i of `previous`, the buffer of the flight before, which the host may not know yet.
   */
  stage(staged: StagedBatch, batch: Batch, plans: readonly AttentionPlan[], previous?: TokenBuffer | null): void;

  /**
   * Runs the rest of the staged step, its ops and its draws from entry 0 on, where the device knows them from steps
   * before. Returns false, having computed nothing, where it does not: then come the ops. Left out where it never does.
   */
  tryReplay?(batch: StagedBatch, out: TokenBuffer, logits: Tensor, draws: Draws): boolean;

  // --- step: ops -----------------------------------------------------------------------------------------------------
  /** out[t] = scale * table[inputIds[t]]  for all T tokens. */
  embed(out: Tensor, table: Weight, batch: StagedBatch, scale: number): void;
  /** out[t] += table[positions[t]] (learned positions). */
  addPositions(out: Tensor, table: Weight, batch: StagedBatch): void;
  /** out[t] += table[tokenTypes[t]] (which text of a pair). */
  addTypes(out: Tensor, table: Weight, batch: StagedBatch): void;
  /** out = x @ weight^T (+ bias), for n rows. With `accumulate`, out += scale * (...). */
  matmul(out: Tensor, x: Tensor, weight: Weight, n: number, options?: MatmulOptions): void;
  /**
   * matmul, then out[t] += scale * b (a x[t]) for each row t whose adapter has a low rank here. The rows are the batch's tokens or, where
   * firstLogit >= 0, its n logit rows from there on. A row without an adapter has the bits of matmul, the others theirs whichever rows come
   * with them. weight null: out has the product already.
   */
  adaptedMatmul?(
    out: Tensor,
    x: Tensor,
    weight: Weight | null,
    lowRanks: LowRanks,
    batch: StagedBatch,
    n: number,
    firstLogit: number,
    options?: MatmulOptions,
  ): void;
  /** out[t, head h] = x[t, head h] @ weights[h]^T for n rows: heads begin outHead columns apart in out and xHead in x. */
  headMatmul(out: Tensor, x: Tensor, weights: HeadWeights, outHead: number, xHead: number, n: number): void;
  /**
   * out = act(gate) * up in one pass, where gate and up are the first and the second half of x @ weight^T. Returns false, having done
   * nothing, where the device cannot for this weight; left out where it never can.
   */
  gatedMatmul?(out: Tensor, x: Tensor, weight: Weight, activation: Activation, n: number): boolean;
  /** The same for a batch's tokens, with what its adapters add to the product before the gate. */
  adaptedGatedMatmul?(
    out: Tensor,
    x: Tensor,
    weight: Weight,
    activation: Activation,
    lowRanks: LowRanks,
    batch: StagedBatch,
  ): boolean;
  /**
   * out = x / rms(x) * weight, rms over each run of `groupCols` columns (default all): per-head norms use the head dim. weight has
   * groupCols numbers for all runs, or one for each column. out may be x.
   */
  rmsNorm(out: Tensor, x: Tensor, weight: Tensor, eps: number, n: number, groupCols?: number): void;
  /** residual += x; out = rmsNorm(residual). */
  addRmsNorm(out: Tensor, residual: Tensor, x: Tensor, weight: Tensor, eps: number, n: number): void;
  /** out = (x - mean) / sqrt(variance + eps) * weight + bias, over each run of `groupCols` columns as in rmsNorm. out may be x. */
  layerNorm(out: Tensor, x: Tensor, weight: Tensor, bias: Tensor, eps: number, n: number, groupCols?: number): void;
  /**
   * out = op(x, y), number by number; see MapSpec. y null: the op has one input. out may be x or y. `batch`: where the op asks for
   * positions.
   */
  map(out: Tensor, op: MapOp, x: Tensor, y: Tensor | null, n: number, batch?: StagedBatch): void;
  /** out[i] = x[logitRows[first + i]] for i < n. */
  gatherLogitRows(out: Tensor, x: Tensor, batch: StagedBatch, first: number, n: number): void;
  /** out[t, head h] = x[t, column range] copied: assembles heads from pieces (MLA). See CopyHeads. */
  copyHeads(out: Tensor, x: Tensor, shape: CopyHeads, n: number): void;

  /** Fills the table with cos/sin of the batch's positions; once per step and rotary kind. */
  rotaryTable(table: RotaryTable, batch: StagedBatch): void;
  /**
   * Rows [first, first + n) of the table become these: of tokens that are not turned by one position, as those of pictures. cos, sin [n, half].
   * It takes its place among what is queued; they are read before it returns. Omitted where the device takes no such tokens.
   */
  writeRotary?(table: RotaryTable, first: number, cos: Float32Array, sin: Float32Array, n: number): void;
  /** Rotates in place the first rotaryDim dims (from `offset`) of each of x's heads of size headDim. */
  rotary(x: Tensor, table: RotaryTable, headDim: number, offset: number, batch: StagedBatch): void;
  /** Rotates q in place, rotates k on the way and appends k, v to their slots of `layer`. table null: append only. */
  rotaryAppend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    table: RotaryTable | null,
    pool: KvPool,
    layer: number,
    batch: StagedBatch,
  ): void;
  /** out [T, H*Dv] = attention of q [T, H*D] over the rows' pages, with the staged plan `planIndex`. */
  attention(
    out: Tensor,
    q: Tensor,
    pool: KvPool,
    layer: number,
    batch: StagedBatch,
    planIndex: number,
    params: AttentionParams,
  ): void;
  /** Copies whole pages, all layers: copy-on-write. */
  copyPage(pool: KvPool, from: number, to: number): void;
  /** out [count, kvPageBytes] = whole pages as they lie in the pool; waits for all that was queued. */
  readPages(out: Uint8Array, pool: KvPool, pages: Int32Array, count: number): void;
  /** The opposite. It takes its place among what is queued; the bytes are read before it returns. */
  writePages(pool: KvPool, pages: Int32Array, count: number, bytes: Uint8Array): void;

  /**
   * A page, or a slot of states, to memory of allocHost(), copied beside the flights: `out` is for swapIn() alone. The content is that
   * after the last flight that has landed and all calls since; a flight under way may not write it. Left out where pools are host memory.
   */
  swapOut?(out: Uint8Array, pool: KvPool | StatePool, page: number): void;
  /** The opposite; it takes its place among what is queued. What swapOut() writes to `bytes` later is not loaded. */
  swapIn?(pool: KvPool | StatePool, page: number, bytes: Uint8Array): void;

  // --- step: recurrent layers ------------------------------------------------------------------------------------------
  // Their state is the numbers from `offset` on, of the slot of `pool` that the batch gives each row (stateSlots).
  // A row whose first token is at position 0 starts from zeros, whatever its slot holds; the state after its first stateLens tokens, one
  // at least, is stored. Tokens are taken one by one in one fixed order: however a sequence is cut into chunks, the bits are the same.
  /**
   * Causal convolution of each column with its own kernel: out[t] = act(sum over j < kernel of weight[j] * x[t - kernel + 1 + j] + bias).
   * weight [kernel, cols]. State: the last kernel - 1 inputs [kernel - 1, cols]. out may not be x.
   */
  shortConv(
    out: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | null,
    activation: Activation,
    pool: StatePool,
    offset: number,
    batch: StagedBatch,
  ): void;
  /**
   * The time steps of recurrent heads: step = softplus(x + bias) within [min, max]; decay = exp(rate * step). bias, rate [1, heads].
   * step may be x.
   */
  decayGates(decay: Tensor, step: Tensor, x: Tensor, bias: Tensor, rate: Tensor, limits: StepLimits, n: number): void;
  /** See LinearAttentionSpec. q, k [T, numKeyHeads * keyDim], v, out [T, numHeads * valueDim], decay, rate [T, numHeads]. */
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
    batch: StagedBatch,
  ): void;
  /** Copies all states of one slot to another: forks, snapshots. */
  copyStates(pool: StatePool, from: number, to: number): void;
  /** out [floats] = a slot's states; waits for all that was queued. */
  readStates(out: Float32Array, pool: StatePool, slot: number): void;
  /** The opposite. It takes its place among what is queued; the values are read before it returns. */
  writeStates(pool: StatePool, slot: number, values: Float32Array): void;

  /** out = sum over chosen experts of weight * expert(x), experts in ascending rank order. routerLogits [n, E]. */
  mixtureOfExperts(
    out: Tensor,
    x: Tensor,
    routerLogits: Tensor,
    router: RouterSpec,
    experts: ExpertWeights,
    n: number,
  ): void;

  // --- step: results -------------------------------------------------------------------------------------------------
  /**
   * Writes the rows that are new, then gives each draw, from the first n rows of logits, what core/sample-row.ts says: entries
   * [first, first + draws.count) of the buffer. A token -(i + 1) in the lists is token i of `previous`, as in stage().
   */
  sample(out: TokenBuffer, first: number, logits: Tensor, n: number, draws: Draws): void;
  /** Copies n rows to host memory [n, cols]; waits for all that was queued. */
  read(out: Float32Array, x: Tensor, firstRow: number, n: number): void;
  /** The same where the device cannot block; `out` may not be touched until the promise resolves. Omitted where read() blocks. */
  readAsync?(out: Float32Array, x: Tensor, firstRow: number, n: number): Promise<void>;
  /** Rows [firstRow, firstRow + n) of x become `values` [n, cols]. It takes its place among what is queued; they are read before it returns. */
  write(x: Tensor, firstRow: number, values: Float32Array, n: number): void;
  /** Like read(), queued: `out`, of allocHost(), is filled once the flight has landed. */
  readLater(out: Float32Array, x: Tensor, firstRow: number, n: number): void;
  /** What is queued begins: the flight's draws come later, when the host knows what they may choose. Omitted where ops begin as they come. */
  start?(): void;
  /** The end of a flight: its tokens go to the host. */
  submit(tokens: TokenBuffer): void;
  /** Returns once the flight that ended with these tokens has landed; throws what went wrong in it. */
  waitFor(tokens: TokenBuffer): void;

  /**
   * Resolves once waitFor() would return, or throw, at once: flights land in the order of their ends. It never rejects: what went wrong
   * in a flight is thrown by waitFor(). Omitted where waitFor() may block.
   */
  landed?(tokens: TokenBuffer): Promise<void>;

  /** Rejects with out_of_memory where memory that was handed out turned out not to be there. Omitted where that is known at once. */
  checkMemory?(): Promise<void>;

  /** No flight can land any more, whatever is tried: the device has to be opened again. Omitted: that does not happen. */
  readonly isLost?: boolean;

  /** Frees everything the device holds. Nothing may be used after it. */
  close(): void;
}
