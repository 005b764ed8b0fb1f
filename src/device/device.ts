// The border between the engine and arithmetic. A model is written against this interface alone; reference (plain TypeScript,
// the oracle), cpu (native) and null (counts calls) implement it and pass the same contract suite.
//
// Shapes: R rows, T tokens in the batch, H query heads, K kv heads, G = H/K, D head dim, Dv value head dim, P page size,
// L layers, V vocab. `n` is the number of leading rows an op works on; rows beyond it are not touched. Output first.
// Guarantees of every op: no allocation; a row's result does not depend on n or on the other rows (bit for bit).

import type { AttentionPlanner, PlanShape } from "../attention/planner.js";
import type { Activation } from "../core/activation.js";
import type { AttentionPlan } from "../core/attention-plan.js";
import type { Batch } from "../core/batch.js";
import type { Sampled } from "../core/sample-row.js";
import type { SamplingRows } from "../core/sampling-rows.js";
import type { HostTensor, TensorDtype } from "../core/tensor.js";

/** Rows of f32 numbers on the device, `stride` elements apart. Allocated once, sized for the largest batch. */
export interface Tensor {
  readonly rows: number;
  readonly cols: number;
  readonly stride: number;
  /** A view of columns [from, to) of the same rows; made at load, never in a step. */
  columns(from: number, to: number): Tensor;
}

/** A matrix [rows = outputs, cols = inputs] in whatever encoding and layout the device packed it into. */
export interface Weight {
  readonly rows: number;
  readonly cols: number;
  /** Encoding as held by the device, for `inspect` and logs: "f32", "bf16", "q8", "q4_k", ... */
  readonly dtype: string;
  readonly byteLength: number;
}

/** A checkpoint's tensor as far as its memory is concerned. */
export interface WeightShape {
  readonly name: string;
  readonly dtype: TensorDtype;
  readonly shape: readonly number[];
}

export type WeightQuantization = "none" | "q8" | "q4";
export type KvDtype = "f32" | "f16" | "bf16" | "i8" | "fp8";

/** The shape of the page pool. Layout [page, layer, K|V, kvHead, slotInPage, dim]: a page is one contiguous block. */
export interface KvPoolSpec {
  readonly numPages: number;
  readonly pageSize: number; // P
  readonly numLayers: number; // L
  readonly numKvHeads: number; // K
  readonly keyDim: number; // D
  readonly valueDim: number; // Dv
  /** A value is the first Dv numbers of its key, stored once; what an append gives as v is not read. */
  readonly isLatent?: boolean;
  readonly dtype: KvDtype;
  /** Which of the batch's cache groups has its page tables; the first when left out. */
  readonly group?: number;
}

export interface KvPool {
  readonly spec: KvPoolSpec;
  readonly byteLength: number;
}

/** The tokens that a flight's rows are given, on the device and, once the flight has landed, on the host. */
export interface TokenBuffer extends Sampled {
  /** Valid, like all the rest, after waitFor(). */
  readonly ids: Int32Array; // [maxRows]
}

/** The shape of the state pool: slots of f32 numbers, one for each sequence and for each snapshot. */
export interface StatePoolSpec {
  readonly numSlots: number;
  /** Numbers of a slot: the states of all recurrent layers of one sequence, end to end. */
  readonly floats: number;
}

export interface StatePool {
  readonly spec: StatePoolSpec;
  readonly byteLength: number;
}

/** The step's integer arrays where the ops can read them. One for each flight, as long as the engine lives; `stage` refills it. */
export interface StagedBatch {
  readonly numTokens: number;
  readonly numRows: number;
  readonly numLogitRows: number;
}

/** Rotary embedding of one kind: inverse frequencies [rotaryDim/2] and the factor on cos and sin (yarn's attention factor). */
export interface RotarySpec {
  readonly invFreq: Float32Array;
  readonly scale: number;
  /** true: pairs are (0,1),(2,3)... ; false: pairs are (i, i + rotaryDim/2), the Hugging Face layout. */
  readonly interleaved: boolean;
}

/** cos and sin of every token of the staged batch, filled once per step by `rotaryTable`. */
export interface RotaryTable {
  readonly spec: RotarySpec;
}

export interface AttentionParams {
  /** H of the query tensor; heads of one kv head are adjacent. */
  readonly numHeads: number;
  readonly scale: number;
  /** cap * tanh(score / cap) on the scaled score, before the mask; 0 is off. */
  readonly softcap: number;
  /** One learned logit per query head [1, H] that takes part in the softmax denominator and has no value; null: none. */
  readonly sinks: Tensor | null;
}

