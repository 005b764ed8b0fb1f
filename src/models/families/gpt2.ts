// GPT-2. Other than Llama: learned positions instead of rotary ones, LayerNorm, biases everywhere, a feed-forward without a gate,
// and matrices stored as [inputs, outputs].

import type { Activation, KvPool, MatmulOptions, StagedBatch, Tensor, Weight } from "../../device/device.js";
import { AttentionSpace, SelfAttention } from "../blocks/attention.js";
import type { FeedForward } from "../blocks/gated-mlp.js";
import { Vocabulary } from "../blocks/vocabulary.js";
import { type CommonConfig, refuseQuantization, specOf } from "../common-config.js";
import { ConfigReader, MAX_LAYERS } from "../config-reader.js";
import { Loader } from "../loader.js";
import type { LoadContext, Model, ModelFamily, ModelSpec } from "../model.js";

interface Gpt2Config extends CommonConfig {
  readonly attentionScales: readonly number[]; // [L]
  /** Matrices are [inputs, outputs]; a GGUF file has them the other way round and says so. */
  readonly isTransposed: boolean;
}

const FULL_ATTENTION = [0];
const ADD: MatmulOptions = { accumulate: true };

export const gpt2: ModelFamily<Gpt2Config> = {
  architectures: ["GPT2LMHeadModel"],
  parseConfig(raw, file) {
    const c = new ConfigReader(raw, file);
    refuseQuantization(c);
    c.only("add_cross_attention", false);
    const hiddenSize = c.int("n_embd", 768);
    const numHeads = c.int("n_head", 12);
    const numLayers = c.int("n_layer", 12, MAX_LAYERS);
    c.check(hiddenSize % numHeads === 0, "n_head", `a divisor of n_embd (${hiddenSize})`);
    const headDim = hiddenSize / numHeads;
    const scale = c.bool("scale_attn_weights", true) ? headDim ** -0.5 : 1;
    const isByLayer = c.bool("scale_attn_by_inverse_layer_idx", false);
    return {
      architecture: "GPT2LMHeadModel",
      hiddenSize,
      numLayers,
      numHeads,
      numKvHeads: numHeads,
      headDim,
      innerSize: c.int("n_inner", 4 * hiddenSize),
      vocabSize: c.int("vocab_size"),
      maxContext: c.int("n_positions", 1024),
      eps: c.number("layer_norm_epsilon", 1e-5),
      activation: c.activation("activation_function", "gelu_new"),
      isTied: c.bool("tie_word_embeddings", true),
      attentionScales: Array.from({ length: numLayers }, (_, layer) => (isByLayer ? scale / (layer + 1) : scale)),
      isTransposed: c.bool("conv1d_weights", true),
    };
  },
  specOf: (config) => specOf(config, FULL_ATTENTION),
  load: (config, context) => new Gpt2(config, context),
};

interface LayerNorm {
  readonly weight: Tensor; // [1, hidden]
  readonly bias: Tensor; // [1, hidden]
}

interface Gpt2Layer {
  readonly attentionNorm: LayerNorm;
  readonly attention: SelfAttention;
  readonly mlpNorm: LayerNorm;
  readonly mlp: FeedForward;
}

class Gpt2 implements Model {
  readonly spec: ModelSpec;
  readonly hidden: Tensor; // [T, hidden]
  readonly #loader: Loader;
  readonly #eps: number;
  readonly #vocabulary: Vocabulary;
  readonly #positions: Weight; // [maxContext, hidden]
  readonly #layers: readonly Gpt2Layer[];
  readonly #finalNorm: LayerNorm;
  readonly #x: Tensor; // [T, hidden] the residual stream

