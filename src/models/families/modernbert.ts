// ModernBERT: a pre-norm encoder with rotary positions and gated feed-forwards. Every third layer or so sees the whole text; the others
// see a window to either side, with a rope of their own. The first layer's attention reads the normed embeddings as they are.

import type { Activation } from "../../core/activation.js";
import type { RopeConfig } from "../../formats/rope-config.js";
import { loadAttention, PLAIN_ATTENTION, SelfAttention } from "../blocks/attention.js";
import { ADD } from "../blocks/block.js";
import { type HostLayer, hostActivation, hostLayerNorm, inOrder } from "../blocks/host-layers.js";
import { loadMlp } from "../blocks/mlp.js";
import { loadNorm, type NormStyle } from "../blocks/norm.js";
import { Residual } from "../blocks/residual.js";
import { Rotaries } from "../blocks/rotaries.js";
import { type CacheLayout, layoutBidirectional } from "../cache-layout.js";
import { type CommonConfig, refuseQuantization } from "../common-config.js";
import { ConfigReader, MAX_LAYERS } from "../config-reader.js";
import { encoderArchitectures, encoderSpec, readLabels } from "../encoder-config.js";
import { EncoderFrame } from "../encoder-frame.js";
import { readLayerTypes } from "../layer-windows.js";
import { Loader } from "../loader.js";
import type { LoadContext, Model, ModelFamily, ModelSpec } from "../model.js";
import { readHeadRope } from "../rope.js";

interface ModernBertConfig extends CommonConfig {
  readonly windows: readonly number[]; // [L] 0 is full attention
  readonly ropes: readonly RopeConfig[]; // of full layers, of layers with a window
  readonly ropeOf: readonly number[]; // [L]
  readonly norm: NormStyle;
  readonly attentionBias: boolean;
  readonly mlpBias: boolean;
  readonly numLabels: number; // 0: not a classifier
  readonly classifier: {
    readonly pooling: "first" | "mean";
    readonly activation: Activation;
    readonly hasBias: boolean;
  };
}

const DEFAULTS = {
  vocab_size: 50368,
  hidden_size: 768,
  intermediate_size: 1152,
  num_hidden_layers: 22,
  num_attention_heads: 12,
  max_position_embeddings: 8192,
  local_attention: 128,
  global_attn_every_n_layers: 3,
  hidden_activation: "gelu",
  classifier_activation: "gelu",
  classifier_pooling: "cls",
};

const THETAS = {
  full_attention: ["global_rope_theta", 160_000],
  sliding_attention: ["local_rope_theta", 10_000],
} as const;

export const modernbert: ModelFamily<ModernBertConfig> = {
  architectures: encoderArchitectures("ModernBert"),
  parseConfig(raw, file) {
    const c = new ConfigReader({ ...DEFAULTS, ...raw }, file);
    refuseQuantization(c);
    c.only("classifier_pooling", "cls", "mean");
    const hiddenSize = c.int("hidden_size");
    const numHeads = c.int("num_attention_heads");
    c.check(hiddenSize % numHeads === 0, "num_attention_heads", `a divisor of hidden_size (${hiddenSize})`);
    const headDim = hiddenSize / numHeads;
    const numLayers = c.int("num_hidden_layers", undefined, MAX_LAYERS);
    const period = c.int("global_attn_every_n_layers");
    const types = readLayerTypes(c, numLayers, ["full_attention", "sliding_attention"], (layer) =>
      layer % period === 0 ? "full_attention" : "sliding_attention",
    );
    const maxContext = c.int("max_position_embeddings");
    const window = Math.floor(c.int("local_attention") / 2) + 1; // to one side, the token itself included
    const isLocal = (type: string): boolean => type === "sliding_attention";
    return {
      architecture: "ModernBertModel",
      hiddenSize,
      numLayers,
      numHeads,
      numKvHeads: numHeads,
      headDim,
      innerSize: c.int("intermediate_size"),
      vocabSize: c.int("vocab_size"),
      maxContext,
      eps: c.number("norm_eps", 1e-5),
      activation: c.activation("hidden_activation"),
      isTied: true,
      windows: types.map((type) => (isLocal(type) && window < maxContext ? window : 0)),
      ropes: [ropeOf(c, headDim, "full_attention"), ropeOf(c, headDim, "sliding_attention")],
      ropeOf: types.map((type) => (isLocal(type) ? 1 : 0)),
      norm: { kind: "layer", eps: c.number("norm_eps", 1e-5), offset: 0, hasBias: c.bool("norm_bias", false) },
      attentionBias: c.bool("attention_bias", false),
      mlpBias: c.bool("mlp_bias", false),
      numLabels: readLabels(c, "ModernBert"),
      classifier: {
        pooling: c.raw.classifier_pooling === "mean" ? "mean" : "first",
        activation: c.activation("classifier_activation"),
        hasBias: c.bool("classifier_bias", false),
      },
    };
  },
  specOf: modernBertSpec,
  load,
  // The head of a masked language model.
  ignoredTensors: ({ numLabels }) => (numLabels > 0 ? [] : [/^head\./, /^decoder\./]),
};

