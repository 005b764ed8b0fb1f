// Multi-head latent attention (DeepSeek): queries, keys and values come from narrow latents through a norm; a head's last dims
// carry the rotary embedding, and all key heads share theirs. The pages hold full keys and values.
//
//   q head    |<- nope ->|<- rope ->|      from q_b(norm(q_a(x))), or q_proj(x) where there is no query latent
//   k head    |<- nope ->|<- rope ->|      nope from kv_b(norm(latent)), rope the same for all heads
//   v head    |<--- Dv --->|               from kv_b too:  kv_b head = |<- nope ->|<- Dv ->|

import type {
  AttentionParams,
  CopyHeads,
  Device,
  KvPool,
  PositionScale,
  RotaryTable,
  StagedBatch,
  Tensor,
} from "../../device/device.js";
import type { AttentionPlace } from "../cache-layout.js";
import type { Loader } from "../loader.js";
import type { Caches } from "../model.js";
import type { Block, Project } from "./block.js";
import { type Linear, loadLinear } from "./linear.js";
import { loadNorm, type Norm, rmsStyle } from "./norm.js";

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

export interface LatentOptions {
  readonly place: AttentionPlace;
  readonly rotary: RotaryTable;
  readonly eps: number;
  readonly params: AttentionParams;
  readonly hasBias: boolean;
  /** Queries grow with their position; null: they do not. */
  readonly queryScale: PositionScale | null;
  readonly project: Project;
}

export class LatentAttention implements Block {
  readonly #device: Device;
  readonly #shape: LatentShape;
  readonly #options: LatentOptions;
  readonly #qA: Linear | null; // [qRank, hidden]
  readonly #qANorm: Norm | null;
  readonly #qProject: Linear; // [H * (nope + rope), qRank or hidden]
  readonly #kvAProject: Linear; // [kvRank + rope, hidden]
  readonly #kvANorm: Norm;
  readonly #kvBProject: Linear; // [H * (nope + Dv), kvRank]
  readonly #out: Linear; // [hidden, H * Dv]
  readonly #nopePart: CopyHeads;
  readonly #ropePart: CopyHeads;
  readonly #valuePart: CopyHeads;
  readonly #qLatent: Tensor | null; // [T, qRank]
  readonly #q: Tensor; // [T, H * (nope + rope)]
  readonly #kvA: Tensor; // [T, kvRank + rope]
  readonly #kvLatent: Tensor; // [T, kvRank] view
  readonly #kRope: Tensor; // [T, rope] view
  readonly #kvNormed: Tensor; // [T, kvRank]
  readonly #kvB: Tensor; // [T, H * (nope + Dv)]
  readonly #k: Tensor; // [T, H * (nope + rope)]
  readonly #v: Tensor; // [T, H * Dv]
  readonly #heads: Tensor; // [T, H * Dv]

  /** Loads the matrices under `${name}.`. */
  constructor(loader: Loader, name: string, shape: LatentShape, options: LatentOptions) {
    const { hiddenSize, numHeads, qRank, kvRank, nopeDim, ropeDim, valueDim } = shape;
    const keyDim = nopeDim + ropeDim;
    const kvHead = nopeDim + valueDim;
    const linear = (part: string, rows: number, cols: number, hasBias = false, project: Project = {}): Linear =>
      loadLinear(loader, [{ name: `${name}.${part}`, rows }], cols, { hasBias, project });
    const norm = (part: string, size: number): Norm => loadNorm(loader, `${name}.${part}`, size, rmsStyle(options.eps));
    this.#device = loader.device;
    this.#shape = shape;
    this.#options = options;
    this.#qA = qRank === 0 ? null : linear("q_a_proj", qRank, hiddenSize, options.hasBias);
    this.#qANorm = qRank === 0 ? null : norm("q_a_layernorm", qRank);
    this.#qProject =
      qRank === 0 ? linear("q_proj", numHeads * keyDim, hiddenSize) : linear("q_b_proj", numHeads * keyDim, qRank);
    this.#kvAProject = linear("kv_a_proj_with_mqa", kvRank + ropeDim, hiddenSize, options.hasBias);
    this.#kvANorm = norm("kv_a_layernorm", kvRank);
    this.#kvBProject = linear("kv_b_proj", numHeads * kvHead, kvRank);
    this.#out = linear("o_proj", hiddenSize, numHeads * valueDim, options.hasBias, options.project);
    this.#nopePart = { numHeads, width: nopeDim, outHead: keyDim, outOffset: 0, inHead: kvHead, inOffset: 0 };
    this.#ropePart = { numHeads, width: ropeDim, outHead: keyDim, outOffset: nopeDim, inHead: 0, inOffset: 0 };
    this.#valuePart = { numHeads, width: valueDim, outHead: valueDim, outOffset: 0, inHead: kvHead, inOffset: nopeDim };
    this.#qLatent = qRank === 0 ? null : loader.scratch("q latent", qRank);
    this.#q = loader.scratch("q", numHeads * keyDim);
    this.#kvA = loader.scratch("kv latent and rope", kvRank + ropeDim);
    this.#kvLatent = this.#kvA.columns(0, kvRank);
    this.#kRope = this.#kvA.columns(kvRank, kvRank + ropeDim);
    this.#kvNormed = loader.scratch("kv latent", kvRank);
    this.#kvB = loader.scratch("kv heads", numHeads * kvHead);
    this.#k = loader.scratch("k", numHeads * keyDim);
    this.#v = loader.scratch("v", numHeads * valueDim);
    this.#heads = loader.scratch("heads", numHeads * valueDim);
  }

  run(out: Tensor, x: Tensor, batch: StagedBatch, caches: Caches): void {
    const device = this.#device;
    const { nopeDim, ropeDim } = this.#shape;
    const { place, rotary, params, queryScale } = this.#options;
    const pool = caches[place.group] as KvPool;
    const n = batch.numTokens;
    const q = this.#q;
    const qLatent = this.#qLatent;
    if (qLatent === null) {
      this.#qProject.run(q, x, n);
    } else {
      this.#qA!.run(qLatent, x, n);
      this.#qANorm!.run(qLatent, qLatent, n);
      this.#qProject.run(q, qLatent, n);
    }
    if (queryScale !== null) device.scaleByPosition(q, queryScale, batch);
    this.#kvAProject.run(this.#kvA, x, n);
    this.#kvANorm.run(this.#kvNormed, this.#kvLatent, n);
    this.#kvBProject.run(this.#kvB, this.#kvNormed, n);
    device.rotary(q, rotary, nopeDim + ropeDim, nopeDim, batch);
    device.rotary(this.#kRope, rotary, ropeDim, 0, batch);
    device.copyHeads(this.#k, this.#kvB, this.#nopePart, n);
    device.copyHeads(this.#k, this.#kRope, this.#ropePart, n);
    device.copyHeads(this.#v, this.#kvB, this.#valuePart, n);
    device.rotaryAppend(q, this.#k, this.#v, null, pool, place.layer, batch);
    device.attention(this.#heads, q, pool, place.layer, batch, place.plan, params);
    this.#out.run(out, this.#heads, n);
  }
}
