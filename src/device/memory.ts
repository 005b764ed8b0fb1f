// What ops work on: tensors and weights, pools of pages and states, the step's integers. Made at load; how they lie is the device's.

import type { AdapterRows } from "../core/adapter-rows.js";
import type { Sampled } from "../core/sample-row.js";
import type { TensorDtype } from "../core/tensor.js";

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

/** Matrices of heads, all of one shape, bound to be multiplied together (Device.headMatmul). */
export interface HeadWeights {
  readonly weights: readonly Weight[]; // [H]
}

/** A checkpoint's tensor as far as its memory is concerned. */
export interface WeightShape {
  readonly name: string;
  readonly dtype: TensorDtype;
  readonly shape: readonly number[];
}

/** What an adapter adds to a product x @ W^T: scale * (x @ a^T) @ b^T, to the columns [firstCol, firstCol + cols) of what comes out. */
export interface LowRankSpec {
  readonly rank: number;
  readonly inputs: number;
  readonly cols: number;
  readonly firstCol: number;
  readonly scale: number;
  readonly a: Float32Array; // [rank, inputs]
  readonly b: Float32Array; // [cols, rank]
}

/** The same in the device's memory. */
export interface LowRank {
  readonly rank: number;
  readonly byteLength: number;
}

/** What adapters add to one product, by slot. It is changed between steps only. */
export interface LowRanks {
  /** The adapter of a slot adds this too, to columns that nothing else of it adds to. */
  add(slot: number, lowRank: LowRank): void;
  /** The adapter of a slot adds nothing any more. */
  drop(slot: number): void;
  /** Whether the product of this step is one for adaptedMatmul; false: no row's adapter adds anything. */
  isIn(batch: StagedBatch): boolean;
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

/** The most that one step has. */
export interface StepRoom {
  readonly maxTokens: number;
  readonly maxLogitRows: number;
  readonly vocabSize: number;
  readonly maxContext: number;
  /** Entries of its rows' page tables, of all cache groups together. */
  readonly numPages: number;
  readonly numGroups: number;
  /** Query heads of a kv head, of each attention plan. */
  readonly groupSizes: readonly number[];
}

/** The step's integer arrays where the ops can read them. One for each flight, as long as the engine lives; `stage` refills it. */
export interface StagedBatch {
  readonly numTokens: number;
  readonly numRows: number;
  readonly numLogitRows: number;
  /** The rows by adapter; left out where the device takes none. */
  readonly adapters?: AdapterRows;
}
