// Gemma 2 and 3. Other than Llama:
//   - each half of a layer is normed before and after:  x += postNorm(f(preNorm(x)));  norm weights are stored less one
//   - embeddings are scaled by sqrt(hidden), attention scores by query_pre_attn_scalar ** -0.5, the gate is gelu
//   - most layers see a sliding window: every other one (2), five of six (3)
//   - Gemma 2 caps attention scores and logits; Gemma 3 norms query and key heads, and its window layers have a rope of their own

import type { KvPool, StagedBatch, Tensor } from "../../device/device.js";
import type { RopeConfig } from "../../formats/rope-config.js";
import { AttentionSpace, loadAttention, SelfAttention } from "../blocks/attention.js";
import { type FeedForward, GatedMlp, MlpSpace } from "../blocks/gated-mlp.js";
import { Rotaries } from "../blocks/rotaries.js";
import { Vocabulary } from "../blocks/vocabulary.js";
import { type CommonConfig, readCommon, specOf } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import { layerWindows } from "../layer-windows.js";
import { Loader } from "../loader.js";
import type { LoadContext, Model, ModelFamily, ModelSpec } from "../model.js";
import { readHeadRope } from "../rope.js";

interface GemmaConfig extends CommonConfig {
  readonly windows: readonly number[]; // [L]
  readonly ropes: readonly RopeConfig[];
  readonly ropeOf: readonly number[]; // [L] index into ropes
  readonly attentionBias: boolean;
  readonly attentionScale: number;
  readonly attentionSoftcap: number;
  readonly finalSoftcap: number;
  readonly hasQkNorm: boolean;
}

export const gemma2: ModelFamily<GemmaConfig> = {
  architectures: ["Gemma2ForCausalLM"],
  parseConfig(raw, file) {
    const defaults = { attn_logit_softcapping: 50, final_logit_softcapping: 30 };
    const c = new ConfigReader({ ...GEMMA_DEFAULTS, ...defaults, ...raw }, file);
    const common = readGemma(c, "Gemma2ForCausalLM");
    return {
      ...common,
      windows: layerWindows(c, common, (layer) => layer % 2 === 0),
      ropes: [readHeadRope(c, common.headDim)],
      ropeOf: new Array<number>(common.numLayers).fill(0),
      hasQkNorm: false,
    };
  },
  specOf: (config) => specOf(config, config.windows),
  load: (config, context) => new Gemma(config, context),
};

export const gemma3: ModelFamily<GemmaConfig> = {
  architectures: ["Gemma3ForCausalLM"],
  parseConfig(raw, file) {
    const defaults = { ...GEMMA3_SIZES, rope_theta: 1e6, rope_local_base_freq: 1e4, sliding_window_pattern: 6 };
    const c = new ConfigReader({ ...GEMMA_DEFAULTS, ...defaults, ...raw }, file);
    const common = readGemma(c, "Gemma3ForCausalLM");
    const period = c.int("sliding_window_pattern");
    const isLocal = (layer: number): boolean => (layer + 1) % period !== 0;
    // A window that is too wide to matter still marks the layer as local, with the local rope.
    const marks = layerWindows(c, { ...common, maxContext: Number.POSITIVE_INFINITY }, isLocal);
    return {
      ...common,
      windows: layerWindows(c, common, isLocal),
      ropes: [readHeadRope(c, common.headDim, "full_attention"), readHeadRope(c, common.headDim, "sliding_attention")],
      ropeOf: marks.map((window) => (window > 0 ? 1 : 0)),
      hasQkNorm: true,
    };
  },
  specOf: (config) => specOf(config, config.windows),
  load: (config, context) => new Gemma(config, context),
};

/** The text_config of larger checkpoints leaves out what the smallest of them has alike. */
const GEMMA3_SIZES = {
  vocab_size: 262_208,
  num_attention_heads: 8,
  num_key_value_heads: 4,
  max_position_embeddings: 131_072,
};
const GEMMA_DEFAULTS = { hidden_activation: "gelu_pytorch_tanh", sliding_window: 4096 };

function readGemma(c: ConfigReader, architecture: string) {
  c.only("use_bidirectional_attention", false);
  const common = readCommon(c, architecture, { isTied: true, headDim: 256 });
  return {
    ...common,
    attentionBias: c.bool("attention_bias", false),
    attentionScale: c.number("query_pre_attn_scalar", 256) ** -0.5,
    attentionSoftcap: c.number("attn_logit_softcapping", 0),
    finalSoftcap: c.number("final_logit_softcapping", 0),
  };
}