export type { Activation } from "../core/activation.js";

/** How a mixture of experts turns router logits into expert ids and weights. */
export interface RouterSpec {
  readonly numExperts: number;
  readonly topK: number;
  /** softmax over all, then top-k; softmax over the chosen k only; sigmoid scores. */
  readonly score: "softmax" | "softmax_topk" | "sigmoid";
  /** Divide the chosen weights by their sum. */
  readonly normalize: boolean;
  readonly scale: number;
  /** Added to the scores for the choice, not for the weights (deepseek); null: none. [1, E] */
  readonly bias: Tensor | null;
  /** Experts are chosen only from the best `topkGroup` of `numGroups` groups (deepseek); 1, 1 is off. */
  readonly numGroups: number;
  readonly topkGroup: number;
  /** A group is as good as the sum of this many of its best; 2 when left out. */
  readonly groupBest?: 1 | 2;
  /** Multiplies the weight of an expert once weights are made (gemma 4); left out: ones. [1, E] */
  readonly expertScale?: Tensor;
  /** The weights multiply what the experts read, not what they give (llama 4). */
  readonly scalesInput?: boolean;
}

/** The experts of one layer. gateUp has rows [gate; up]: 2 * inner outputs. */
export interface ExpertWeights {
  readonly gateUp: readonly Weight[]; // [E] of [2*inner, hidden]
  readonly down: readonly Weight[]; // [E] of [hidden, inner]
  readonly gateUpBias: Tensor | null; // [E, 2*inner]
  readonly downBias: Tensor | null; // [E, hidden]
  readonly inner: number;
  /** "silu": silu(gate) * up. "oss": gate clamped above by 7, up to [-7, 7]; (up + 1) * gate * sigmoid(1.702 * gate). */
  readonly activation: "silu" | "gelu_tanh" | "relu2" | "oss";
  /** false: gateUp is up alone [inner, hidden], and the activation is on it. */
  readonly isGated?: boolean;
}

/**
 * Linear attention with decay. Head h has a state S [keyDim, valueDim] and reads the key head h / (numHeads / numKeyHeads). Token by
 * token, g the decay and r the rate of the head:
 *   isDelta (gated delta rule)    u = r * (v - g * S^T k)
 *   otherwise (Mamba-2, SSD)      u = r * v
 *   S = g * S + k u^T;  out = S^T q + skip * v
 * The state takes numHeads * keyDim * valueDim numbers.
 */
export interface LinearAttentionSpec {
  readonly numHeads: number;
  readonly numKeyHeads: number;
  readonly keyDim: number;
  readonly valueDim: number;
  readonly isDelta: boolean;
  /** One number per head [1, numHeads]; null: none. */
  readonly skip: Tensor | null;
}

/** Facts that the engine decides by; it never asks which device it has. */
export interface DeviceInfo {
  /** For people. */
  readonly name: string;
  /** Devices of the same numerics give the same bits: pages of one can be used on the other. */
  readonly numerics: string;
  /** One line for people: instruction set, threads, memory. */
  readonly description: string;
  /** Work units that attention is split for: threads or CTAs. */
  readonly numWorkers: number;
  /** Tokens of one prompt that a step should have, unless somebody asks for others: with fewer it waits for memory more than it computes. */
  readonly promptChunk: number;
  /** Absolute KV chunk of the fixed split, in tokens. */
  readonly kvChunk: number;
  /** Flights that can be in the air at once: 2 when the device computes while the host goes on, 1 when every call computes. */
  readonly asyncDepth: 1 | 2;
  /** KV elements unless somebody asks for others. */
  readonly kvDtype: KvDtype;
  /** Most bytes of a page pool; Infinity: only memory bounds it. */
  readonly maxPoolBytes: number;
  /** How far its logits may be from exact arithmetic on f32 weights. */
  readonly logitTolerance: number;
  /** Slow on purpose: plain code that others are compared with. */
  readonly isOracle: boolean;
  /** Host memory for pages that it has no room for, unless somebody asks for more or less; 0: its pools are host memory. */
  readonly hostTierBytes: number;
}

/** What a device that is a machine of its own has done and holds. */
export interface DeviceUsage {
  readonly memoryBytes: number;
  /** Of it, taken by this engine. */
  readonly memoryUsedBytes: number;
  /** Time that flights took on the device's own clock, since the start. */
  readonly busyMs: number;
  readonly launches: number;
  /** Launches of a whole step at once, as a graph made before. */
  readonly graphReplays: number;
}

