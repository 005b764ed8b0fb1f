// What every decoder has around its layers: embedding, rotary tables, final norm, logits. A family puts its layers into it.

import type { CopyHeads, Device, MapOp, StagedBatch, Tensor, Weight } from "../device/device.js";
import type { Norm } from "./blocks/norm.js";
import type { Layer } from "./blocks/residual.js";
import type { Rotaries } from "./blocks/rotaries.js";
import type { Vocabulary } from "./blocks/vocabulary.js";
import type { Loader } from "./loader.js";
import type { Caches, InputRows, Model, ModelSpec, PositionRows } from "./model.js";
import type { Predictor } from "./predictors/predictor.js";

const NO_INPUTS: readonly InputRows[] = [];
const NO_PLACES: readonly PositionRows[] = [];

export interface FrameParts {
  readonly spec: ModelSpec;
  readonly vocabulary: Vocabulary;
  /** Learned positions [maxContext, hidden]; null: none. */
  readonly positions?: Weight | null;
  readonly rotaries: Rotaries | null;
  readonly layers: readonly Layer[];
  /** How many of `layers` make one of the model's, where they all are alike; left out: 1. */
  readonly stepsPerLayer?: number;
  readonly finalNorm: Norm;
  /** Before these of the model's layers the residual stream is kept. */
  readonly taps?: readonly number[];
}

export class DecoderFrame implements Model {
  readonly hidden: Tensor; // [T, hidden]
  readonly #device: Device;
  readonly #parts: FrameParts;
  readonly #positions: Weight | null;
  readonly #x: Tensor; // [T, hidden] the residual stream
  /** What pictures add after a layer, and zeros for all other tokens; null: nothing ever is. */
  readonly #added: { readonly rows: Tensor; readonly zeros: Float32Array } | null; // [T, hidden]
  readonly #add: MapOp;
  readonly #steps: number;
  readonly taps?: Tensor; // [T, taps * hidden]
  /** Where the stream before each of the layers goes; by layer, most are absent. */
  readonly #tapPlaces: readonly (CopyHeads | undefined)[];
  predictor?: Predictor;

  constructor(loader: Loader, parts: FrameParts) {
    this.#device = loader.device;
    this.#add = loader.device.createMap({ kind: "add", scale: 1 });
    this.#parts = parts;
    this.#positions = parts.positions ?? null;
    this.#x = loader.activations(parts.spec.hiddenSize);
    this.hidden = loader.activations(parts.spec.hiddenSize);
    this.#steps = parts.stepsPerLayer ?? 1;
    const places: CopyHeads[] = [];
    for (const [i, layer] of parts.taps?.entries() ?? []) places[layer] = columnsAt(i, parts.spec.hiddenSize);
    this.#tapPlaces = places;
    if (parts.taps !== undefined) this.taps = loader.activations(parts.taps.length * parts.spec.hiddenSize);
    const { maxTokens, deeperRows = 0 } = loader.capacity;
    const zeros = new Float32Array(deeperRows > 0 ? maxTokens * parts.spec.hiddenSize : 0);
    this.#added = deeperRows > 0 ? { rows: loader.activations(parts.spec.hiddenSize), zeros } : null;
  }

  get spec(): ModelSpec {
    return this.#parts.spec;
  }

  get logits(): Tensor {
    return this.#parts.vocabulary.logits;
  }

  forward(
    batch: StagedBatch,
    caches: Caches,
    inputs: readonly InputRows[] = NO_INPUTS,
    places: readonly PositionRows[] = NO_PLACES,
  ): void {
    const { vocabulary, rotaries, layers, finalNorm } = this.#parts;
    const x = this.#x;
    vocabulary.embed(x, batch);
    for (let i = 0; i < inputs.length; i++) {
      const { first, count, values } = inputs[i]!;
      this.#device.write(x, first, values, count);
    }
    if (this.#positions !== null) this.#device.addPositions(x, this.#positions, batch);
    rotaries?.fill(batch);
    for (let i = 0; i < places.length; i++) rotaries?.place(places[i]!);
    for (let i = 0; i < layers.length; i++) {
      if (this.taps !== undefined && i % this.#steps === 0) this.#tap(i / this.#steps, batch.numTokens);
      layers[i]!.run(x, batch, caches);
      if (this.#added !== null && inputs.length > 0 && (i + 1) % this.#steps === 0)
        this.#addRows(inputs, (i + 1) / this.#steps - 1, batch.numTokens);
    }
    finalNorm.run(this.hidden, x, batch.numTokens);
  }

  embed(out: Tensor, batch: StagedBatch): void {
    this.#parts.vocabulary.embed(out, batch);
  }

  /** Keeps the residual stream, if somebody reads it before this layer. */
  #tap(layer: number, n: number): void {
    const place = this.#tapPlaces[layer];
    if (place !== undefined) this.#device.copyHeads(this.taps!, this.#x, place, n);
  }

  /** What pictures add after layer `layer`. */
  #addRows(inputs: readonly InputRows[], layer: number, n: number): void {
    const { rows, zeros } = this.#added!;
    let isAny = false;
    for (let i = 0; i < inputs.length; i++) {
      const { first, count, deeper } = inputs[i]!;
      const values = deeper?.[layer];
      if (values === undefined) continue;
      if (!isAny) this.#device.write(rows, 0, zeros, n);
      isAny = true;
      this.#device.write(rows, first, values, count);
    }
    if (isAny) this.#device.map(this.#x, this.#add, this.#x, rows, n);
  }

  computeLogits(batch: StagedBatch, first: number, n: number): void {
    this.#parts.vocabulary.computeLogits(this.hidden, batch, first, n);
  }
}

/** Columns [i * width, (i + 1) * width) of the output are all of the input. */
function columnsAt(i: number, width: number): CopyHeads {
  return { numHeads: 1, width, outHead: width, outOffset: i * width, inHead: width, inOffset: 0 };
}