interface GemmaLayer {
  readonly attentionNorm: Tensor; // [1, hidden], as all norms here
  readonly attention: SelfAttention;
  readonly postAttentionNorm: Tensor;
  readonly mlpNorm: Tensor;
  readonly mlp: FeedForward;
  readonly postMlpNorm: Tensor;
}

class Gemma implements Model {
  readonly spec: ModelSpec;
  readonly hidden: Tensor; // [T, hidden]
  readonly #loader: Loader;
  readonly #eps: number;
  readonly #vocabulary: Vocabulary;
  readonly #rotaries: Rotaries;
  readonly #layers: readonly GemmaLayer[];
  readonly #finalNorm: Tensor;
  readonly #x: Tensor; // [T, hidden] the residual stream
  readonly #branch: Tensor; // [T, hidden]

  constructor(config: GemmaConfig, context: LoadContext) {
    const loader = new Loader(context);
    const root = loader.decoderPrefix();
    const { hiddenSize, innerSize, eps, activation } = config;
    const norm = (name: string): Tensor => loader.vector(name, hiddenSize, 1);
    this.#loader = loader;
    this.spec = specOf(config, config.windows);
    this.#eps = eps;
    this.hidden = loader.activations(hiddenSize);
    this.#x = loader.activations(hiddenSize);
    this.#branch = loader.activations(hiddenSize);
    this.#vocabulary = new Vocabulary(loader, {
      ...config,
      embedding: `${root}embed_tokens.weight`,
      head: config.isTied ? null : loader.headName(),
      embeddingScale: Math.sqrt(hiddenSize),
      softcap: config.finalSoftcap,
    });
    this.#rotaries = new Rotaries(loader, config.ropes, config);

    const attentionSpace = new AttentionSpace(loader, config);
    const mlpSpace = new MlpSpace(loader, innerSize);
    this.#layers = config.windows.map((window, layer) => {
      const name = `${root}layers.${layer}`;
      const weights = loadAttention(loader, `${name}.self_attn`, config, {
        qkvBias: config.attentionBias,
        outBias: config.attentionBias,
        isFused: false,
        qkNorm: config.hasQkNorm ? "head" : "none",
        normOffset: 1,
      });
      return {
        attentionNorm: norm(`${name}.input_layernorm.weight`),
        attention: new SelfAttention(loader, attentionSpace, weights, {
          layer,
          planIndex: this.spec.windows.indexOf(window),
          rotary: this.#rotaries.tables[config.ropeOf[layer]!]!,
          eps,
          params: {
            numHeads: config.numHeads,
            scale: config.attentionScale,
            softcap: config.attentionSoftcap,
            sinks: null,
          },
          project: {},
        }),
        postAttentionNorm: norm(`${name}.post_attention_layernorm.weight`),
        mlpNorm: norm(`${name}.pre_feedforward_layernorm.weight`),
        mlp: new GatedMlp(loader, `${name}.mlp`, mlpSpace, {
          hiddenSize,
          innerSize,
          activation,
          hasBias: false,
          isFused: false,
          project: {},
        }),
        postMlpNorm: norm(`${name}.post_feedforward_layernorm.weight`),
      };
    });
    this.#finalNorm = norm(`${root}norm.weight`);
  }

  get logits(): Tensor {
    return this.#vocabulary.logits;
  }

  forward(batch: StagedBatch, pool: KvPool): void {
    const { device } = this.#loader;
    const n = batch.numTokens;
    const eps = this.#eps;
    const x = this.#x;
    const branch = this.#branch;
    const normed = this.hidden; // free until the final norm
    this.#vocabulary.embed(x, batch);
    this.#rotaries.fill(batch);
    for (let i = 0; i < this.#layers.length; i++) {
      const layer = this.#layers[i]!;
      device.rmsNorm(normed, x, layer.attentionNorm, eps, n);
      layer.attention.run(branch, normed, batch, pool);
      device.rmsNorm(branch, branch, layer.postAttentionNorm, eps, n);
      device.addRmsNorm(normed, x, branch, layer.mlpNorm, eps, n);
      layer.mlp.run(branch, normed, n);
      device.rmsNorm(branch, branch, layer.postMlpNorm, eps, n);
      device.add(x, x, branch, 1, n);
    }
    device.rmsNorm(this.hidden, x, this.#finalNorm, eps, n);
  }

  computeLogits(batch: StagedBatch, first: number, n: number): void {
    this.#vocabulary.computeLogits(this.hidden, batch, first, n);
  }
}