/**
 * Ops of a step may be queued: they run in the order of their calls, and what they are given (arrays, inputs) is read before the
 * call returns. The host may only rely on results after waitFor(), or after read(), which waits for all that was queued.
 */
export interface Device {
  readonly info: DeviceInfo;

  // --- memory: called at load, never in a step --------------------------------------------------------------------
  allocTensor(rows: number, cols: number): Tensor;
  /** A tensor filled from host values (norm weights, biases, sinks). */
  loadTensor(values: Float32Array, rows: number, cols: number): Tensor;
  /**
   * Stacks the parts along their rows into one matrix and packs it. `transposed` parts are stored [inputs, outputs]. The rows of a table
   * (`isTable`) are only looked up, never multiplied: a device may leave them in the file.
   */
  loadWeight(
    parts: readonly HostTensor[],
    options?: { quantize?: WeightQuantization; transposed?: boolean; isTable?: boolean },
  ): Weight;
  /** Bytes that loadWeight would hold for a checkpoint's tensor; `inspect` predicts memory with it. */
  packedBytes(tensor: WeightShape, quantize: WeightQuantization): number;
  /** Bytes that page pools may take now, unless somebody asks for another size. */
  freeMemory(): number;
  /** null: it computes on the host. */
  usage(): DeviceUsage | null;
  allocKvPool(spec: KvPoolSpec): KvPool;
  /** Bytes one page takes with this spec; `inspect` predicts memory with it. */
  kvPageBytes(spec: Omit<KvPoolSpec, "numPages">): number;
  allocStatePool(spec: StatePoolSpec): StatePool;
  createRotary(spec: RotarySpec, maxTokens: number): RotaryTable;
  createStagedBatch(maxTokens: number): StagedBatch;
  createTokenBuffer(maxRows: number): TokenBuffer;
  /** Host memory that readLater() and savePage() can fill while the host goes on; throws when there is none. */
  allocHost(numFloats: number): Float32Array;
  /** The planner whose plans suit this device's attention. */
  createPlanner(shape: PlanShape): AttentionPlanner;

  // --- step: inputs --------------------------------------------------------------------------------------------------
  /**
   * Hands the batch and its plans (one per distinct window, in the model's order) to the device: the beginning of a flight. An input
   * -(i + 1) is token i of `previous`, the buffer of the flight before, which the host may not know yet.
   */
  stage(staged: StagedBatch, batch: Batch, plans: readonly AttentionPlan[], previous?: TokenBuffer | null): void;

  /**
   * Runs the rest of the staged step, its ops and the sampling of its rows from entry 0 on, where the device knows them from steps
   * before. Returns false, having computed nothing, where it does not: then come the ops. Left out where it never does.
   */
  runKnown?(batch: StagedBatch, out: TokenBuffer, logits: Tensor, rows: SamplingRows): boolean;

  // --- step: ops -----------------------------------------------------------------------------------------------------
  /** out[t] = scale * table[inputOf[t]]  for all T tokens. */
  embed(out: Tensor, table: Weight, batch: StagedBatch, scale: number): void;
  /** out[t] += table[positions[t]] (learned positions). */
  addPositions(out: Tensor, table: Weight, batch: StagedBatch): void;
  /** out[t] += table[typeOf[t]] (which text of a pair). */
  addTypes(out: Tensor, table: Weight, batch: StagedBatch): void;
  /** out = x @ weight^T (+ bias), for n rows. With `accumulate`, out += scale * (...). */
  matmul(out: Tensor, x: Tensor, weight: Weight, n: number, options?: MatmulOptions): void;
  /** From here on, where a library could serve an op in place of a kernel, both are tried and the faster one is remembered: before traffic. */
  tryKernels?(): void;
  /**
   * out = act(gate) * up in one pass, where gate and up are the first and the second half of x @ weight^T. Returns false, having done
   * nothing, where the device cannot for this weight; left out where it never can.
   */
  gatedMatmul?(out: Tensor, x: Tensor, weight: Weight, activation: Activation, n: number): boolean;
  /**
   * out = x / rms(x) * weight, rms over each run of `groupCols` columns (default all): per-head norms use the head dim. weight has
   * groupCols numbers for all runs, or one for each column. out may be x.
   */
  rmsNorm(out: Tensor, x: Tensor, weight: Tensor, eps: number, n: number, groupCols?: number): void;
  /** residual += x; out = rmsNorm(residual). */
  addRmsNorm(out: Tensor, residual: Tensor, x: Tensor, weight: Tensor, eps: number, n: number): void;
  /** out = (x - mean) / sqrt(variance + eps) * weight + bias, over each run of `groupCols` columns as in rmsNorm. out may be x. */
  layerNorm(out: Tensor, x: Tensor, weight: Tensor, bias: Tensor, eps: number, n: number, groupCols?: number): void;
  /** out = a + scale * b. out may be a. */
  add(out: Tensor, a: Tensor, b: Tensor, scale: number, n: number): void;
  /** x *= factor. */
  scale(x: Tensor, factor: number, n: number): void;
  /** x[t] *= factors[t, 0]. */
  scaleRows(x: Tensor, factors: Tensor, n: number): void;
  /** x[t] *= 1 + beta * ln(1 + floor((position + shift) / period)): queries that sharpen with the length of the context. */
  scaleByPosition(x: Tensor, scale: PositionScale, batch: StagedBatch): void;
  /** x = x * (alphaP * x + beta) above 0, alphaN * (e^min(x, eps) - 1 - x) + beta * x below. */
  xielu(x: Tensor, params: Xielu, n: number): void;
  /** x = cap * tanh(x / cap). */
  softcap(x: Tensor, cap: number, n: number): void;
  /** out = act(gate) * up. */
  gatedActivation(out: Tensor, gate: Tensor, up: Tensor, activation: Activation, n: number): void;
  /** out = act(x). out may be x. */
  activation(out: Tensor, x: Tensor, activation: Activation, n: number): void;
  /** out[i] = x[logitRows[first + i]] for i < n. */
  gatherLogitRows(out: Tensor, x: Tensor, batch: StagedBatch, first: number, n: number): void;
  /** out[t, head h] = x[t, column range] copied: assembles heads from pieces (MLA). See CopyHeads. */
  copyHeads(out: Tensor, x: Tensor, shape: CopyHeads, n: number): void;

