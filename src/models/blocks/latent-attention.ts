// Multi-head latent attention (DeepSeek): queries, keys and values come from narrow latents through a norm; a head's last dims
// carry the rotary embedding, and all key heads share theirs. The pages hold full keys and values.
//
//   q head    |<- nope ->|<- rope ->|      from q_b(norm(q_a(x))), or q_proj(x) where there is no query latent
//   k head    |<- nope ->|<- rope ->|      nope from kv_b(norm(latent)), rope the same for all heads
//   v head    |<--- Dv --->|               from kv_b too:  kv_b head = |<- nope ->|<- Dv ->|

import type {
  AttentionParams,
  CopyHeads,
  KvPool,
  MatmulOptions,
  RotaryTable,
  StagedBatch,
  Tensor,
  Weight,
} from "../../device/device.js";
import type { Loader } from "../loader.js";
import type { Attention } from "./attention.js";

export interface LatentShape {
  readonly hiddenSize: number;
  readonly numHeads: number; // H
  /** Width of the query latent; 0: queries come straight from x. */
  readonly qRank: number;
  readonly kvRank: number;
  readonly nopeDim: number;
  readonly ropeDim: number;
  readonly valueDim: number; // Dv
}

/** Activations that all layers share. */
export class LatentSpace {
  readonly qLatent: Tensor | null; // [T, qRank]
  readonly q: Tensor; // [T, H * (nope + rope)]
  readonly kvA: Tensor; // [T, kvRank + rope]
  readonly kvLatent: Tensor; // [T, kvRank] view
  readonly kRope: Tensor; // [T, rope] view
  readonly kvNormed: Tensor; // [T, kvRank]
  readonly kvB: Tensor; // [T, H * (nope + Dv)]
  readonly k: Tensor; // [T, H * (nope + rope)]
  readonly v: Tensor; // [T, H * Dv]
  readonly heads: Tensor; // [T, H * Dv]

  constructor(loader: Loader, shape: LatentShape) {
    const { numHeads: H, qRank, kvRank, nopeDim, ropeDim, valueDim } = shape;
    this.qLatent = qRank === 0 ? null : loader.activations(qRank);
    this.q = loader.activations(H * (nopeDim + ropeDim));
    this.kvA = loader.activations(kvRank + ropeDim);
    this.kvLatent = this.kvA.columns(0, kvRank);
    this.kRope = this.kvA.columns(kvRank, kvRank + ropeDim);
    this.kvNormed = loader.activations(kvRank);
    this.kvB = loader.activations(H * (nopeDim + valueDim));
    this.k = loader.activations(H * (nopeDim + ropeDim));
    this.v = loader.activations(H * valueDim);
    this.heads = loader.activations(H * valueDim);
  }
}

export interface LatentOptions {
  readonly layer: number;
  readonly rotary: RotaryTable;
  readonly eps: number;
  readonly params: AttentionParams;
  readonly hasBias: boolean;
  readonly project: Pick<MatmulOptions, "accumulate" | "scale">;
}

export class LatentAttention implements Attention {
  readonly #loader: Loader;
  readonly #space: LatentSpace;
  readonly #shape: LatentShape;
  readonly #options: LatentOptions;
  readonly #qA: Weight | null; // [qRank, hidden]
  readonly #qANorm: Tensor | null; // [1, qRank]
  readonly #q: Weight; // [H * (nope + rope), qRank or hidden]
  readonly #kvA: Weight; // [kvRank + rope, hidden]
  readonly #kvANorm: Tensor; // [1, kvRank]
  readonly #kvB: Weight; // [H * (nope + Dv), kvRank]
  readonly #out: Weight; // [hidden, H * Dv]
  readonly #qAOptions: MatmulOptions;
  readonly #kvAOptions: MatmulOptions;
  readonly #outOptions: MatmulOptions;
  readonly #nopePart: CopyHeads;
  readonly #ropePart: CopyHeads;
  readonly #valuePart: CopyHeads;

