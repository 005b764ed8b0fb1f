// AltUp (Gemma 3n): several residual streams, of which one passes through a layer. Before it, all are predicted from all; after it,
// all are corrected by what the layer changed. The coefficients are a token's own:
//   predicted[i] = x[i] + sum over j of p[i, j] x[j];   x[i] = predicted[i] + (1 + c[i]) (activated - predicted[active])

import type { CopyHeads, Device, MapOp, StagedBatch, Tensor } from "../../device/device.js";
import { madeTensor } from "../../formats/tensor-views.js";
import type { Loader } from "../loader.js";
import { Linear, loadLinear } from "./linear.js";
import { loadNorm, type Norm, type NormStyle } from "./norm.js";
import type { Layer } from "./residual.js";

/** The streams beside the residual stream itself, which is the first. */
export class Streams {
  readonly others: readonly Tensor[]; // [n - 1] of [T, hidden]
  readonly predicted: readonly Tensor[]; // [n] of [T, hidden]

  constructor(loader: Loader, numStreams: number, hiddenSize: number) {
    const make = (count: number): Tensor[] => Array.from({ length: count }, () => loader.activations(hiddenSize));
    this.others = make(numStreams - 1);
    this.predicted = make(numStreams);
  }

  of(x: Tensor, i: number): Tensor {
    return i === 0 ? x : this.others[i - 1]!;
  }
}

export class AltUp {
  readonly #device: Device;
  readonly #streams: Streams;
  readonly #active: number;
  readonly #routerNorm: Norm;
  readonly #router: Linear; // [n, hidden]
  readonly #prediction: Linear; // [n * n, n]
  readonly #correction: Linear; // [n, n], one added
  readonly #copy: CopyHeads;
  readonly #normed: Tensor; // [T, hidden]
  readonly #part: Tensor; // [T, hidden]
  readonly #innovation: Tensor; // [T, hidden]
  readonly #modes: Tensor; // [T, n]
  readonly #predictors: Tensor; // [T, n * n]
  readonly #predictor: readonly Tensor[]; // [n * n] of [T, 1] views
  readonly #correctors: Tensor; // [T, n]
  readonly #corrector: readonly Tensor[]; // [n] of [T, 1] views
  readonly #add: MapOp;
  readonly #subtract: MapOp;
  readonly #scaleRows: MapOp;
  readonly #tanh: MapOp;

  constructor(loader: Loader, name: string, hidden: number, streams: Streams, active: number, style: NormStyle) {
    const n = streams.predicted.length;
    const { device } = loader;
    this.#device = device;
    this.#add = device.createMap({ kind: "add", scale: 1 });
    this.#subtract = device.createMap({ kind: "add", scale: -1 });
    this.#scaleRows = device.createMap({ kind: "scale_rows" });
    this.#tanh = device.createMap({ kind: "softcap", cap: 1 });
    this.#streams = streams;
    this.#active = active;
    this.#routerNorm = loadNorm(loader, `${name}.router_norm`, hidden, style);
    const exact = { quantize: "none" } as const;
    this.#router = loadLinear(loader, [{ name: `${name}.modality_router`, rows: n }], hidden, {
      ...exact,
      project: { scale: 1 / hidden },
    });
    this.#prediction = loadLinear(loader, [{ name: `${name}.prediction_coefs`, rows: n * n }], n, exact);
    const correction = loader.matrix([{ name: `${name}.correction_coefs.weight`, rows: n, cols: n }], exact);
    this.#correction = new Linear(device, correction, device.loadTensor(new Float32Array(n).fill(1), 1, n));
    this.#copy = { numHeads: 1, width: hidden, outHead: 0, outOffset: 0, inHead: 0, inOffset: 0 };
    this.#normed = loader.scratch("normed", hidden);
    this.#part = loader.scratch("alt-up part", hidden);
    this.#innovation = loader.scratch("innovation", hidden);
    this.#modes = loader.scratch("modes", n);
    this.#predictors = loader.scratch("predictors", n * n);
    this.#correctors = loader.scratch("correctors", n);
    this.#predictor = Array.from({ length: n * n }, (_, i) => this.#predictors.columns(i, i + 1));
    this.#corrector = Array.from({ length: n }, (_, i) => this.#correctors.columns(i, i + 1));
  }

  /** Fills the predictions from the streams. */
  predict(x: Tensor, batch: StagedBatch): void {
    const n = batch.numTokens;
    const { predicted } = this.#streams;
    const count = predicted.length;
    this.#route(this.#streams.of(x, this.#active), batch);
    this.#prediction.run(this.#predictors, this.#modes, batch);
    for (let i = 0; i < count; i++) {
      for (let j = 0; j < count; j++) {
        const base = j === 0 ? this.#streams.of(x, i) : predicted[i]!;
        this.#addScaled(predicted[i]!, base, this.#streams.of(x, j), this.#predictor[i * count + j]!, n);
      }
    }
  }

  /** Fills the streams from the predictions and what the layer made of the active one. */
  correct(x: Tensor, activated: Tensor, batch: StagedBatch): void {
    const n = batch.numTokens;
    const { predicted } = this.#streams;
    this.#route(activated, batch);
    this.#correction.run(this.#correctors, this.#modes, batch);
    this.#device.map(this.#innovation, this.#subtract, activated, predicted[this.#active]!, n);
    for (let i = 0; i < predicted.length; i++) {
      this.#addScaled(this.#streams.of(x, i), predicted[i]!, this.#innovation, this.#corrector[i]!, n);
    }
  }

  /** The token's mode, from which all coefficients follow. */
  #route(x: Tensor, batch: StagedBatch): void {
    const n = batch.numTokens;
    this.#routerNorm.run(this.#normed, x, n);
    this.#router.run(this.#modes, this.#normed, batch);
    this.#device.map(this.#modes, this.#tanh, this.#modes, null, n);
  }

  /** out = base + factor of each row * x. */
  #addScaled(out: Tensor, base: Tensor, x: Tensor, factors: Tensor, n: number): void {
    this.#device.copyHeads(this.#part, x, this.#copy, n);
    this.#device.map(this.#part, this.#scaleRows, this.#part, factors, n);
    this.#device.map(out, this.#add, base, this.#part, n);
  }
}

