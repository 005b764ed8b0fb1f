// Per-layer embeddings (Gemma 3n, Gemma 4 E): beside the residual stream, every layer has a small input of its own, made once per
// step from the token and its embedding:  input = (norm(project(x)) + table[token]) / sqrt(2).  A layer adds
// norm(out(act(gate(x)) * input)) to the stream.

import type { Activation, Device, MapOp, StagedBatch, Tensor, Weight } from "../../device/device.js";
import type { Loader } from "../loader.js";
import { type Linear, loadLinear } from "./linear.js";
import { loadNorm, type Norm, type NormStyle } from "./norm.js";
import type { Layer } from "./residual.js";

export interface PerLayerShape {
  readonly hiddenSize: number;
  readonly numLayers: number; // L
  /** Width of one layer's input. */
  readonly width: number;
  readonly vocabSize: number;
  readonly activation: Activation;
  readonly norm: NormStyle;
}

/** Fills the inputs of all layers; the first step of a forward, when the stream holds the embeddings. */
export class PerLayerInputs implements Layer {
  readonly all: Tensor; // [T, L * width]
  readonly #device: Device;
  readonly #table: Weight; // [vocab, L * width]
  readonly #project: Linear; // [L * width, hidden]
  readonly #norm: Norm;
  readonly #projected: Tensor; // [T, L * width]
  readonly #embeddingScale: number;
  readonly #add: MapOp;
  readonly #halve: MapOp; // of the variance

  constructor(loader: Loader, root: string, shape: PerLayerShape) {
    const { hiddenSize, numLayers, width, vocabSize } = shape;
    const cols = numLayers * width;
    this.#device = loader.device;
    this.#add = loader.device.createMap({ kind: "add", scale: 1 });
    this.#halve = loader.device.createMap({ kind: "scale", factor: Math.SQRT1_2 });
    this.#table = loader.table(`${root}embed_tokens_per_layer.weight`, vocabSize, cols);
    this.#project = loadLinear(loader, [{ name: `${root}per_layer_model_projection`, rows: cols }], hiddenSize, {
      project: { scale: 1 / Math.sqrt(hiddenSize) },
    });
    this.#norm = loadNorm(loader, `${root}per_layer_projection_norm`, width, shape.norm);
    this.#embeddingScale = Math.sqrt(width);
    this.all = loader.activations(cols);
    this.#projected = loader.activations(cols);
  }

  run(x: Tensor, batch: StagedBatch): void {
    const n = batch.numTokens;
    this.#device.embed(this.all, this.#table, batch, this.#embeddingScale);
    this.#project.run(this.#projected, x, batch);
    this.#norm.run(this.#projected, this.#projected, n);
    this.#device.map(this.all, this.#add, this.all, this.#projected, n);
    this.#device.map(this.all, this.#halve, this.all, null, n);
  }
}

/** What a layer makes of its input, as the branch that is added to the stream: out = norm(project(act(gate(x)) * input)). */
export class PerLayerBranch {
  readonly #device: Device;
  readonly #activate: MapOp;
  readonly #input: Tensor; // [T, width] view
  readonly #gate: Linear; // [width, hidden]
  readonly #project: Linear; // [hidden, width]
  readonly #norm: Norm;
  readonly #inner: Tensor; // [T, width]

  /** `gate`: the gate's matrix where it is not the checkpoint's as it is. */
  constructor(
    loader: Loader,
    name: string,
    layer: number,
    inputs: PerLayerInputs,
    shape: PerLayerShape,
    gate?: Linear,
  ) {
    const { hiddenSize, width } = shape;
    this.#device = loader.device;
    this.#activate = loader.device.createMap({ kind: "gate", activation: shape.activation });
    this.#input = inputs.all.columns(layer * width, (layer + 1) * width);
    this.#gate = gate ?? loadLinear(loader, [{ name: `${name}.per_layer_input_gate`, rows: width }], hiddenSize);
    this.#project = loadLinear(loader, [{ name: `${name}.per_layer_projection`, rows: hiddenSize }], width);
    this.#norm = loadNorm(loader, `${name}.post_per_layer_input_norm`, hiddenSize, shape.norm);
    this.#inner = loader.scratch("per-layer input", width);
  }

  run(out: Tensor, x: Tensor, batch: StagedBatch): void {
    const n = batch.numTokens;
    this.#gate.run(this.#inner, x, batch);
    this.#device.map(this.#inner, this.#activate, this.#inner, this.#input, n);
    this.#project.run(out, this.#inner, batch);
    this.#norm.run(out, out, n);
  }
}