  /** Loads the matrices under `${name}.`. */
  constructor(loader: Loader, name: string, space: LatentSpace, shape: LatentShape, options: LatentOptions) {
    const { hiddenSize, numHeads, qRank, kvRank, nopeDim, ropeDim, valueDim } = shape;
    const keyDim = nopeDim + ropeDim;
    const linear = (part: string, rows: number, cols: number): Weight =>
      loader.matrix([{ name: `${name}.${part}.weight`, rows, cols }]);
    const bias = (part: string, size: number): Tensor | null =>
      options.hasBias ? loader.vector(`${name}.${part}.bias`, size) : null;
    this.#loader = loader;
    this.#space = space;
    this.#shape = shape;
    this.#options = options;
    this.#qA = qRank === 0 ? null : linear("q_a_proj", qRank, hiddenSize);
    this.#qANorm = qRank === 0 ? null : loader.vector(`${name}.q_a_layernorm.weight`, qRank);
    this.#q =
      qRank === 0 ? linear("q_proj", numHeads * keyDim, hiddenSize) : linear("q_b_proj", numHeads * keyDim, qRank);
    this.#kvA = linear("kv_a_proj_with_mqa", kvRank + ropeDim, hiddenSize);
    this.#kvANorm = loader.vector(`${name}.kv_a_layernorm.weight`, kvRank);
    this.#kvB = linear("kv_b_proj", numHeads * (nopeDim + valueDim), kvRank);
    this.#out = linear("o_proj", hiddenSize, numHeads * valueDim);
    this.#qAOptions = { bias: qRank === 0 ? null : bias("q_a_proj", qRank) };
    this.#kvAOptions = { bias: bias("kv_a_proj_with_mqa", kvRank + ropeDim) };
    this.#outOptions = { ...options.project, bias: bias("o_proj", hiddenSize) };
    const kvHead = nopeDim + valueDim;
    this.#nopePart = { numHeads, width: nopeDim, outHead: keyDim, outOffset: 0, inHead: kvHead, inOffset: 0 };
    this.#ropePart = { numHeads, width: ropeDim, outHead: keyDim, outOffset: nopeDim, inHead: 0, inOffset: 0 };
    this.#valuePart = { numHeads, width: valueDim, outHead: valueDim, outOffset: 0, inHead: kvHead, inOffset: nopeDim };
  }

  run(out: Tensor, x: Tensor, batch: StagedBatch, pool: KvPool): void {
    const { device } = this.#loader;
    const { qLatent, q, kvA, kvLatent, kRope, kvNormed, kvB, k, v, heads } = this.#space;
    const { nopeDim, ropeDim } = this.#shape;
    const { layer, rotary, eps, params } = this.#options;
    const n = batch.numTokens;
    if (qLatent === null) {
      device.matmul(q, x, this.#q, n);
    } else {
      device.matmul(qLatent, x, this.#qA!, n, this.#qAOptions);
      device.rmsNorm(qLatent, qLatent, this.#qANorm!, eps, n);
      device.matmul(q, qLatent, this.#q, n);
    }
    device.matmul(kvA, x, this.#kvA, n, this.#kvAOptions);
    device.rmsNorm(kvNormed, kvLatent, this.#kvANorm, eps, n);
    device.matmul(kvB, kvNormed, this.#kvB, n);
    device.rotary(q, rotary, nopeDim + ropeDim, nopeDim, batch);
    device.rotary(kRope, rotary, ropeDim, 0, batch);
    device.copyHeads(k, kvB, this.#nopePart, n);
    device.copyHeads(k, kRope, this.#ropePart, n);
    device.copyHeads(v, kvB, this.#valuePart, n);
    device.rotaryAppend(q, k, v, null, pool, layer, batch);
    device.attention(heads, q, pool, layer, batch, 0, params);
    device.matmul(out, heads, this.#out, n, this.#outOptions);
  }
}