  /** Fills the table with cos/sin of the batch's positions; once per step and rotary kind. */
  rotaryTable(table: RotaryTable, batch: StagedBatch): void;
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
   * A page, or a slot of states, to memory of allocHost(), copied beside the flights: `out` is for loadPage() alone. The content is that
   * after the last flight that has landed and all calls since; a flight in the air may not write it. Left out where pools are host memory.
   */
  savePage?(out: Uint8Array, pool: KvPool | StatePool, page: number): void;
  /** The opposite; it takes its place among what is queued. What savePage() writes to `bytes` later is not loaded. */
  loadPage?(pool: KvPool | StatePool, page: number, bytes: Uint8Array): void;

  // --- step: recurrent layers ------------------------------------------------------------------------------------------
  // Their state is the numbers from `offset` on, of the slot of `pool` that the batch gives each row (stateOf).
  // A row whose first token is at position 0 starts from zeros, whatever its slot holds; the state after its last token is
  // stored. Tokens are taken one by one in one fixed order: however a sequence is cut into chunks, the bits are the same.
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
   * Samples each of the rows from the first n rows of logits by the rule of core/sample-row.ts: entries [first, first + rows.count)
   * of the buffer.
   */
  sample(out: TokenBuffer, first: number, logits: Tensor, n: number, rows: SamplingRows): void;
  /** Copies n rows to host memory [n, cols]; waits for all that was queued. */
  read(out: Float32Array, x: Tensor, firstRow: number, n: number): void;
  /** The same, queued: `out`, of allocHost(), is filled once the flight has landed. */
  readLater(out: Float32Array, x: Tensor, firstRow: number, n: number): void;
  /** The end of a flight: its tokens go to the host. */
  endFlight(tokens: TokenBuffer): void;
  /** Returns once the flight that ended with these tokens has landed; throws what went wrong in it. */
  waitFor(tokens: TokenBuffer): void;

  /** Frees everything the device holds. Nothing may be used after it. */
  close(): void;
}

export interface PositionScale {
  readonly beta: number;
  readonly period: number;
  readonly shift: number;
}

export interface Xielu {
  readonly alphaP: number;
  readonly alphaN: number;
  readonly beta: number;
  readonly eps: number;
}

export interface StepLimits {
  readonly min: number;
  readonly max: number;
}

export interface MatmulOptions {
  readonly bias?: Tensor | null;
  /** out += scale * result instead of out = scale * result. */
  readonly accumulate?: boolean;
  readonly scale?: number;
}

/** For each head h: out[t, h*outHead + outOffset + i] = x[t, h*inHead + inOffset + i], i < width. inHead 0 repeats one piece. */
export interface CopyHeads {
  readonly numHeads: number;
  readonly width: number;
  readonly outHead: number;
  readonly outOffset: number;
  readonly inHead: number;
  readonly inOffset: number;
}
