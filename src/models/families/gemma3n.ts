// Gemma 3n. Other than Gemma 3: several residual streams (AltUp), a low-rank branch beside attention (LAuReL), per-layer embeddings,
// feed-forwards whose gate keeps only what stands out, and last layers that read the keys and values of earlier ones.

import { toFloat32 } from "../../core/dequantize/dequantize.js";
import type { Activation, Device, MapOp, StagedBatch, Tensor } from "../../device/device.js";
import { madeTensor } from "../../formats/tensor-views.js";
import { AltUp, loadMean, StreamEnds, Streams } from "../blocks/alt-up.js";
import type { Block } from "../blocks/block.js";
import { Linear, loadLinear } from "../blocks/linear.js";
import { loadMlp } from "../blocks/mlp.js";
import { loadNorm, type Norm } from "../blocks/norm.js";
import { PerLayerBranch, PerLayerInputs, type PerLayerShape } from "../blocks/per-layer-input.js";
import type { Layer } from "../blocks/residual.js";
import { Rotaries } from "../blocks/rotaries.js";
import { cappedVocabulary } from "../blocks/vocabulary.js";
import { readCommon, specOf } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import { llamaSettings } from "../decoder.js";
import { DecoderFrame } from "../decoder-frame.js";
import { readLayerTypes } from "../layer-windows.js";
import { Loader } from "../loader.js";
import type { Caches, LoadContext, Model, ModelFamily } from "../model.js";
import { readHeadRope } from "../rope.js";
import { loadSharingAttention, type SharingConfig, sharingCaches, unusedKeys } from "./gemma4.js";

interface Gemma3nConfig extends SharingConfig {
  readonly innerSizes: readonly number[]; // [L]
  readonly cutoffs: readonly number[]; // [L] standard deviations above the mean below which a gate is cut; -Infinity: nothing is
  readonly numStreams: number;
  readonly activeStream: number;
  readonly isOutputScaled: boolean;
  readonly laurelRank: number;
  readonly perLayer: PerLayerShape;
}

export const gemma3n: ModelFamily<Gemma3nConfig> = {
  architectures: ["Gemma3nForCausalLM"],
  parseConfig(raw, file) {
    const sizes = Array.isArray(raw.intermediate_size) ? { intermediate_size: raw.intermediate_size[0] } : {};
    const defaults = { hidden_activation: "gelu_pytorch_tanh", rope_theta: 1e6, rope_local_base_freq: 1e4 };
    const c = new ConfigReader({ ...defaults, ...raw, ...sizes }, file);
    const plain = llamaSettings(c, readCommon(c, "Gemma3nForCausalLM", { isTied: true, headDim: 256 }));
    const { numLayers, maxContext, hiddenSize, numHeads, numKvHeads, headDim, activation, norm } = plain;
    const known = ["sliding_attention", "full_attention"];
    const types = readLayerTypes(c, numLayers, known, (layer) => known[(layer + 1) % 5 !== 0 ? 0 : 1]!);
    const isSliding = types.map((type) => type === "sliding_attention");
    const window = c.int("sliding_window", 512);
    const first = numLayers - c.count("num_kv_shared_layers", 15);
    const numStreams = c.int("altup_num_inputs", 4);
    const activeStream = c.count("altup_active_idx", 0);
    c.check(numStreams > 1, "altup_num_inputs", "2 or more");
    c.check(activeStream < numStreams, "altup_active_idx", `less than ${numStreams}`);
    return {
      ...plain,
      isSliding,
      shapes: types.map(() => ({ hiddenSize, numHeads, numKvHeads, headDim })),
      windows: isSliding.map((sliding) => (sliding && window < maxContext ? window : 0)),
      ropes: [readHeadRope(c, headDim, "full_attention"), readHeadRope(c, headDim, "sliding_attention")],
      ropeOf: isSliding.map((sliding) => (sliding ? 1 : 0)),
      sharedWith: isSliding.map((sliding, layer) =>
        layer < first || first <= 0 ? null : isSliding.lastIndexOf(sliding, first - 1),
      ),
      areKeysValues: false,
      attention: { ...plain.attention, qkNorm: "head", qkvBias: c.bool("attention_bias", false) },
      embeddingScale: Math.sqrt(hiddenSize),
      finalSoftcap: c.number("final_logit_softcapping", 30),
      innerSizes: perLayerNumbers(c, raw.intermediate_size, numLayers, "intermediate_size"),
      cutoffs: readCutoffs(c, numLayers),
      numStreams,
      activeStream,
      isOutputScaled: c.bool("altup_correct_scale", true),
      laurelRank: c.int("laurel_rank", 64),
      perLayer: {
        hiddenSize,
        numLayers,
        width: c.int("hidden_size_per_layer_input", 256),
        vocabSize: c.int("vocab_size_per_layer_input", 262_144),
        activation,
        norm,
      },
    };
  },
  specOf: (config) => specOf(config, sharingCaches(config), config.ropes),
  load,
  ignoredTensors: unusedKeys,
};

