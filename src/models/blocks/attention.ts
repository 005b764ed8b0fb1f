// Self-attention with query, key and value heads of one size: qkv in one matmul, optional norms on q and k, rotary, pages, output
// projection. What families differ in is in the options; latent attention is another block.

import type { AttentionParams, Device, RotaryTable, StagedBatch, Tensor } from "../../device/device.js";
import type { AttentionPlace } from "../cache-layout.js";
import type { Loader } from "../loader.js";
import type { Caches } from "../model.js";
import type { Block, Project } from "./block.js";
import { type Linear, loadLinear } from "./linear.js";
import { loadNorm, type Norm, type NormStyle } from "./norm.js";

export interface AttentionShape {
  readonly hiddenSize: number;
  readonly numHeads: number; // H
  readonly numKvHeads: number; // K
  readonly headDim: number; // D
}

export interface AttentionWeights {
  readonly qkv: Linear; // [(H + 2K) * D, hidden]
  readonly out: Linear; // [hidden, H*D]
  /** Norms of q and k before rotary: over each head, or over all heads at once. */
  readonly qNorm: Norm | null;
  readonly kNorm: Norm | null;
}

export interface AttentionOptions {
  readonly place: AttentionPlace;
  /** null: the layer has no rotary embedding. */
  readonly rotary: RotaryTable | null;
  readonly params: AttentionParams;
}

export class SelfAttention implements Block {
  readonly #device: Device;
  readonly #weights: AttentionWeights;
  readonly #options: AttentionOptions;
  readonly #qkv: Tensor; // [T, (H + 2K) * D]
  readonly #q: Tensor; // [T, H*D] view
  readonly #k: Tensor; // [T, K*D] view
  readonly #v: Tensor; // [T, K*D] view
  readonly #heads: Tensor; // [T, H*D]

  constructor(loader: Loader, shape: AttentionShape, weights: AttentionWeights, options: AttentionOptions) {
    const q = shape.numHeads * shape.headDim;
    const kv = shape.numKvHeads * shape.headDim;
    this.#device = loader.device;
    this.#weights = weights;
    this.#options = options;
    this.#qkv = loader.scratch("qkv", q + 2 * kv);
    this.#q = this.#qkv.columns(0, q);
    this.#k = this.#qkv.columns(q, q + kv);
    this.#v = this.#qkv.columns(q + kv, q + 2 * kv);
    this.#heads = loader.scratch("heads", q);
  }

  run(out: Tensor, x: Tensor, batch: StagedBatch, caches: Caches): void {
    const { qkv, qNorm, kNorm, out: project } = this.#weights;
    const { place, rotary, params } = this.#options;
    const pool = caches[place.group]!;
    const n = batch.numTokens;
    qkv.run(this.#qkv, x, n);
    qNorm?.run(this.#q, this.#q, n);
    kNorm?.run(this.#k, this.#k, n);
    this.#device.rotaryAppend(this.#q, this.#k, this.#v, rotary, pool, place.layer, batch);
    this.#device.attention(this.#heads, this.#q, pool, place.layer, batch, place.plan, params);
    project.run(out, this.#heads, n);
  }
}

/** How a checkpoint stores the projections of one layer, under `${name}.`. */
export interface AttentionNaming {
  readonly qkvBias: boolean;
  readonly outBias: boolean;
  /** Names of the matrices whose rows, in order, are q, k and v: three of them, or one. */
  readonly qkv: readonly string[];
  readonly out: string;
  /** Matrices are stored [inputs, outputs]. */
  readonly isTransposed: boolean;
  readonly qkNorm: "none" | "head" | "all";
}

export const SEPARATE_QKV = ["q_proj", "k_proj", "v_proj"] as const;

/** Loads the projections and the norms of q and k. */
export function loadAttention(
  loader: Loader,
  name: string,
  shape: AttentionShape,
  naming: AttentionNaming,
  style: NormStyle,
  project: Project,
): AttentionWeights {
  const { hiddenSize, numHeads, numKvHeads, headDim } = shape;
  const { isTransposed: transposed } = naming;
  const q = numHeads * headDim;
  const kv = numKvHeads * headDim;
  const sizes = naming.qkv.length === 1 ? [q + 2 * kv] : [q, kv, kv];
  const parts = naming.qkv.map((part, i) => ({ name: `${name}.${part}`, rows: sizes[i]! }));
  const norm = (part: string, all: number): Norm | null =>
    naming.qkNorm === "none"
      ? null
      : loadNorm(loader, `${name}.${part}`, naming.qkNorm === "head" ? headDim : all, style);
  const outPart = { name: `${name}.${naming.out}`, rows: hiddenSize };
  return {
    qkv: loadLinear(loader, parts, hiddenSize, { hasBias: naming.qkvBias, transposed }),
    out: loadLinear(loader, [outPart], q, { hasBias: naming.outBias, transposed, project }),
    qNorm: norm("q_norm", q),
    kNorm: norm("k_norm", kv),
  };
}
