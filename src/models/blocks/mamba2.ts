// The mixer of Mamba-2: a state-space recurrence (SSD) behind a short convolution.
//
//   z, xBC, dt = in(x);  x, B, C = conv(xBC);  S <- exp(dt A) S + B (dt x)^T;  y = S^T C + D x;  out(norm(y, z))
//
// State of a layer: the convolution's last inputs, then S [state, headDim] of every head.

import type {
  Activation,
  Device,
  LinearAttentionSpec,
  MapOp,
  StagedBatch,
  StatePool,
  StepLimits,
  Tensor,
} from "../../device/device.js";
import type { LayerStateRef } from "../cache-layout.js";
import type { ConfigReader } from "../config-reader.js";
import type { Loader } from "../loader.js";
import type { Caches } from "../model.js";
import type { Block, Epilogue } from "./block.js";
import { type Linear, loadLinear } from "./linear.js";

export interface Mamba2Shape {
  readonly hiddenSize: number;
  readonly numHeads: number; // H
  readonly headDim: number;
  readonly numGroups: number;
  readonly stateSize: number;
  /** Taps of the convolution. */
  readonly kernel: number;
  readonly convBias: boolean;
  readonly inBias: boolean;
  readonly outBias: boolean;
  readonly activation: Activation;
  readonly stepLimits: StepLimits;
  readonly eps: number;
  /** The gate comes before the norm, after it, or there is no norm; norms run over groups of the heads. */
  readonly norm: "gated" | "before_gate" | "none";
  readonly normGroups: number;
  /** Factors on the input and on the parts of the projection [z, x, B, C, dt]; left out: ones. */
  readonly inScale?: number;
  readonly partScales?: readonly number[];
}

export function mamba2Floats({ numHeads, headDim, numGroups, stateSize, kernel }: Mamba2Shape): number {
  return (kernel - 1) * (numHeads * headDim + 2 * numGroups * stateSize) + numHeads * stateSize * headDim;
}

export class Mamba2Mixer implements Block {
  readonly #device: Device;
  readonly #shape: Mamba2Shape;
  readonly #place: LayerStateRef;
  readonly #in: Linear; // [z, x, B, C, dt], hidden
  readonly #conv: Tensor; // [kernel, channels]
  readonly #convBias: Tensor | null; // [1, channels]
  readonly #stepBias: Tensor; // [1, H]
  readonly #rate: Tensor; // [1, H] -exp(A_log)
  readonly #norm: Tensor | null; // [1, H * headDim]
  readonly #out: Linear; // [hidden, H * headDim]
  readonly #spec: LinearAttentionSpec;
  readonly #stateOffset: number;
  readonly #all: Tensor; // [T, rows of in]
  readonly #scaled: readonly { part: Tensor; scale: MapOp }[];
  readonly #applyGate: MapOp;
  readonly #z: Tensor; // [T, H * headDim] view
  readonly #mixed: Tensor; // [T, channels] view
  readonly #steps: Tensor; // [T, H] view
  readonly #convolved: Tensor; // [T, channels]
  readonly #x: Tensor;
  readonly #b: Tensor;
  readonly #c: Tensor;
  readonly #decay: Tensor; // [T, H]
  readonly #heads: Tensor; // [T, H * headDim]