/** Stated as shares that are cut, or (by GGUF files) as the cutoffs themselves. */
function readCutoffs(c: ConfigReader, numLayers: number): readonly number[] {
  const { activation_sparsity_scale: scale, activation_sparsity_pattern: pattern } = c.raw;
  if (scale !== undefined) return perLayerNumbers(c, scale, numLayers, "activation_sparsity_scale");
  const usual = Array.from({ length: numLayers }, (_, layer) => (numLayers > 10 && layer < 10 ? 0.95 : 0));
  const shares = perLayerNumbers(c, pattern ?? usual, numLayers, "activation_sparsity_pattern");
  return shares.map((share) => (share > 0 ? normalQuantile(share) : Number.NEGATIVE_INFINITY));
}

/** One number for all layers, or a list. */
function perLayerNumbers(c: ConfigReader, value: unknown, numLayers: number, name: string): readonly number[] {
  const list = Array.isArray(value) ? value : new Array<unknown>(numLayers).fill(value);
  const isRight = list.length === numLayers && list.every((v) => typeof v === "number");
  c.check(isRight, name, `a number, or a list of ${numLayers}`);
  return list as number[];
}

function load(config: Gemma3nConfig, context: LoadContext): Model {
  const loader = new Loader(context);
  const root = loader.decoderPrefix();
  const { hiddenSize, norm } = config;
  const { places } = sharingCaches(config);
  const vocabulary = cappedVocabulary(loader, root, config);
  const rotaries = new Rotaries(loader, config.ropes, { headDim: config.headDim, maxContext: config.maxContext });
  const inputs = new PerLayerInputs(loader, root, config.perLayer);
  const streams = new Streams(loader, config.numStreams, hiddenSize);
  const layers = places.map((place, layer) => {
    const name = `${root}layers.${layer}`;
    const attention = loadSharingAttention(config, loader, name, layer, place!, rotaries);
    return new Gemma3nLayer(config, loader, name, layer, attention, streams, inputs);
  });
  const all: Layer[] = [
    inputs,
    new StreamEnds(loader, `${root}altup_projections`, hiddenSize, streams, false),
    ...layers,
    new StreamEnds(loader, `${root}altup_unembed_projections`, hiddenSize, streams, true),
  ];
  const finalNorm = loadNorm(loader, `${root}norm`, hiddenSize, norm);
  return new DecoderFrame(loader, { spec: gemma3n.specOf(config), vocabulary, rotaries, layers: all, finalNorm });
}

class Gemma3nLayer implements Layer {
  readonly #device: Device;
  readonly #streams: Streams;
  readonly #active: number;
  readonly #altUp: AltUp;
  readonly #attention: Block;
  readonly #mlp: Block;
  readonly #norms: readonly Norm[]; // before and after attention, before and after the feed-forward
  readonly #laurelLeft: Linear; // [rank, hidden]
  readonly #laurelRight: Linear; // [hidden, rank]
  readonly #laurelNorm: Norm;
  readonly #branch: PerLayerBranch;
  readonly #normed: Tensor; // [T, hidden]
  readonly #out: Tensor; // [T, hidden]
  readonly #low: Tensor; // [T, rank]
  readonly #y: Tensor; // [T, hidden]
  readonly #add: MapOp;
  readonly #halve: MapOp; // of the variance

