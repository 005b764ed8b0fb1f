// Gated delta net (Qwen3-Next, Qwen3.5): linear attention whose state is corrected towards each value, behind a short convolution.
//
//   q, k, v = conv(in(x)), q and k of length one;  S <- g S + k (beta (v - g S^T k))^T;  out(norm(S^T q) * silu(z))
//
// State of a layer: the convolution's last inputs, then S of every head.

import type { Device, LinearAttentionSpec, MapOp, StagedBatch, StatePool, Tensor } from "../../device/device.js";
import type { LayerStateRef } from "../cache-layout.js";
import type { Loader } from "../loader.js";
import type { Caches } from "../model.js";
import type { Block, Epilogue } from "./block.js";
import { type Linear, type LinearPart, loadLinear } from "./linear.js";

export interface DeltaNetShape {
  readonly hiddenSize: number;
  readonly numKeyHeads: number;
  readonly numValueHeads: number;
  readonly keyDim: number;
  readonly valueDim: number;
  /** Taps of the convolution. */
  readonly kernel: number;
  readonly eps: number;
}

export function deltaNetFloats({ numKeyHeads, numValueHeads, keyDim, valueDim, kernel }: DeltaNetShape): number {
  const channels = 2 * numKeyHeads * keyDim + numValueHeads * valueDim;
  return (kernel - 1) * channels + numValueHeads * keyDim * valueDim;
}

/** What q and k are divided by holds this under the root. */
const LENGTH_EPS = 1e-6;
const NO_LIMITS = { min: 0, max: Number.POSITIVE_INFINITY };

export class GatedDeltaNet implements Block {
  readonly #device: Device;
  readonly #shape: DeltaNetShape;
  readonly #place: LayerStateRef;
  readonly #in: Linear; // [q, k, v, z, b, a], hidden
  readonly #conv: Tensor; // [kernel, channels]
  readonly #qNorm: Tensor; // [1, keyDim] constant
  readonly #kNorm: Tensor; // [1, keyDim] constant
  readonly #rate: Tensor; // [1, H] -exp(A_log)
  readonly #stepBias: Tensor; // [1, H]
  readonly #outNorm: Tensor; // [1, valueDim]
  readonly #out: Linear; // [hidden, H * valueDim]
  readonly #spec: LinearAttentionSpec;
  readonly #stateOffset: number;
  readonly #sigmoid: MapOp;
  readonly #gate: MapOp;
  readonly #all: Tensor; // [T, rows of in]
  readonly #mixed: Tensor; // [T, channels]: a view of #all
  readonly #z: Tensor; // [T, H * valueDim] view
  readonly #beta: Tensor; // [T, H] view
  readonly #steps: Tensor; // [T, H] view
  readonly #convolved: Tensor; // [T, channels]
  readonly #q: Tensor;
  readonly #k: Tensor;
  readonly #v: Tensor;
  readonly #decay: Tensor; // [T, H]
  readonly #heads: Tensor; // [T, H * valueDim]

  /** Loads what is under `${name}.`, in either of the two ways in which checkpoints store the input matrices. */
  constructor(loader: Loader, name: string, shape: DeltaNetShape, place: LayerStateRef, project: Epilogue) {
    const { hiddenSize, numKeyHeads, numValueHeads: H, keyDim, valueDim, kernel } = shape;
    const keys = numKeyHeads * keyDim;
    const values = H * valueDim;
    const channels = 2 * keys + values;
    const { device } = loader;
    this.#device = device;
    this.#sigmoid = device.createMap({ kind: "activation", activation: "sigmoid" });
    this.#gate = device.createMap({ kind: "gate", activation: "silu" });
    this.#shape = shape;
    this.#place = place;
    const parts = loader.has(`${name}.in_proj_qkvz.weight`) ? byKeyHead(name, shape) : separate(name, shape);
    this.#in = loadLinear(loader, parts, hiddenSize);
    this.#conv = loader.convolution(`${name}.conv1d.weight`, channels, kernel);
    // The RMS of a vector of length one is keyDim ** -0.5; queries are scaled by it once more.
    this.#qNorm = device.loadTensor(new Float32Array(keyDim).fill(1 / keyDim), 1, keyDim);
    this.#kNorm = device.loadTensor(new Float32Array(keyDim).fill(1 / Math.sqrt(keyDim)), 1, keyDim);
    this.#rate = loader.decayRate(`${name}.A_log`, H);
    this.#stepBias = loader.vector(`${name}.dt_bias`, H);
    this.#outNorm = loader.vector(`${name}.norm.weight`, valueDim);
    this.#out = loadLinear(loader, [{ name: `${name}.out_proj`, rows: hiddenSize }], values, { project });
    this.#spec = { numHeads: H, numKeyHeads, keyDim, valueDim, isDelta: true, skip: null };
    this.#stateOffset = place.offset + (kernel - 1) * channels;
    this.#all = loader.scratch("delta net", channels + values + 2 * H);
    this.#mixed = this.#all.columns(0, channels);
    this.#z = this.#all.columns(channels, channels + values);
    this.#beta = this.#all.columns(channels + values, channels + values + H);
    this.#steps = this.#all.columns(channels + values + H, channels + values + 2 * H);
    this.#convolved = loader.scratch("convolved", channels);
    this.#q = this.#convolved.columns(0, keys);
    this.#k = this.#convolved.columns(keys, 2 * keys);
    this.#v = this.#convolved.columns(2 * keys, channels);
    this.#decay = loader.scratch("decay", H);
    this.#heads = loader.scratch("heads", values);
  }