  /** Loads what is under `${name}.`. */
  constructor(loader: Loader, name: string, shape: Mamba2Shape, place: LayerStateRef, project: Epilogue) {
    const { hiddenSize, numHeads: H, headDim, numGroups, stateSize, kernel } = shape;
    const inner = H * headDim;
    const keys = numGroups * stateSize;
    const channels = inner + 2 * keys;
    const rows = inner + channels + H;
    this.#device = loader.device;
    this.#applyGate = loader.device.createMap({ kind: "gate", activation: "silu" });
    this.#shape = shape;
    this.#place = place;
    this.#in = loadLinear(loader, [{ name: `${name}.in_proj`, rows }], hiddenSize, {
      hasBias: shape.inBias,
      inputScale: shape.inScale ?? 1,
    });
    this.#conv = loader.convolution(`${name}.conv1d.weight`, channels, kernel);
    this.#convBias = shape.convBias ? loader.vector(`${name}.conv1d.bias`, channels) : null;
    this.#stepBias = loader.vector(`${name}.dt_bias`, H);
    this.#rate = loader.decayRate(`${name}.A_log`, H);
    this.#norm = shape.norm === "none" ? null : loader.vector(`${name}.norm.weight`, inner);
    this.#out = loadLinear(loader, [{ name: `${name}.out_proj`, rows: hiddenSize }], inner, {
      hasBias: shape.outBias,
      project,
    });
    const skip = loader.vector(`${name}.D`, H);
    this.#spec = { numHeads: H, numKeyHeads: numGroups, keyDim: stateSize, valueDim: headDim, isDelta: false, skip };
    this.#stateOffset = place.offset + (kernel - 1) * channels;
    this.#all = loader.scratch("mamba", rows);
    const widths = [inner, inner, keys, keys, H];
    const ends = widths.map((_, i) => widths.slice(0, i + 1).reduce((sum, width) => sum + width, 0));
    const part = (from: number, to: number): Tensor => this.#all.columns(from === 0 ? 0 : ends[from - 1]!, ends[to]!);
    this.#z = part(0, 0);
    this.#mixed = part(1, 3);
    this.#steps = part(4, 4);
    this.#scaled = (shape.partScales ?? []).flatMap((scale, i) =>
      scale === 1 ? [] : [{ part: part(i, i), scale: loader.device.createMap({ kind: "scale", factor: scale }) }],
    );
    this.#convolved = loader.scratch("convolved", channels);
    this.#x = this.#convolved.columns(0, inner);
    this.#b = this.#convolved.columns(inner, inner + keys);
    this.#c = this.#convolved.columns(inner + keys, channels);
    this.#decay = loader.scratch("decay", H);
    this.#heads = loader.scratch("heads", inner);
  }

  run(out: Tensor, x: Tensor, batch: StagedBatch, caches: Caches): void {
    const device = this.#device;
    const { activation, stepLimits } = this.#shape;
    const pool = caches[this.#place.group] as StatePool;
    const n = batch.numTokens;
    const heads = this.#heads;
    const steps = this.#steps;
    this.#in.run(this.#all, x, batch);
    for (let i = 0; i < this.#scaled.length; i++) {
      const { part, scale } = this.#scaled[i]!;
      device.map(part, scale, part, null, n);
    }
    device.shortConv(
      this.#convolved,
      this.#mixed,
      this.#conv,
      this.#convBias,
      activation,
      pool,
      this.#place.offset,
      batch,
    );
    device.decayGates(this.#decay, steps, steps, this.#stepBias, this.#rate, stepLimits, n);
    device.linearAttention(
      heads,
      this.#c,
      this.#b,
      this.#x,
      this.#decay,
      steps,
      this.#spec,
      pool,
      this.#stateOffset,
      batch,
    );
    this.#gate(heads, n);
    this.#out.run(out, heads, batch);
  }

  #gate(heads: Tensor, n: number): void {
    const device = this.#device;
    const { norm, eps, normGroups } = this.#shape;
    const groupCols = heads.cols / normGroups;
    if (norm === "before_gate") device.rmsNorm(heads, heads, this.#norm!, eps, n, groupCols);
    device.map(heads, this.#applyGate, this.#z, heads, n);
    if (norm === "gated") device.rmsNorm(heads, heads, this.#norm!, eps, n, groupCols);
  }
}

/** time_step_limit: a pair whose ends may be infinite, which JSON cannot say. */
export function readStepLimits(c: ConfigReader): StepLimits {
  if (!c.has("time_step_limit")) return { min: 0, max: Number.POSITIVE_INFINITY };
  const raw = c.raw.time_step_limit;
  const numbers = Array.isArray(raw) ? raw.map(toNumber) : [];
  c.check(numbers.length === 2 && numbers.every((n) => !Number.isNaN(n)), "time_step_limit", "a pair of numbers");
  return { min: numbers[0]!, max: numbers[1]! };
}

function toNumber(value: unknown): number {
  const plain = typeof value === "object" && value !== null ? (value as { __float__?: unknown }).__float__ : value;
  return typeof plain === "number" || typeof plain === "string" ? Number(plain) : Number.NaN;
}