  constructor(
    config: Gemma3nConfig,
    loader: Loader,
    name: string,
    layer: number,
    attention: Block,
    streams: Streams,
    inputs: PerLayerInputs,
  ) {
    const { hiddenSize, norm, laurelRank } = config;
    const normOf = (part: string): Norm => loadNorm(loader, `${name}.${part}`, hiddenSize, norm);
    this.#device = loader.device;
    this.#add = loader.device.createMap({ kind: "add", scale: 1 });
    this.#halve = loader.device.createMap({ kind: "scale", factor: Math.SQRT1_2 });
    this.#streams = streams;
    this.#active = config.activeStream;
    this.#altUp = new AltUp(loader, `${name}.altup`, hiddenSize, streams, config.activeStream, norm);
    this.#attention = attention;
    this.#mlp = loadSparseMlp(config, loader, `${name}.mlp`, layer);
    this.#norms = [
      "input_layernorm",
      "post_attention_layernorm",
      "pre_feedforward_layernorm",
      "post_feedforward_layernorm",
    ].map(normOf);
    this.#laurelLeft = loadLinear(loader, [{ name: `${name}.laurel.linear_left`, rows: laurelRank }], hiddenSize);
    this.#laurelRight = loadLinear(loader, [{ name: `${name}.laurel.linear_right`, rows: hiddenSize }], laurelRank);
    this.#laurelNorm = normOf("laurel.post_laurel_norm");
    const gate = config.isOutputScaled ? scaledGate(config, loader, name) : undefined;
    this.#branch = new PerLayerBranch(loader, name, layer, inputs, config.perLayer, gate);
    this.#normed = loader.scratch("gemma3n normed", hiddenSize);
    this.#out = loader.scratch("branch", hiddenSize);
    this.#low = loader.scratch("laurel", laurelRank);
    this.#y = loader.scratch("active stream", hiddenSize);
  }

  run(x: Tensor, batch: StagedBatch, caches: Caches): void {
    const device = this.#device;
    const n = batch.numTokens;
    const norms = this.#norms;
    const y = this.#y;
    const out = this.#out;
    this.#altUp.predict(x, batch);
    const active = this.#streams.predicted[this.#active]!;
    norms[0]!.run(this.#normed, active, n);
    // y = active + attention + (normed + laurel), over sqrt(2).
    device.map(y, this.#add, active, this.#normed, n);
    this.#laurelLeft.run(this.#low, this.#normed, batch);
    this.#laurelRight.run(out, this.#low, batch);
    this.#laurelNorm.run(out, out, n);
    device.map(y, this.#add, y, out, n);
    this.#attention.run(out, this.#normed, batch, caches);
    norms[1]!.run(out, out, n);
    device.map(y, this.#add, y, out, n);
    device.map(y, this.#halve, y, null, n);
    norms[2]!.run(this.#normed, y, n);
    this.#mlp.run(out, this.#normed, batch, caches);
    norms[3]!.run(out, out, n);
    device.map(y, this.#add, y, out, n);
    this.#altUp.correct(x, y, batch);
    this.#branch.run(out, this.#streams.of(x, this.#active), batch);
    for (let i = 0; i < this.#streams.others.length; i++) {
      const stream = this.#streams.others[i]!;
      device.map(stream, this.#add, stream, out, n);
    }
  }
}

/** The gate of the per-layer input, its columns times the scale of the corrected output: gate(scale * x). */
function scaledGate({ hiddenSize, perLayer }: Gemma3nConfig, loader: Loader, name: string): Linear {
  const scale = toFloat32(loader.host(`${name}.altup.correct_output_scale`, [hiddenSize]));
  const matrix = toFloat32(loader.host(`${name}.per_layer_input_gate.weight`, [perLayer.width, hiddenSize]));
  const values = matrix.map((value, i) => value * scale[i % hiddenSize]!);
  const bytes = (): Uint8Array => new Uint8Array(values.buffer);
  const tensor = madeTensor(`${name}.per_layer_input_gate`, "f32", [perLayer.width, hiddenSize], bytes);
  return new Linear(loader.device, loader.matrixOf([tensor], { quantize: "none" }), null);
}

function loadSparseMlp(config: Gemma3nConfig, loader: Loader, name: string, layer: number): Block {
  const shape = { ...config, innerSize: config.innerSizes[layer]! };
  const cutoff = config.cutoffs[layer]!;
  return Number.isFinite(cutoff)
    ? new SparseMlp(loader, name, shape, cutoff)
    : loadMlp(loader, name, shape, config.mlp, {});
}

/** out = down(act(relu(gate - mean - cutoff * deviation)) * up). */
class SparseMlp implements Block {
  readonly #device: Device;
  readonly #multiply: MapOp;
  readonly #relu: MapOp;
  readonly #scaleRows: MapOp;
  readonly #activate: MapOp;
  readonly #gateUp: Linear; // [2*inner, hidden]
  readonly #down: Linear; // [hidden, inner]
  readonly #mean: Linear; // [1, inner]
  readonly #ones: Tensor; // [1, inner]
  readonly #zeros: Tensor; // [1, inner]
  readonly #cutoff: Tensor; // [1, inner] minus the cutoff, in standard deviations
  readonly #both: Tensor; // [T, 2*inner]
  readonly #gate: Tensor; // [T, inner] view
  readonly #up: Tensor; // [T, inner] view
  readonly #inner: Tensor; // [T, inner]
  readonly #deviation: Tensor; // [T, 1]

  constructor(
    loader: Loader,
    name: string,
    { hiddenSize, innerSize, activation }: { hiddenSize: number; innerSize: number; activation: Activation },
    cutoff: number,
  ) {
    const { device } = loader;
    const row = (value: number): Tensor => device.loadTensor(new Float32Array(innerSize).fill(value), 1, innerSize);
    this.#device = device;
    this.#multiply = device.createMap({ kind: "gate", activation: "identity" });
    this.#relu = device.createMap({ kind: "activation", activation: "relu" });
    this.#scaleRows = device.createMap({ kind: "scale_rows" });
    this.#activate = device.createMap({ kind: "gate", activation });
    const parts = ["gate_proj", "up_proj"].map((part) => ({ name: `${name}.${part}`, rows: innerSize }));
    this.#gateUp = loadLinear(loader, parts, hiddenSize);
    this.#down = loadLinear(loader, [{ name: `${name}.down_proj`, rows: hiddenSize }], innerSize);
    this.#mean = loadMean(loader, innerSize);
    this.#ones = row(1);
    this.#zeros = row(0);
    this.#cutoff = row(-cutoff);
    this.#both = loader.scratch("gate and up", 2 * innerSize);
    this.#gate = this.#both.columns(0, innerSize);
    this.#up = this.#both.columns(innerSize, 2 * innerSize);
    this.#inner = loader.scratch("mlp", innerSize);
    this.#deviation = loader.scratch("deviation", 1);
  }

  run(out: Tensor, x: Tensor, batch: StagedBatch): void {
    const n = batch.numTokens;
    const device = this.#device;
    const inner = this.#inner;
    this.#gateUp.run(this.#both, x, batch);
    // The standard deviation of the gate, as the mean of gate * (gate - mean) / deviation.
    device.layerNorm(inner, this.#gate, this.#ones, this.#zeros, TINY, n);
    device.map(inner, this.#multiply, this.#gate, inner, n);
    this.#mean.run(this.#deviation, inner, batch);
    device.layerNorm(inner, this.#gate, this.#ones, this.#cutoff, TINY, n);
    device.map(inner, this.#relu, inner, null, n);
    device.map(inner, this.#scaleRows, inner, this.#deviation, n);
    device.map(inner, this.#activate, inner, this.#up, n);
    this.#down.run(out, inner, batch);
  }
}

const TINY = 1e-12;

/** The x below which a share p of a normal distribution lies. */
function normalQuantile(p: number): number {
  let low = -10;
  let high = 10;
  for (let i = 0; i < 80; i++) {
    const middle = (low + high) / 2;
    if (normalCdf(middle) < p) low = middle;
    else high = middle;
  }
  return low;
}

/** 1/2 + phi(x) (x + x^3/3 + x^5/15 + ...): all terms of one sign. */
function normalCdf(x: number): number {
  let term = x;
  let sum = x;
  for (let i = 1; Math.abs(term) > 1e-17 * Math.abs(sum); i++) {
    term *= (x * x) / (2 * i + 1);
    sum += term;
  }
  return 0.5 + (sum * Math.exp((-x * x) / 2)) / Math.sqrt(2 * Math.PI);
}
