// The gated short convolution of LFM2:  B, C, u = in(x);  out(C * conv(B * u)).  State: the convolution's last inputs.

import type { Device, MapOp, StagedBatch, StatePool, Tensor } from "../../device/device.js";
import type { LayerStateRef } from "../cache-layout.js";
import type { Loader } from "../loader.js";
import type { Caches } from "../model.js";
import type { Block, Epilogue } from "./block.js";
import { type Linear, loadLinear } from "./linear.js";

export interface ShortConvShape {
  readonly hiddenSize: number;
  /** Taps of the convolution. */
  readonly kernel: number;
  readonly hasBias: boolean;
}

export function shortConvFloats({ hiddenSize, kernel }: ShortConvShape): number {
  return (kernel - 1) * hiddenSize;
}

export class ShortConv implements Block {
  readonly #device: Device;
  readonly #place: LayerStateRef;
  readonly #in: Linear; // [3 * hidden, hidden]
  readonly #conv: Tensor; // [kernel, hidden]
  readonly #convBias: Tensor | null; // [1, hidden]
  readonly #out: Linear; // [hidden, hidden]
  readonly #all: Tensor; // [T, 3 * hidden]
  readonly #b: Tensor; // views
  readonly #c: Tensor;
  readonly #u: Tensor;
  readonly #convolved: Tensor; // [T, hidden]
  readonly #multiply: MapOp;

  /** Loads what is under `${name}.`. */
  constructor(loader: Loader, name: string, shape: ShortConvShape, place: LayerStateRef, project: Epilogue) {
    const { hiddenSize: hidden, kernel, hasBias } = shape;
    this.#device = loader.device;
    this.#multiply = loader.device.createMap({ kind: "gate", activation: "identity" });
    this.#place = place;
    this.#in = loadLinear(loader, [{ name: `${name}.in_proj`, rows: 3 * hidden }], hidden, { hasBias });
    this.#conv = loader.convolution(`${name}.conv.weight`, hidden, kernel);
    this.#convBias = hasBias ? loader.vector(`${name}.conv.bias`, hidden) : null;
    this.#out = loadLinear(loader, [{ name: `${name}.out_proj`, rows: hidden }], hidden, { hasBias, project });
    this.#all = loader.scratch("short conv", 3 * hidden);
    this.#b = this.#all.columns(0, hidden);
    this.#c = this.#all.columns(hidden, 2 * hidden);
    this.#u = this.#all.columns(2 * hidden, 3 * hidden);
    this.#convolved = loader.scratch("convolved", hidden);
  }

  run(out: Tensor, x: Tensor, batch: StagedBatch, caches: Caches): void {
    const device = this.#device;
    const pool = caches[this.#place.group] as StatePool;
    const n = batch.numTokens;
    const y = this.#convolved;
    this.#in.run(this.#all, x, batch);
    device.map(this.#u, this.#multiply, this.#b, this.#u, n);
    device.shortConv(y, this.#u, this.#conv, this.#convBias, "identity", pool, this.#place.offset, batch);
    device.map(y, this.#multiply, this.#c, y, n);
    this.#out.run(out, y, batch);
  }
}