/** mean[t, 0] = the mean of row t: a matrix of one row. */
export function loadMean(loader: Loader, cols: number): Linear {
  const bytes = (): Uint8Array => new Uint8Array(new Float32Array(cols).fill(1 / cols).buffer);
  const weight = loader.matrixOf([madeTensor("mean", "f32", [1, cols], bytes)], { quantize: "none" });
  return new Linear(loader.device, weight, null);
}

/** Makes the other streams from the embeddings, or (isEnd) one stream of all: matrices between, magnitudes as the first stream's. */
export class StreamEnds implements Layer {
  readonly #device: Device;
  readonly #streams: Streams;
  readonly #isEnd: boolean;
  readonly #projections: readonly Linear[]; // [n - 1] of [hidden, hidden]
  readonly #mean: Linear; // [1, hidden]
  readonly #ones: Tensor; // [1, hidden]
  readonly #part: Tensor; // [T, hidden]
  readonly #sum: Tensor; // [T, hidden]
  readonly #magnitude: Tensor; // [T, 1]
  readonly #add: MapOp;
  readonly #multiply: MapOp;
  readonly #scaleRows: MapOp;
  readonly #average: MapOp;

  constructor(loader: Loader, name: string, hidden: number, streams: Streams, isEnd: boolean) {
    const { device } = loader;
    this.#device = device;
    this.#add = device.createMap({ kind: "add", scale: 1 });
    this.#multiply = device.createMap({ kind: "gate", activation: "identity" });
    this.#scaleRows = device.createMap({ kind: "scale_rows" });
    this.#average = device.createMap({ kind: "scale", factor: 1 / streams.predicted.length });
    this.#streams = streams;
    this.#isEnd = isEnd;
    this.#projections = streams.others.map((_, i) =>
      loadLinear(loader, [{ name: `${name}.${i}`, rows: hidden }], hidden),
    );
    this.#mean = loadMean(loader, hidden);
    this.#ones = loader.device.loadTensor(new Float32Array(hidden).fill(1), 1, hidden);
    this.#part = loader.scratch("alt-up part", hidden);
    this.#sum = loader.scratch("innovation", hidden);
    this.#magnitude = loader.scratch("magnitude", 1);
  }

  run(x: Tensor, batch: StagedBatch): void {
    const n = batch.numTokens;
    const device = this.#device;
    const { others } = this.#streams;
    // The root mean square of x, as the mean of x * x / rms(x).
    device.rmsNorm(this.#part, x, this.#ones, TINY, n);
    device.map(this.#part, this.#multiply, x, this.#part, n);
    this.#mean.run(this.#magnitude, this.#part, batch);
    for (let i = 0; i < others.length; i++) {
      const made = this.#isEnd ? this.#part : others[i]!;
      this.#projections[i]!.run(made, this.#isEnd ? others[i]! : x, batch);
      device.rmsNorm(made, made, this.#ones, TINY, n);
      device.map(made, this.#scaleRows, made, this.#magnitude, n);
      if (this.#isEnd) device.map(this.#sum, this.#add, i === 0 ? x : this.#sum, made, n);
    }
    if (!this.#isEnd) return;
    device.map(x, this.#average, this.#sum, null, n);
  }
}

/** Keeps a row of zeros from becoming NaN. */
const TINY = 1e-12;
