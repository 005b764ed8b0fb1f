// Self-attention with query, key and value heads of one size: qkv in one matmul, optional norms on q and k, rotary, pages, output
// projection. What families differ in is in the options; latent attention is another block.

import type {
  AttentionParams,
  Device,
  KvPool,
  MapOp,
  PositionScale,
  RotaryTable,
  StagedBatch,
  Tensor,
} from "../../device/device.js";
import type { LayerCacheRef } from "../cache-layout.js";
import type { Loader } from "../loader.js";
import type { Caches } from "../model.js";
import type { Block, Epilogue } from "./block.js";
import { type Linear, type LinearPart, loadLinear } from "./linear.js";
import { loadNorm, type Norm, type NormStyle, normOf, plainNorm } from "./norm.js";

export interface AttentionShape {
  readonly hiddenSize: number;
  readonly numHeads: number; // H
  readonly numKvHeads: number; // K
  readonly headDim: number; // D
}

export interface AttentionWeights {
  readonly qkv: Linear; // [(H + 2K) * D, hidden], with a gate [(2H + 2K) * D, hidden]: q, gate, k, v
  readonly out: Linear; // [hidden, H*D]
  /** Norms of q and k before rotary: over each head, or over all heads at once. */
  readonly qNorm: Norm | null;
  readonly kNorm: Norm | null;
  /** The heads' outputs are multiplied by the sigmoid of a gate of their size. */
  readonly hasGate: boolean;
  /** Norm of the heads' outputs before the projection. */
  readonly outNorm: Norm | null;
  /** Norm of the value heads. */
  readonly vNorm?: Norm | null;
  /** The place is another layer's: qkv is q alone [H*D, hidden], and nothing is appended. */
  readonly isShared?: boolean;
}

export interface AttentionOptions {
  readonly place: LayerCacheRef;
  /** null: the layer has no rotary embedding. */
  readonly rotary: RotaryTable | null;
  readonly params: AttentionParams;
  /** q and k are normed after rotary, not before it. */
  readonly isNormedAfterRotary: boolean;
  /** Queries grow with their position; null: they do not. */
  readonly queryScale: PositionScale | null;
  readonly keyScale: number;
}

export class SelfAttention implements Block {
  readonly #device: Device;
  readonly #weights: AttentionWeights;
  readonly #options: AttentionOptions;
  readonly #headDim: number;
  readonly #isShared: boolean;
  readonly #vNorm: Norm | null;
  readonly #qkv: Tensor; // [T, (H + 2K) * D]
  readonly #q: Tensor; // [T, H*D] view
  readonly #gate: Tensor | null; // [T, H*D] view
  readonly #k: Tensor; // [T, K*D] view
  readonly #v: Tensor; // [T, K*D] view
  readonly #heads: Tensor; // [T, H*D]
  readonly #queryScale: MapOp | null;
  readonly #keyScale: MapOp | null;
  readonly #applyGate: MapOp;

  constructor(loader: Loader, shape: AttentionShape, weights: AttentionWeights, options: AttentionOptions) {
    const q = shape.numHeads * shape.headDim;
    const kv = shape.numKvHeads * shape.headDim;
    this.#device = loader.device;
    const { queryScale, keyScale } = options;
    const { device } = loader;
    this.#queryScale = queryScale === null ? null : device.createMap({ kind: "scale_by_position", ...queryScale });
    this.#keyScale = keyScale === 1 ? null : device.createMap({ kind: "scale", factor: keyScale });
    this.#applyGate = device.createMap({ kind: "gate", activation: "sigmoid" });
    this.#weights = weights;
    this.#options = options;
    this.#headDim = shape.headDim;
    const first = weights.hasGate ? 2 * q : q; // where k begins
    this.#qkv = loader.scratch("qkv", first + 2 * kv);
    this.#isShared = weights.isShared ?? false;
    this.#vNorm = weights.vNorm ?? null;
    this.#q = this.#qkv.columns(0, q);
    this.#gate = weights.hasGate ? this.#qkv.columns(q, first) : null;
    this.#k = this.#qkv.columns(first, first + kv);
    this.#v = this.#qkv.columns(first + kv, first + 2 * kv);
    this.#heads = loader.scratch("heads", q);
  }

