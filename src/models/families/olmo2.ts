// OLMo 2. Other than Llama: norms come after attention and feed-forward, not before them, and q and k are normed over all heads at
// once:  x += norm(attention(x));  x += norm(mlp(x)).

import type { KvPool, StagedBatch, Tensor } from "../../device/device.js";
import type { RopeConfig } from "../../formats/rope-config.js";
import { AttentionSpace, loadAttention, SelfAttention } from "../blocks/attention.js";
import { type FeedForward, GatedMlp, MlpSpace } from "../blocks/gated-mlp.js";
import { Rotaries } from "../blocks/rotaries.js";
import { Vocabulary } from "../blocks/vocabulary.js";
import { type CommonConfig, readCommon, specOf } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import { Loader } from "../loader.js";
import type { LoadContext, Model, ModelFamily, ModelSpec } from "../model.js";
import { readHeadRope } from "../rope.js";

interface Olmo2Config extends CommonConfig {
  readonly rope: RopeConfig;
  readonly attentionBias: boolean;
}

const FULL_ATTENTION = [0];

export const olmo2: ModelFamily<Olmo2Config> = {
  architectures: ["Olmo2ForCausalLM"],
  parseConfig(raw, file) {
    const c = new ConfigReader(raw, file);
    const common = readCommon(c, "Olmo2ForCausalLM", { eps: 1e-5 });
    return {
      ...common,
      rope: readHeadRope(c, common.headDim),
      attentionBias: c.bool("attention_bias", false),
    };
  },
  specOf: (config) => specOf(config, FULL_ATTENTION),
  load: (config, context) => new Olmo2(config, context),
};

interface Olmo2Layer {
  readonly attention: SelfAttention;
  readonly postAttentionNorm: Tensor; // [1, hidden]
  readonly mlp: FeedForward;
  readonly postMlpNorm: Tensor; // [1, hidden]
}

class Olmo2 implements Model {
  readonly spec: ModelSpec;
  readonly hidden: Tensor; // [T, hidden]
  readonly #loader: Loader;
  readonly #eps: number;
  readonly #vocabulary: Vocabulary;
  readonly #rotaries: Rotaries;
  readonly #layers: readonly Olmo2Layer[];
  readonly #finalNorm: Tensor; // [1, hidden]
  readonly #x: Tensor; // [T, hidden] the residual stream

  constructor(config: Olmo2Config, context: LoadContext) {
    const loader = new Loader(context);
    const root = loader.decoderPrefix();
    const { hiddenSize, innerSize, eps, activation, attentionBias } = config;
    this.#loader = loader;
    this.spec = specOf(config, FULL_ATTENTION);
    this.#eps = eps;
    this.hidden = loader.activations(hiddenSize);
    this.#x = loader.activations(hiddenSize);
    this.#vocabulary = new Vocabulary(loader, {
      ...config,
      embedding: `${root}embed_tokens.weight`,
      head: config.isTied ? null : loader.headName(),
    });
    this.#rotaries = new Rotaries(loader, [config.rope], config);

    const attentionSpace = new AttentionSpace(loader, config);
    const mlpSpace = new MlpSpace(loader, innerSize);
    this.#layers = Array.from({ length: config.numLayers }, (_, layer) => {
      const name = `${root}layers.${layer}`;
      const weights = loadAttention(loader, `${name}.self_attn`, config, {
        qkvBias: attentionBias,
        outBias: attentionBias,
        isFused: false,
        qkNorm: "all",
        normOffset: 0,
      });
      return {
        attention: new SelfAttention(loader, attentionSpace, weights, {
          layer,
          planIndex: 0,
          rotary: this.#rotaries.tables[0]!,
          eps,
          params: { numHeads: config.numHeads, scale: config.headDim ** -0.5, softcap: 0, sinks: null },
          project: {},
        }),
        postAttentionNorm: loader.vector(`${name}.post_attention_layernorm.weight`, hiddenSize),
        mlp: new GatedMlp(loader, `${name}.mlp`, mlpSpace, {
          hiddenSize,
          innerSize,
          activation,
          hasBias: false,
          isFused: false,
          project: {},
        }),
        postMlpNorm: loader.vector(`${name}.post_feedforward_layernorm.weight`, hiddenSize),
      };
    });
    this.#finalNorm = loader.vector(`${root}norm.weight`, hiddenSize);
  }

  get logits(): Tensor {
    return this.#vocabulary.logits;
  }

  forward(batch: StagedBatch, pool: KvPool): void {
    const { device } = this.#loader;
    const n = batch.numTokens;
    const x = this.#x;
    const branch = this.hidden; // free until the final norm
    this.#vocabulary.embed(x, batch);
    this.#rotaries.fill(batch);
    for (let i = 0; i < this.#layers.length; i++) {
      const layer = this.#layers[i]!;
      layer.attention.run(branch, x, batch, pool);
      device.rmsNorm(branch, branch, layer.postAttentionNorm, this.#eps, n);
      device.add(x, x, branch, 1, n);
      layer.mlp.run(branch, x, n);
      device.rmsNorm(branch, branch, layer.postMlpNorm, this.#eps, n);
      device.add(x, x, branch, 1, n);
    }
    device.rmsNorm(this.hidden, x, this.#finalNorm, this.#eps, n);
  }

  computeLogits(batch: StagedBatch, first: number, n: number): void {
    this.#vocabulary.computeLogits(this.hidden, batch, first, n);
  }
}