  run(out: Tensor, x: Tensor, batch: StagedBatch, caches: Caches): void {
    const device = this.#device;
    const { keyDim, valueDim, eps } = this.#shape;
    const pool = caches[this.#place.group] as StatePool;
    const n = batch.numTokens;
    const heads = this.#heads;
    this.#in.run(this.#all, x, batch);
    device.shortConv(this.#convolved, this.#mixed, this.#conv, null, "silu", pool, this.#place.offset, batch);
    device.rmsNorm(this.#q, this.#q, this.#qNorm, LENGTH_EPS / keyDim, n, keyDim);
    device.rmsNorm(this.#k, this.#k, this.#kNorm, LENGTH_EPS / keyDim, n, keyDim);
    device.decayGates(this.#decay, this.#steps, this.#steps, this.#stepBias, this.#rate, NO_LIMITS, n);
    device.map(this.#beta, this.#sigmoid, this.#beta, null, n);
    device.linearAttention(
      heads,
      this.#q,
      this.#k,
      this.#v,
      this.#decay,
      this.#beta,
      this.#spec,
      pool,
      this.#stateOffset,
      batch,
    );
    device.rmsNorm(heads, heads, this.#outNorm, eps, n, valueDim);
    device.map(heads, this.#gate, this.#z, heads, n);
    this.#out.run(out, heads, batch);
  }
}

function separate(name: string, { numKeyHeads, numValueHeads, keyDim, valueDim }: DeltaNetShape): LinearPart[] {
  const values = numValueHeads * valueDim;
  return [
    { name: `${name}.in_proj_qkv`, rows: 2 * numKeyHeads * keyDim + values },
    { name: `${name}.in_proj_z`, rows: values },
    { name: `${name}.in_proj_b`, rows: numValueHeads },
    { name: `${name}.in_proj_a`, rows: numValueHeads },
  ];
}

/** Two matrices that hold, for each key head in turn, its q, k, the v and z of its value heads; their b and a. */
function byKeyHead(name: string, { numKeyHeads, numValueHeads, keyDim, valueDim }: DeltaNetShape): LinearPart[] {
  const each = numValueHeads / numKeyHeads; // value heads of a key head
  const widths = [keyDim, keyDim, each * valueDim, each * valueDim];
  return [
    { name: `${name}.in_proj_qkvz`, ...gathered(numKeyHeads, widths) },
    { name: `${name}.in_proj_ba`, ...gathered(numKeyHeads, [each, each]) },
  ];
}

/** Rows stored group by group, each with pieces of the given widths, read piece by piece over all groups. */
function gathered(numGroups: number, widths: readonly number[]) {
  const stride = widths.reduce((sum, width) => sum + width, 0);
  const rowOf = (row: number): number => {
    let piece = 0;
    let before = 0; // rows of earlier pieces within a group
    let left = row;
    while (left >= numGroups * widths[piece]!) {
      left -= numGroups * widths[piece]!;
      before += widths[piece]!;
      piece++;
    }
    const width = widths[piece]!;
    return Math.floor(left / width) * stride + before + (left % width);
  };
  return { rows: numGroups * stride, rowOf };
}