  constructor(config: Gpt2Config, context: LoadContext) {
    const loader = new Loader(context);
    const root = loader.has("wte.weight") ? "" : "transformer."; // base models are saved without the prefix
    const { hiddenSize, innerSize } = config;
    this.#loader = loader;
    this.spec = specOf(config, FULL_ATTENTION);
    this.#eps = config.eps;
    this.hidden = loader.activations(hiddenSize);
    this.#x = loader.activations(hiddenSize);
    this.#vocabulary = new Vocabulary(loader, {
      ...config,
      embedding: `${root}wte.weight`,
      head: config.isTied ? null : "lm_head.weight",
    });
    const positions = { name: `${root}wpe.weight`, rows: config.maxContext, cols: hiddenSize };
    this.#positions = loader.matrix([positions], { quantize: "none" });

    const norm = (name: string): LayerNorm => ({
      weight: loader.vector(`${name}.weight`, hiddenSize),
      bias: loader.vector(`${name}.bias`, hiddenSize),
    });
    const linear = (name: string, rows: number, cols: number) => ({
      weight: loader.matrix([{ name: `${name}.weight`, rows, cols }], { transposed: config.isTransposed }),
      bias: loader.vector(`${name}.bias`, rows),
    });
    const attentionSpace = new AttentionSpace(loader, config);
    const inner = loader.activations(innerSize);
    this.#layers = Array.from({ length: config.numLayers }, (_, layer) => {
      const name = `${root}h.${layer}`;
      const qkv = linear(`${name}.attn.c_attn`, 3 * hiddenSize, hiddenSize);
      const out = linear(`${name}.attn.c_proj`, hiddenSize, hiddenSize);
      const weights = {
        qkv: qkv.weight,
        qkvBias: qkv.bias,
        out: out.weight,
        outBias: out.bias,
        qNorm: null,
        kNorm: null,
      };
      return {
        attentionNorm: norm(`${name}.ln_1`),
        attention: new SelfAttention(loader, attentionSpace, weights, {
          layer,
          planIndex: 0,
          rotary: null,
          eps: config.eps,
          params: {
            numHeads: config.numHeads,
            scale: config.attentionScales[layer]!,
            softcap: 0,
            sinks: null,
          },
          project: ADD,
        }),
        mlpNorm: norm(`${name}.ln_2`),
        mlp: new PlainMlp(
          loader,
          inner,
          config.activation,
          linear(`${name}.mlp.c_fc`, innerSize, hiddenSize),
          linear(`${name}.mlp.c_proj`, hiddenSize, innerSize),
        ),
      };
    });
    this.#finalNorm = norm(`${root}ln_f`);
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
    device.addPositions(x, this.#positions, batch);
    for (let i = 0; i < this.#layers.length; i++) {
      const { attentionNorm, attention, mlpNorm, mlp } = this.#layers[i]!;
      device.layerNorm(normed, x, attentionNorm.weight, attentionNorm.bias, this.#eps, n);
      attention.run(x, normed, batch, pool);
      device.layerNorm(normed, x, mlpNorm.weight, mlpNorm.bias, this.#eps, n);
      mlp.run(x, normed, n);
    }
    device.layerNorm(this.hidden, x, this.#finalNorm.weight, this.#finalNorm.bias, this.#eps, n);
  }

  computeLogits(batch: StagedBatch, first: number, n: number): void {
    this.#vocabulary.computeLogits(this.hidden, batch, first, n);
  }
}

interface Linear {
  readonly weight: Weight;
  readonly bias: Tensor;
}

/** out += down(act(up(x))). */
class PlainMlp implements FeedForward {
  readonly #loader: Loader;
  readonly #inner: Tensor; // [T, inner]
  readonly #activation: Activation;
  readonly #up: Linear;
  readonly #down: Linear;
  readonly #upOptions: MatmulOptions;
  readonly #downOptions: MatmulOptions;

  constructor(loader: Loader, inner: Tensor, activation: Activation, up: Linear, down: Linear) {
    this.#loader = loader;
    this.#inner = inner;
    this.#activation = activation;
    this.#up = up;
    this.#down = down;
    this.#upOptions = { bias: up.bias };
    this.#downOptions = { ...ADD, bias: down.bias };
  }

  run(out: Tensor, x: Tensor, n: number): void {
    const { device } = this.#loader;
    device.matmul(this.#inner, x, this.#up.weight, n, this.#upOptions);
    device.activation(this.#inner, this.#inner, this.#activation, n);
    device.matmul(out, this.#inner, this.#down.weight, n, this.#downOptions);
  }
}