/** Older configs have a theta for each kind of layer. */
function ropeOf(c: ConfigReader, headDim: number, type: keyof typeof THETAS): RopeConfig {
  if (c.has("rope_parameters")) return readHeadRope(c, headDim, type);
  const [field, theta] = THETAS[type];
  const full = c.number("global_rope_theta", THETAS.full_attention[1]);
  const rope_theta = type === "full_attention" ? full : c.raw[field] === null ? full : c.number(field, theta);
  return readHeadRope(new ConfigReader({ ...c.raw, rope_theta }, c.file), headDim);
}

function cachesOf({ windows, numHeads, headDim }: ModernBertConfig): CacheLayout {
  const need = { numHeads, numKvHeads: numHeads, keyDim: headDim, valueDim: headDim };
  return layoutBidirectional(windows.map((window) => ({ ...need, window })));
}

function modernBertSpec(config: ModernBertConfig): ModelSpec {
  return encoderSpec(config, cachesOf(config), config.ropes, config.classifier.pooling);
}

function load(config: ModernBertConfig, context: LoadContext): Model {
  const loader = new Loader(context);
  const { hiddenSize, vocabSize, norm: style, numHeads, headDim } = config;
  const root = loader.has("embeddings.tok_embeddings.weight") ? "" : "model.";
  const rotaries = new Rotaries(loader, config.ropes, { headDim, maxContext: config.maxContext });
  const attention = {
    ...PLAIN_ATTENTION,
    qkvBias: config.attentionBias,
    outBias: config.attentionBias,
    qkv: ["Wqkv"],
    out: "Wo",
  };
  const mlp = { gateUp: ["Wi"], up: "Wi", down: "Wo", hasBias: config.mlpBias, isTransposed: false, innerNorm: null };
  const layers = cachesOf(config).places.flatMap((place, layer) => {
    const name = `${root}layers.${layer}`;
    const weights = loadAttention(loader, `${name}.attn`, config, attention, style, ADD);
    const heads = new SelfAttention(loader, config, weights, {
      place: place!,
      rotary: rotaries.tables[config.ropeOf[layer]!]!,
      params: { numHeads, scale: 1 / Math.sqrt(headDim), softcap: 0, sinks: null },
      isNormedAfterRotary: false,
      queryScale: null,
      keyScale: 1,
    });
    const attentionNorm = layer === 0 ? null : loadNorm(loader, `${name}.attn_norm`, hiddenSize, style);
    const mlpNorm = loadNorm(loader, `${name}.mlp_norm`, hiddenSize, style);
    return [
      new Residual(loader, hiddenSize, attentionNorm, heads, null),
      new Residual(loader, hiddenSize, mlpNorm, loadMlp(loader, `${name}.mlp`, config, mlp, ADD), null),
    ];
  });
  return new EncoderFrame(loader, {
    spec: modernBertSpec(config),
    words: loader.table(`${root}embeddings.tok_embeddings.weight`, vocabSize, hiddenSize),
    types: null,
    positions: null,
    embeddingNorm: loadNorm(loader, `${root}embeddings.norm`, hiddenSize, style),
    rotaries,
    layers,
    finalNorm: loadNorm(loader, `${root}final_norm`, hiddenSize, style),
    scorer: config.numLabels === 0 ? null : loadScorer(loader, config),
  });
}

function loadScorer(loader: Loader, { classifier, norm, hiddenSize, numLabels }: ModernBertConfig): HostLayer {
  const normBias = norm.hasBias ? loader.hostValues("head.norm.bias", [hiddenSize]) : null;
  const layers = [
    loader.hostLinear("head.dense", hiddenSize, hiddenSize, classifier.hasBias),
    hostActivation(classifier.activation),
    hostLayerNorm(loader.hostValues("head.norm.weight", [hiddenSize]), normBias, norm.eps),
    loader.hostLinear("classifier", numLabels, hiddenSize),
  ];
  return inOrder(layers);
}
