// Self-attention with query, key and value heads of one size: qkv in one matmul, optional norms on q and k, rotary, pages, output
// projection. What families differ in is in the options; MLA is another block.

import type {
  AttentionParams,
  KvPool,
  MatmulOptions,
  RotaryTable,
  StagedBatch,
  Tensor,
  Weight,
} from "../../device/device.js";
import type { Loader } from "../loader.js";

export interface AttentionShape {
  readonly hiddenSize: number;
  readonly numHeads: number; // H
  readonly numKvHeads: number; // K
  readonly headDim: number; // D
}

/** Activations that all layers share. */
export class AttentionSpace {
  readonly qkv: Tensor; // [T, (H + 2K) * D]
  readonly q: Tensor; // [T, H*D] view
  readonly k: Tensor; // [T, K*D] view
  readonly v: Tensor; // [T, K*D] view
  readonly heads: Tensor; // [T, H*D]

  constructor(loader: Loader, { numHeads, numKvHeads, headDim }: AttentionShape) {
    const q = numHeads * headDim;
    const kv = numKvHeads * headDim;
    this.qkv = loader.activations(q + 2 * kv);
    this.q = this.qkv.columns(0, q);
    this.k = this.qkv.columns(q, q + kv);
    this.v = this.qkv.columns(q + kv, q + 2 * kv);
    this.heads = loader.activations(q);
  }
}

export interface AttentionWeights {
  readonly qkv: Weight; // [(H + 2K) * D, hidden]
  readonly qkvBias: Tensor | null;
  readonly out: Weight; // [hidden, H*D]
  readonly outBias: Tensor | null;
  /** Norms of q and k before rotary: over each head [1, D], or over all heads at once [1, H*D]. */
  readonly qNorm: Tensor | null;
  readonly kNorm: Tensor | null;
}

export interface AttentionOptions {
  readonly layer: number;
  /** Which of the model's plans, one per distinct window. */
  readonly planIndex: number;
  /** null: the layer has no rotary embedding. */
  readonly rotary: RotaryTable | null;
  readonly eps: number;
  readonly params: AttentionParams;
  /** What run() does to its output: out = ... or out += scale * ... */
  readonly project: Pick<MatmulOptions, "accumulate" | "scale">;
}

/** A layer's attention: out (+)= attention of the normed x over the pages, this batch's tokens appended first. */
export interface Attention {
  run(out: Tensor, x: Tensor, batch: StagedBatch, pool: KvPool): void;
}

export class SelfAttention implements Attention {
  readonly #loader: Loader;
  readonly #space: AttentionSpace;
  readonly #weights: AttentionWeights;
  readonly #options: AttentionOptions;
  readonly #qkvOptions: MatmulOptions;
  readonly #outOptions: MatmulOptions;

  constructor(loader: Loader, space: AttentionSpace, weights: AttentionWeights, options: AttentionOptions) {
    this.#loader = loader;
    this.#space = space;
    this.#weights = weights;
    this.#options = options;
    this.#qkvOptions = { bias: weights.qkvBias };
    this.#outOptions = { ...options.project, bias: weights.outBias };
  }

  run(out: Tensor, x: Tensor, batch: StagedBatch, pool: KvPool): void {
    const { device } = this.#loader;
    const { qkv, q, k, v, heads } = this.#space;
    const { qNorm, kNorm, qkv: qkvWeight, out: outWeight } = this.#weights;
    const { layer, planIndex, rotary, eps, params } = this.#options;
    const n = batch.numTokens;
    device.matmul(qkv, x, qkvWeight, n, this.#qkvOptions);
    if (qNorm !== null) device.rmsNorm(q, q, qNorm, eps, n, qNorm.cols);
    if (kNorm !== null) device.rmsNorm(k, k, kNorm, eps, n, kNorm.cols);
    device.rotaryAppend(q, k, v, rotary, pool, layer, batch);
    device.attention(heads, q, pool, layer, batch, planIndex, params);
    device.matmul(out, heads, outWeight, n, this.#outOptions);
  }
}

/** How a checkpoint stores the projections of one layer, under `${name}.`. */
export interface AttentionNaming {
  readonly qkvBias: boolean;
  readonly outBias: boolean;
  /** One tensor qkv_proj in place of q_proj, k_proj, v_proj. */
  readonly isFused: boolean;
  readonly qkNorm: "none" | "head" | "all";
  /** Added to the weights of q_norm and k_norm. */
  readonly normOffset: number;
}

/** Loads q_proj, k_proj, v_proj, o_proj and what belongs to them. */
export function loadAttention(
  loader: Loader,
  name: string,
  shape: AttentionShape,
  naming: AttentionNaming,
): AttentionWeights {
  const { hiddenSize, numHeads, numKvHeads, headDim } = shape;
  const q = numHeads * headDim;
  const kv = numKvHeads * headDim;
  const parts = naming.isFused
    ? [{ name: `${name}.qkv_proj`, size: q + 2 * kv }]
    : [
        { name: `${name}.q_proj`, size: q },
        { name: `${name}.k_proj`, size: kv },
        { name: `${name}.v_proj`, size: kv },
      ];
  const norm = (part: string, all: number): Tensor | null =>
    naming.qkNorm === "none"
      ? null
      : loader.vector(`${name}.${part}.weight`, naming.qkNorm === "head" ? headDim : all, naming.normOffset);
  return {
    qkv: loader.matrix(parts.map((p) => ({ name: `${p.name}.weight`, rows: p.size, cols: hiddenSize }))),
    qkvBias: naming.qkvBias ? loader.vectors(parts.map((p) => ({ name: `${p.name}.bias`, size: p.size }))) : null,
    out: loader.matrix([{ name: `${name}.o_proj.weight`, rows: hiddenSize, cols: q }]),
    outBias: naming.outBias ? loader.vector(`${name}.o_proj.bias`, hiddenSize) : null,
    qNorm: norm("q_norm", q),
    kNorm: norm("k_norm", kv),
  };
}