  run(out: Tensor, x: Tensor, batch: StagedBatch, caches: Caches): void {
    const { qkv, qNorm, kNorm, outNorm, out: project } = this.#weights;
    const { place, rotary, params, isNormedAfterRotary } = this.#options;
    const pool = caches[place.group] as KvPool;
    const n = batch.numTokens;
    const device = this.#device;
    if (this.#isShared) {
      this.#runShared(x, batch, pool);
      project.run(out, this.#heads, batch);
      return;
    }
    qkv.run(this.#qkv, x, batch);
    if (this.#keyScale !== null) device.map(this.#k, this.#keyScale, this.#k, null, n);
    if (isNormedAfterRotary && rotary !== null) {
      device.rotary(this.#q, rotary, this.#headDim, 0, batch);
      device.rotary(this.#k, rotary, this.#headDim, 0, batch);
    }
    qNorm?.run(this.#q, this.#q, n);
    kNorm?.run(this.#k, this.#k, n);
    this.#vNorm?.run(this.#v, this.#v, n);
    if (this.#queryScale !== null) device.map(this.#q, this.#queryScale, this.#q, null, n, batch);
    const table = isNormedAfterRotary ? null : rotary;
    device.rotaryAppend(this.#q, this.#k, this.#v, table, pool, place.layer, batch);
    device.attention(this.#heads, this.#q, pool, place.layer, batch, place.plan, params);
    if (this.#gate !== null) device.map(this.#heads, this.#applyGate, this.#gate, this.#heads, n);
    outNorm?.run(this.#heads, this.#heads, n);
    project.run(out, this.#heads, batch);
  }

  /** Queries of this layer over the keys and values of another. */
  #runShared(x: Tensor, batch: StagedBatch, pool: KvPool): void {
    const { place, rotary, params } = this.#options;
    const n = batch.numTokens;
    this.#weights.qkv.run(this.#q, x, batch);
    this.#weights.qNorm?.run(this.#q, this.#q, n);
    if (rotary !== null) this.#device.rotary(this.#q, rotary, this.#headDim, 0, batch);
    this.#device.attention(this.#heads, this.#q, pool, place.layer, batch, place.plan, params);
  }
}

/** How a checkpoint stores the projections of one layer, under `${name}.`. */
export interface AttentionSettings {
  readonly qkvBias: boolean;
  readonly outBias: boolean;
  /** One matrix holds q, k and v head by head. */
  readonly isByHead: boolean;
  /** Names of the matrices whose rows, in order, are q, k and v: three of them, or one. */
  readonly qkv: readonly string[];
  readonly out: string;
  /** Matrices are stored [inputs, outputs]. */
  readonly isTransposed: boolean;
  /**
   * Over each head with one weight; over each head with weights of its own, stored [H, D] ("each") or as one vector per head
   * ("norms"); over each head without a weight ("plain"); or over all heads at once.
   */
  readonly qkNorm: "none" | "head" | "each" | "norms" | "plain" | "all";
  readonly qNorm: string;
  readonly kNorm: string;
  /** How q and k are normed; null: as everything else. */
  readonly qkNormStyle: NormStyle | null;
  readonly isNormedAfterRotary: boolean;
  /** Norm of the heads' outputs; null: none. */
  readonly outNorm: string | null;
  /** Factor on the input of the projections. */
  readonly inputScale: number;
  /** q_proj holds the gate too: each head's queries, then its gate. */
  readonly hasGate: boolean;
}

export const SEPARATE_QKV = ["q_proj", "k_proj", "v_proj"] as const;

/** Three matrices without a bias, under the most common names, and nothing else. */
export const PLAIN_ATTENTION: AttentionSettings = {
  qkvBias: false,
  outBias: false,
  qkv: SEPARATE_QKV,
  out: "o_proj",
  isTransposed: false,
  qkNorm: "none",
  qNorm: "q_norm",
  kNorm: "k_norm",
  qkNormStyle: null,
  isNormedAfterRotary: false,
  outNorm: null,
  inputScale: 1,
  isByHead: false,
  hasGate: false,
};

/** Loads the projections and the norms of q and k. */
export function loadAttention(
  loader: Loader,
  name: string,
  shape: AttentionShape,
  naming: AttentionSettings,
  style: NormStyle,
  project: Epilogue,
): AttentionWeights {
  const { hiddenSize, numHeads, numKvHeads, headDim } = shape;
  const { isTransposed: transposed } = naming;
  const q = numHeads * headDim;
  const kv = numKvHeads * headDim;
  const qRows = naming.hasGate ? 2 * q : q;
  const sizes = naming.qkv.length === 1 ? [qRows + 2 * kv] : [qRows, kv, kv];
  const parts: LinearPart[] = naming.qkv.map((part, i) => ({ name: `${name}.${part}`, rows: sizes[i]! }));
  if (naming.isByHead) parts[0] = { ...parts[0]!, rowOf: (row) => headRow(row, numHeads, headDim) };
  if (naming.hasGate) parts[0] = { ...parts[0]!, rowOf: (row) => gatedRow(row, numHeads, headDim) };
  const outPart = { name: `${name}.${naming.out}`, rows: hiddenSize };
  return {
    qkv: loadLinear(loader, parts, hiddenSize, { hasBias: naming.qkvBias, transposed, inputScale: naming.inputScale }),
    out: loadLinear(loader, [outPart], q, { hasBias: naming.outBias, transposed, project }),
    ...loadHeadNorms(loader, name, shape, naming, style),
    hasGate: naming.hasGate,
    outNorm: naming.outNorm === null ? null : loadNorm(loader, `${name}.${naming.outNorm}`, q, style),
  };
}

/** The norms of q and k under `${name}.`; `isShared`: there are no keys. */
export function loadHeadNorms(
  loader: Loader,
  name: string,
  { numHeads, numKvHeads, headDim }: AttentionShape,
  settings: AttentionSettings,
  style: NormStyle,
  isShared = false,
): Pick<AttentionWeights, "qNorm" | "kNorm"> {
  const load = (part: string, heads: number): Norm | null =>
    loadHeadNorm(loader, `${name}.${part}`, heads, headDim, settings, settings.qkNormStyle ?? style);
  return {
    qNorm: load(settings.qNorm, numHeads),
    kNorm: isShared ? null : load(settings.kNorm, numKvHeads),
  };
}

function loadHeadNorm(
  loader: Loader,
  name: string,
  heads: number,
  headDim: number,
  { qkNorm }: AttentionSettings,
  style: NormStyle,
): Norm | null {
  switch (qkNorm) {
    case "none":
      return null;
    case "head":
      return loadNorm(loader, name, headDim, style);
    case "all":
      return loadNorm(loader, name, heads * headDim, style);
    case "plain":
      return plainNorm(loader, headDim, style);
    case "each":
      return normOf(loader, loader.rows(`${name}.weight`, heads, headDim), style, headDim);
    case "norms": {
      const parts = Array.from({ length: heads }, (_, h) => ({ name: `${name}.norms.${h}.weight`, size: headDim }));
      return normOf(loader, loader.vectors(parts), style, headDim);
    }
  }
}

/** Rows [q of all heads; k of all heads; v of all heads] in a matrix that has them head by head. */
function headRow(row: number, numHeads: number, headDim: number): number {
  const part = Math.floor(row / (numHeads * headDim));
  const head = Math.floor(row / headDim) % numHeads;
  return (head * 3 + part) * headDim + (row % headDim);
}

/** Rows [q of all heads; gate of all heads] in a matrix that has them head by head. */
function gatedRow(row: number, numHeads: number, headDim: number): number {
  const half = numHeads * headDim;
  const head = Math.floor((row % half) / headDim);
  return head * 2 * headDim + (row < half ? 0 : headDim) + (row % headDim);
}
