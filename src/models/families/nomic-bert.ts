// NomicBERT (nomic-embed-text): BERT with rotary positions instead of learned ones, a gated feed-forward and no biases but those of its
// norms. Texts end where the model was trained to (max_trained_positions); its rescaling of the rope beyond is not done.

import type { RopeConfig } from "../../formats/rope-config.js";
import { loadAttention, PLAIN_ATTENTION, SelfAttention } from "../blocks/attention.js";
import { ADD } from "../blocks/block.js";
import { loadMlp } from "../blocks/mlp.js";
import { layerNormStyle, loadNorm } from "../blocks/norm.js";
import { PostNorm } from "../blocks/residual.js";
import { Rotaries } from "../blocks/rotaries.js";
import { type CacheLayout, layoutBidirectional } from "../cache-layout.js";
import { type CommonConfig, refuseQuantization } from "../common-config.js";
import { ConfigReader, MAX_LAYERS } from "../config-reader.js";
import { encoderSpec } from "../encoder-config.js";
import { EncoderFrame } from "../encoder-frame.js";
import { Loader } from "../loader.js";
import type { LoadContext, Model, ModelFamily, ModelSpec } from "../model.js";
import { readHeadRope } from "../rope.js";

interface NomicBertConfig extends CommonConfig {
  readonly rope: RopeConfig;
  readonly numTypes: number; // 0: the model has none
  readonly numLabels: 0;
}

/** Options of the original that are honoured at one value. */
const ONLY: readonly (readonly [string, ...(string | number | boolean)[]])[] = [
  ["activation_function", "swiglu"],
  ["causal", false],
  ["prenorm", false],
  ["parallel_block", false],
  ["use_rms_norm", false],
  ["qkv_proj_bias", false],
  ["mlp_fc1_bias", false],
  ["mlp_fc2_bias", false],
  ["rotary_emb_fraction", 1],
  ["rotary_emb_interleaved", false],
  ["scale_attn_weights", true],
  ["moe_every_n_layers", 0],
];

export const nomicBert: ModelFamily<NomicBertConfig> = {
  architectures: ["NomicBertModel"],
  parseConfig(raw, file) {
    const c = new ConfigReader(raw, file);
    refuseQuantization(c);
    for (const [name, ...values] of ONLY) c.only(name, ...values);
    const hiddenSize = c.int("n_embd");
    const numHeads = c.int("n_head");
    c.check(hiddenSize % (2 * numHeads) === 0, "n_head", `one that makes even heads of n_embd (${hiddenSize})`);
    const headDim = hiddenSize / numHeads;
    const rope = new ConfigReader({ rope_theta: c.number("rotary_emb_base", 10_000) }, file);
    return {
      architecture: "NomicBertModel",
      hiddenSize,
      numLayers: c.int("n_layer", undefined, MAX_LAYERS),
      numHeads,
      numKvHeads: numHeads,
      headDim,
      innerSize: c.int("n_inner"),
      vocabSize: c.int("vocab_size"),
      maxContext: Math.min(c.int("n_positions"), c.int("max_trained_positions", 2048)),
      eps: c.number("layer_norm_epsilon", 1e-12),
      activation: "silu",
      isTied: true,
      rope: readHeadRope(rope, headDim),
      numTypes: c.count("type_vocab_size", 2),
      numLabels: 0,
    };
  },
  specOf: nomicSpec,
  load,
  // The head of a masked language model.
  ignoredTensors: () => [/^cls\./, /^pooler\./],
};

function cachesOf({ numLayers, numHeads, headDim }: NomicBertConfig): CacheLayout {
  const need = { numHeads, numKvHeads: numHeads, keyDim: headDim, valueDim: headDim, window: 0 };
  return layoutBidirectional(new Array(numLayers).fill(need));
}

function nomicSpec(config: NomicBertConfig): ModelSpec {
  return encoderSpec(config, cachesOf(config), [config.rope]);
}

function load(config: NomicBertConfig, context: LoadContext): Model {
  const loader = new Loader(context);
  const { hiddenSize, numHeads, headDim, numTypes } = config;
  const root = loader.has("embeddings.word_embeddings.weight") ? "" : "bert.";
  const style = layerNormStyle(config.eps);
  const rotaries = new Rotaries(loader, [config.rope], { headDim, maxContext: config.maxContext });
  const attention = { ...PLAIN_ATTENTION, qkv: ["Wqkv"], out: "out_proj" };
  const mlp = {
    gateUp: ["fc12", "fc11"],
    up: "fc11",
    down: "fc2",
    hasBias: false,
    isTransposed: false,
    innerNorm: null,
  };
  const layers = cachesOf(config).places.flatMap((place, layer) => {
    const name = `${root}encoder.layers.${layer}`;
    const weights = loadAttention(loader, `${name}.attn`, config, attention, style, ADD);
    const heads = new SelfAttention(loader, config, weights, {
      place: place!,
      rotary: rotaries.tables[0]!,
      params: { numHeads, scale: 1 / Math.sqrt(headDim), softcap: 0, sinks: null },
      isNormedAfterRotary: false,
      queryScale: null,
      keyScale: 1,
    });
    const norm = (part: string) => loadNorm(loader, `${name}.${part}`, hiddenSize, style);
    return [
      new PostNorm(heads, norm("norm1")),
      new PostNorm(loadMlp(loader, `${name}.mlp`, config, mlp, ADD), norm("norm2")),
    ];
  });
  const types = { name: `${root}embeddings.token_type_embeddings.weight`, rows: numTypes, cols: hiddenSize };
  return new EncoderFrame(loader, {
    spec: nomicSpec(config),
    words: loader.table(`${root}embeddings.word_embeddings.weight`, config.vocabSize, hiddenSize),
    types: numTypes === 0 ? null : loader.smallTable(types),
    positions: null,
    embeddingNorm: loadNorm(loader, `${root}emb_ln`, hiddenSize, style),
    rotaries,
    layers,
    finalNorm: null,
    scorer: null,
  });
}
