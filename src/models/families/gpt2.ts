// GPT-2. Other than Llama: learned positions instead of rotary ones, LayerNorm, biases everywhere, a feed-forward without a gate,
// and matrices stored as [inputs, outputs].

import { loadAttention, PLAIN_ATTENTION, SelfAttention } from "../blocks/attention.js";
import { ADD } from "../blocks/block.js";
import { loadMlp } from "../blocks/mlp.js";
import { loadNorm, type NormStyle } from "../blocks/norm.js";
import { Residual } from "../blocks/residual.js";
import { Vocabulary } from "../blocks/vocabulary.js";
import { layoutCaches } from "../cache-layout.js";
import { type CommonConfig, refuseQuantization, specOf } from "../common-config.js";
import { ConfigReader, MAX_LAYERS } from "../config-reader.js";
import { DecoderFrame } from "../decoder-frame.js";
import { Loader } from "../loader.js";
import type { LoadContext, Model, ModelFamily } from "../model.js";

interface Gpt2Config extends CommonConfig {
  readonly attentionScales: readonly number[]; // [L]
  /** Matrices are [inputs, outputs]; a GGUF file has them the other way round and says so. */
  readonly isTransposed: boolean;
}

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
    const scale = c.bool("scale_attn_weights", true) ? 1 / Math.sqrt(headDim) : 1;
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
  specOf: (config) => specOf(config, cachesOf(config), []),
  load,
};

function cachesOf({ numHeads, numKvHeads, headDim, attentionScales }: Gpt2Config) {
  return layoutCaches(
    attentionScales.map(() => ({ numHeads, numKvHeads, keyDim: headDim, valueDim: headDim, window: 0 })),
  );
}

function load(config: Gpt2Config, context: LoadContext): Model {
  const loader = new Loader(context);
  const root = loader.has("wte.weight") ? "" : "transformer."; // base models are saved without the prefix
  const { hiddenSize, isTransposed, numHeads } = config;
  const style: NormStyle = { kind: "layer", eps: config.eps, offset: 0, hasBias: true };
  const attention = { ...PLAIN_ATTENTION, qkvBias: true, outBias: true, qkv: ["c_attn"], out: "c_proj", isTransposed };
  const mlp = { gateUp: null, up: "c_fc", down: "c_proj", hasBias: true, isTransposed, innerNorm: null };
  const { places } = cachesOf(config);
  const vocabulary = new Vocabulary(loader, {
    ...config,
    embedding: `${root}wte.weight`,
    head: config.isTied ? null : "lm_head.weight",
  });
  const positions = loader.smallTable({ name: `${root}wpe.weight`, rows: config.maxContext, cols: hiddenSize });
  const layers = config.attentionScales.flatMap((scale, layer) => {
    const name = `${root}h.${layer}`;
    const weights = loadAttention(loader, `${name}.attn`, config, attention, style, ADD);
    const options = {
      place: places[layer]!,
      rotary: null,
      params: { numHeads, scale, softcap: 0, sinks: null },
      isNormedAfterRotary: false,
      queryScale: null,
      keyScale: 1,
    };
    const norm = (part: string) => loadNorm(loader, `${name}.${part}`, hiddenSize, style);
    const heads = new SelfAttention(loader, config, weights, options);
    return [
      new Residual(loader, hiddenSize, norm("ln_1"), heads, null),
      new Residual(loader, hiddenSize, norm("ln_2"), loadMlp(loader, `${name}.mlp`, config, mlp, ADD), null),
    ];
  });
  const finalNorm = loadNorm(loader, `${root}ln_f`, hiddenSize, style);
  const spec = gpt2.specOf(config);
  return new DecoderFrame(loader, { spec, vocabulary, positions, rotaries: null, layers, finalNorm });
}
