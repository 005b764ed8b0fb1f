// The pre-norm decoder: x += attention(norm(x)); x += feedForward(norm(x)). Llama is the plain case; Mistral, Qwen, Phi-3,
// SmolLM3, Granite, Mixtral and gpt-oss are the same forward with other settings, which their files state.

import type { KvPool, StagedBatch, Tensor } from "../device/device.js";
import type { RopeConfig } from "../formats/rope-config.js";
import { type AttentionNaming, AttentionSpace, loadAttention, SelfAttention } from "./blocks/attention.js";
import { type FeedForward, GatedMlp, MlpSpace } from "./blocks/gated-mlp.js";
import { Rotaries } from "./blocks/rotaries.js";
import { Vocabulary } from "./blocks/vocabulary.js";
import { type CommonConfig, specOf } from "./common-config.js";
import { Loader } from "./loader.js";
import type { LoadContext, Model, ModelSpec } from "./model.js";

export interface DecoderConfig extends CommonConfig {
  readonly windows: readonly number[]; // [L] 0 is full attention
  /** The rope of the layers that have one. */
  readonly rope: RopeConfig;
  readonly hasRope: readonly boolean[]; // [L]
  readonly attention: AttentionNaming;
  readonly attentionScale: number;
  /** One learned logit per head in the softmax (self_attn.sinks). */
  readonly hasSinks: boolean;
  readonly mlpBias: boolean;
  readonly isMlpFused: boolean;
  readonly embeddingScale: number;
  readonly residualScale: number;
  readonly logitsScale: number;
}

/** The settings of Llama; families override what differs. */
export function plainDecoder(common: CommonConfig, rope: RopeConfig): DecoderConfig {
  return {
    ...common,
    windows: new Array<number>(common.numLayers).fill(0),
    rope,
    hasRope: new Array<boolean>(common.numLayers).fill(true),
    attention: { qkvBias: false, outBias: false, isFused: false, qkNorm: "none", normOffset: 0 },
    attentionScale: common.headDim ** -0.5,
    hasSinks: false,
    mlpBias: false,
    isMlpFused: false,
    embeddingScale: 1,
    residualScale: 1,
    logitsScale: 1,
  };
}

/** Makes the feed-forward of each layer; `name` is the layer's prefix. It adds to its output. */
export type FeedForwardMaker = (loader: Loader, name: string, layer: number) => FeedForward;

interface DecoderLayer {
  readonly attentionNorm: Tensor; // [1, hidden]
  readonly attention: SelfAttention;
  readonly mlpNorm: Tensor; // [1, hidden]
  readonly mlp: FeedForward;
}

export class Decoder implements Model {
  readonly spec: ModelSpec;
  readonly hidden: Tensor; // [T, hidden]
  readonly #loader: Loader;
  readonly #eps: number;
  readonly #vocabulary: Vocabulary;
  readonly #rotaries: Rotaries;
  readonly #layers: readonly DecoderLayer[];
  readonly #finalNorm: Tensor; // [1, hidden]
  readonly #x: Tensor; // [T, hidden] the residual stream

  constructor(config: DecoderConfig, context: LoadContext, feedForward: FeedForwardMaker = denseMlp(config)) {
    const loader = new Loader(context);
    const root = loader.prefix("model.", "embed_tokens.weight");
    const { hiddenSize } = config;
    this.#loader = loader;
    this.spec = specOf(config, config.windows);
    this.#eps = config.eps;
    this.hidden = loader.activations(hiddenSize);
    this.#x = loader.activations(hiddenSize);
    this.#vocabulary = new Vocabulary(loader, {
      ...config,
      embedding: `${root}embed_tokens.weight`,
      head: config.isTied ? null : "lm_head.weight",
    });
    this.#rotaries = new Rotaries(loader, [config.rope], config);

    const space = new AttentionSpace(loader, config);
    this.#layers = config.windows.map((window, layer) => {
      const name = `${root}layers.${layer}`;
      const weights = loadAttention(loader, `${name}.self_attn`, config, config.attention);
      const attention = new SelfAttention(loader, space, weights, {
        layer,
        planIndex: this.spec.windows.indexOf(window),
        rotary: config.hasRope[layer] ? this.#rotaries.tables[0]! : null,
        eps: config.eps,
        params: {
          numHeads: config.numHeads,
          scale: config.attentionScale,
          softcap: 0,
          sinks: config.hasSinks ? loader.vector(`${name}.self_attn.sinks`, config.numHeads) : null,
        },
        project: { accumulate: true, scale: config.residualScale },
      });
      return {
        attentionNorm: loader.vector(`${name}.input_layernorm.weight`, hiddenSize),
        attention,
        mlpNorm: loader.vector(`${name}.post_attention_layernorm.weight`, hiddenSize),
        mlp: feedForward(loader, name, layer),
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
    const normed = this.hidden; // free until the final norm
    this.#vocabulary.embed(x, batch);
    this.#rotaries.fill(batch);
    for (let i = 0; i < this.#layers.length; i++) {
      const layer = this.#layers[i]!;
      device.rmsNorm(normed, x, layer.attentionNorm, this.#eps, n);
      layer.attention.run(x, normed, batch, pool);
      device.rmsNorm(normed, x, layer.mlpNorm, this.#eps, n);
      layer.mlp.run(x, normed, n);
    }
    device.rmsNorm(this.hidden, x, this.#finalNorm, this.#eps, n);
  }

  computeLogits(batch: StagedBatch, first: number, n: number): void {
    this.#vocabulary.computeLogits(this.hidden, batch, first, n);
  }
}

/** The feed-forward of dense families. */
export function denseMlp(config: DecoderConfig): FeedForwardMaker {
  let space: MlpSpace | null = null;
  return (loader, name) => {
    space ??= new MlpSpace(loader, config.innerSize);
    return new GatedMlp(loader, `${name}.mlp`, space, {
      hiddenSize: config.hiddenSize,
      innerSize: config.innerSize,
      activation: config.activation,
      hasBias: config.mlpBias,
      isFused: config.isMlpFused,
      project: { accumulate: true, scale: config.residualScale },
    });
  };
}
