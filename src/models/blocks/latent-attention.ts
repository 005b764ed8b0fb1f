// Multi-head latent attention (DeepSeek): queries, keys and values come from narrow latents through a norm; a head's last dims
// carry the rotary embedding, and all key heads share theirs.
//
//   q head    |<- nope ->|<- rope ->|      from q_b(norm(q_a(x))), or q_proj(x) where there is no query latent
//   k head    |<- nope ->|<- rope ->|      nope = up_k(latent), a matrix for each head; rope the same for all heads
//   v head    |<--- Dv --->|               = up_v(latent), a matrix for each head
//
// The pages hold norm(latent) and the rotated rope part alone, one key for all heads whose first kvRank numbers are the value too. The
// up-projections are absorbed into the query and the output, which is the same sum in another order:
//
//   q . k = (q_nope up_k) . latent + q_rope . k_rope          sum_j p_j v_j = up_v (sum_j p_j latent_j)
//
// Always, also where a long prompt would be cheaper with its keys and values expanded: a token's bits must not depend on how its prompt
// was cut, and expanded and absorbed sums round differently.

import { toFloat32 } from "../../core/dequantize/dequantize.js";
import { f32ToBf16 } from "../../core/dequantize/small-floats.js";
import { BLOCK_OF, type HostTensor } from "../../core/tensor.js";
import type {
  AttentionParams,
  CopyHeads,
  Device,
  KvPool,
  MapOp,
  PositionScale,
  RotaryTable,
  StagedBatch,
  Tensor,
  Weight,
} from "../../device/device.js";
import { madeTensor, sliceOuter } from "../../formats/tensor-views.js";
import type { AttentionNeed, LayerCacheRef } from "../cache-layout.js";
import type { Loader } from "../loader.js";
import type { Caches } from "../model.js";
import type { Block, Epilogue } from "./block.js";
import { HeadColumns, HeadLinears } from "./head-linears.js";
import { Linear, loadLinear, type MadePart } from "./linear.js";
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
  readonly place: LayerCacheRef;
  readonly rotary: RotaryTable;
  readonly eps: number;
  readonly params: AttentionParams;
  readonly hasBias: boolean;
  /** Queries grow with their position; null: they do not. */
  readonly queryScale: PositionScale | null;
  readonly project: Epilogue;
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
  readonly #upKeys: HeadLinears; // [H] of [kvRank, nope]
  readonly #upValues: HeadLinears; // [H] of [Dv, kvRank]
  readonly #out: Linear; // [hidden, H * Dv]
  readonly #queryScale: MapOp | null;
  readonly #ropePart: CopyHeads;
  readonly #qLatent: Tensor | null; // [T, qRank]
  readonly #q: Tensor; // [T, H * (nope + rope)]
  readonly #absorbed: Tensor; // [T, H * (kvRank + rope)]
  readonly #key: Tensor; // [T, kvRank + rope] one for all heads, and its value
  readonly #kvLatent: Tensor; // [T, kvRank] view
  readonly #kRope: Tensor; // [T, rope] view
  readonly #latents: Tensor; // [T, H * kvRank] what each head attends to
  readonly #heads: Tensor; // [T, H * Dv]

  /** Loads the matrices under `${name}.`. */
  constructor(loader: Loader, name: string, shape: LatentShape, options: LatentOptions) {
    const { hiddenSize, numHeads, qRank, kvRank, nopeDim, ropeDim, valueDim } = shape;
    const keyDim = nopeDim + ropeDim;
    const linear = (part: string, rows: number, cols: number, hasBias = false, project: Epilogue = {}): Linear =>
      loadLinear(loader, [{ name: `${name}.${part}`, rows }], cols, { hasBias, project });
    const norm = (part: string, size: number): Norm => loadNorm(loader, `${name}.${part}`, size, rmsStyle(options.eps));
    this.#device = loader.device;
    const { queryScale } = options;
    this.#queryScale =
      queryScale === null ? null : loader.device.createMap({ kind: "scale_by_position", ...queryScale });
    this.#shape = shape;
    this.#options = options;
    this.#qA = qRank === 0 ? null : linear("q_a_proj", qRank, hiddenSize, options.hasBias);
    this.#qANorm = qRank === 0 ? null : norm("q_a_layernorm", qRank);
    this.#qProject =
      qRank === 0 ? linear("q_proj", numHeads * keyDim, hiddenSize) : linear("q_b_proj", numHeads * keyDim, qRank);
    this.#kvAProject = linear("kv_a_proj_with_mqa", kvRank + ropeDim, hiddenSize, options.hasBias);
    this.#kvANorm = norm("kv_a_layernorm", kvRank);
    const up = loadUpProjections(loader, `${name}.kv_b_proj`, shape);
    this.#out = linear("o_proj", hiddenSize, numHeads * valueDim, options.hasBias, options.project);
    const width = kvRank + ropeDim;
    this.#ropePart = {
      numHeads,
      width: ropeDim,
      outHead: width,
      outOffset: kvRank,
      inHead: keyDim,
      inOffset: nopeDim,
    };
    const headsOf = (x: Tensor, stride: number, size: number): HeadColumns =>
      new HeadColumns(x, numHeads, stride, size);
    this.#qLatent = qRank === 0 ? null : loader.scratch("q latent", qRank);
    this.#q = loader.scratch("q", numHeads * keyDim);
    this.#absorbed = loader.scratch("absorbed q", numHeads * width);
    const nopes = headsOf(this.#q, keyDim, nopeDim);
    this.#upKeys = new HeadLinears(loader.device, up.keys, headsOf(this.#absorbed, width, kvRank), nopes);
    this.#key = loader.scratch("kv latent and rope", width);
    this.#kvLatent = this.#key.columns(0, kvRank);
    this.#kRope = this.#key.columns(kvRank, width);
    this.#latents = loader.scratch("latents of heads", numHeads * kvRank);
    this.#heads = loader.scratch("heads", numHeads * valueDim);
    const latents = headsOf(this.#latents, kvRank, kvRank);
    this.#upValues = new HeadLinears(loader.device, up.values, headsOf(this.#heads, valueDim, valueDim), latents);
  }

  run(out: Tensor, x: Tensor, batch: StagedBatch, caches: Caches): void {
    const device = this.#device;
    const { nopeDim, ropeDim } = this.#shape;
    const { place, rotary, params } = this.#options;
    const pool = caches[place.group] as KvPool;
    const n = batch.numTokens;
    const q = this.#q;
    const qLatent = this.#qLatent;
    if (qLatent === null) {
      this.#qProject.run(q, x, batch);
    } else {
      this.#qA!.run(qLatent, x, batch);
      this.#qANorm!.run(qLatent, qLatent, n);
      this.#qProject.run(q, qLatent, batch);
    }
    if (this.#queryScale !== null) device.map(q, this.#queryScale, q, null, n, batch);
    device.rotary(q, rotary, nopeDim + ropeDim, nopeDim, batch);
    device.copyHeads(this.#absorbed, q, this.#ropePart, n);
    this.#upKeys.run(batch);
    this.#kvAProject.run(this.#key, x, batch);
    this.#kvANorm.run(this.#kvLatent, this.#kvLatent, n);
    device.rotary(this.#kRope, rotary, ropeDim, 0, batch);
    device.rotaryAppend(this.#absorbed, this.#key, this.#key, null, pool, place.layer, batch);
    device.attention(this.#latents, this.#absorbed, pool, place.layer, batch, place.plan, params);
    this.#upValues.run(batch);
    this.#out.run(out, this.#heads, batch);
  }
}

/** What a layer keeps of a token. */
export function latentNeed(shape: LatentShape): Omit<AttentionNeed, "window"> {
  const { numHeads, kvRank, nopeDim, ropeDim, valueDim } = shape;
  return {
    numHeads,
    numKvHeads: 1,
    keyDim: kvRank + ropeDim,
    valueDim: kvRank,
    isLatent: true,
    expandedFloats: numHeads * (nopeDim + ropeDim + valueDim),
  };
}

/** Each head's matrices out of kv_b [H * (nope + Dv), kvRank]. */
function loadUpProjections(loader: Loader, name: string, shape: LatentShape): { keys: Linear[]; values: Linear[] } {
  const { numHeads, kvRank, nopeDim, valueDim } = shape;
  const size = nopeDim + valueDim;
  const outputs = numHeads * size;
  const all = inMemory(loader.host(`${name}.weight`, [outputs, kvRank]));
  const keys: Linear[] = [];
  const values: Linear[] = [];
  const linear = (weight: Weight, lowRankOf: MadePart["lowRankOf"]): Linear => {
    const part = { name, rows: weight.rows, made: { outputs, inputs: kvRank, lowRankOf } };
    const made = new Linear(loader.device, weight, null, {}, [part]);
    loader.addLinear(made);
    return made;
  };
  for (let h = 0; h < numHeads; h++) {
    const key = withoutBlocks(sliceOuter(all, `${name}, keys of head ${h}`, h * size, nopeDim));
    const value = sliceOuter(all, `${name}, values of head ${h}`, h * size + nopeDim, valueDim);
    // A head's rows of b a are its b times a: keys are multiplied by its transpose, a^T b^T.
    const rowsOfHead = (b: Float32Array, rank: number, first: number, rows: number): Float32Array =>
      b.subarray((h * size + first) * rank, (h * size + first + rows) * rank);
    keys.push(
      linear(loader.matrixOf([key], { transposed: true }), (a, b, rank) => ({
        a: turned(rowsOfHead(b, rank, 0, nopeDim), nopeDim, rank),
        b: turned(a, rank, kvRank),
      })),
    );
    values.push(linear(loader.matrixOf([value]), (a, b, rank) => ({ a, b: rowsOfHead(b, rank, nopeDim, valueDim) })));
  }
  return { keys, values };
}

/** The transpose of a matrix [rows, cols]. */
function turned(values: Float32Array, rows: number, cols: number): Float32Array {
  const out = new Float32Array(values.length);
  for (let r = 0; r < rows; r++) for (let c = 0; c < cols; c++) out[c * rows + r] = values[r * cols + c]!;
  return out;
}

/** Bytes that would be made anew for each slice are made once. */
function inMemory(tensor: HostTensor): HostTensor {
  if (tensor.file !== null) return tensor;
  const bytes = tensor.bytes();
  return madeTensor(tensor.name, tensor.dtype, tensor.shape, () => bytes);
}

/** A matrix that is to be transposed cannot have its numbers in blocks along its rows. */
function withoutBlocks(tensor: HostTensor): HostTensor {
  if (BLOCK_OF[tensor.dtype][0] === 1) return tensor;
  const values = toFloat32(tensor);
  const isBf16 = tensor.dtype === "f8_e4m3_64"; // its values are
  const plain = isBf16 ? Uint16Array.from(values, f32ToBf16) : values;
  return madeTensor(tensor.name, isBf16 ? "bf16" : "f32", tensor.shape, () => new Uint8Array(plain.buffer));
}
