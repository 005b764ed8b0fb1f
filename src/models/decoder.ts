// The pre-norm decoder:  x += attention(norm(x));  x += feedForward(norm(x)).  Most families are this forward with other parts;
// a family whose forward differs (Gemma, OLMo 2, GPT-2) writes its own.

import type { KvPool, StagedBatch, Tensor } from "../device/device.js";
import type { Attention } from "./blocks/attention.js";
import type { FeedForward } from "./blocks/gated-mlp.js";
import type { Rotaries } from "./blocks/rotaries.js";
import { Vocabulary } from "./blocks/vocabulary.js";
import type { CommonConfig } from "./common-config.js";
import { Loader } from "./loader.js";
import type { LoadContext, Model, ModelSpec } from "./model.js";

/** What fills the forward in. Attention and feed-forward add to their output; `name` is the prefix of a layer's tensors. */
export interface DecoderParts {
  readonly spec: ModelSpec;
  readonly embeddingScale: number;
  readonly logitsScale: number;
  rotaries(loader: Loader): Rotaries;
  attention(loader: Loader, name: string, layer: number, rotaries: Rotaries): Attention;
  feedForward(loader: Loader, name: string, layer: number): FeedForward;
}

interface DecoderLayer {
  readonly attentionNorm: Tensor; // [1, hidden]
  readonly attention: Attention;
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

  constructor(config: CommonConfig, parts: DecoderParts, context: LoadContext) {
    const loader = new Loader(context);
    const root = loader.decoderPrefix();
    const { hiddenSize } = config;
    this.#loader = loader;
    this.spec = parts.spec;
    this.#eps = config.eps;
    this.#vocabulary = new Vocabulary(loader, {
      ...config,
      embedding: `${root}embed_tokens.weight`,
      head: config.isTied ? null : loader.headName(),
      embeddingScale: parts.embeddingScale,
      logitsScale: parts.logitsScale,
    });
    this.hidden = loader.activations(hiddenSize);
    this.#x = loader.activations(hiddenSize);
    this.#rotaries = parts.rotaries(loader);
    this.#layers = Array.from({ length: config.numLayers }, (_, layer) => {
      const name = `${root}layers.${layer}`;
      return {
        attentionNorm: loader.vector(`${name}.input_layernorm.weight`, hiddenSize),
        attention: parts.attention(loader, `${name}.self_attn`, layer, this.#rotaries),
        mlpNorm: loader.vector(`${name}.post_attention_layernorm.weight`, hiddenSize),
        mlp: parts.feedForward(loader, name, layer),
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
