// Models that embed and score: BERT and its kin, ModernBERT, EmbeddingGemma. Files of the first have positions from 0 on, whatever the
// model's own table began with, and no pooler: a cross-encoder whose head needs one is refused for want of it.

import type { TensorSource } from "../../../core/tensor.js";
import { type GgufArchitectures, type Naming, POST_NORMS, STANDARD, standard } from "../gguf-architecture.js";
import type { GgufKeys } from "../gguf-keys.js";
import { type Config, layers, layerTypes, localRope, MAX_COUNT, vocabulary } from "../gguf-parts.js";
import { gemma } from "./gemma.js";

function encoder(keys: GgufKeys, source: TensorSource): Config {
  return {
    hidden_size: keys.size("embedding_length"),
    num_hidden_layers: keys.size("block_count", MAX_COUNT),
    num_attention_heads: keys.size("attention.head_count"),
    intermediate_size: keys.size("feed_forward_length"),
    max_position_embeddings: keys.size("context_length"),
    ...vocabulary(keys, source),
  };
}

/** The head for labels, where the file has one: its number of outputs; 0: it has none. */
function numLabels(source: TensorSource): number {
  return source.has("cls.output.weight") ? source.get("cls.output.weight").shape[0]! : 0;
}

function bert(keys: GgufKeys, source: TensorSource): Config {
  // A dense layer before the outputs is RoBERTa's; BERT's own is the pooler, which files do not have.
  const base = source.has("cls.weight") ? "XLMRoberta" : "Bert";
  const labels = numLabels(source);
  return {
    ...encoder(keys, source),
    architectures: [`${base}${labels > 0 ? "ForSequenceClassification" : "Model"}`],
    num_labels: labels,
    hidden_act: "gelu",
    layer_norm_eps: keys.number("attention.layer_norm_epsilon") ?? 1e-12,
    type_vocab_size: source.has("token_types.weight") ? source.get("token_types.weight").shape[0] : 0,
    first_position: 0,
  };
}

function modernBert(keys: GgufKeys, source: TensorSource): Config {
  const labels = numLabels(source);
  const window = keys.number("attention.sliding_window") ?? 0;
  const period = keys.number("attention.sliding_window_pattern") ?? 3;
  keys.value("rope.dimension_count");
  keys.value("rope.scaling.type");
  keys.value("attention.head_count_kv");
  return {
    ...encoder(keys, source),
    architectures: [`ModernBert${labels > 0 ? "ForSequenceClassification" : "Model"}`],
    num_labels: labels,
    hidden_activation: keys.text("hidden_activation") ?? "gelu",
    norm_eps: keys.number("attention.layer_norm_epsilon") ?? 1e-5,
    local_attention: window || 2 ** 20,
    layer_types: layers(keys, (layer) => (window > 0 && layer % period !== 0 ? "sliding_attention" : "full_attention")),
    global_rope_theta: keys.number("rope.freq_base") ?? 160_000,
    local_rope_theta: keys.number("rope.freq_base_swa") ?? 10_000,
  };
}

function gemmaEmbedding(keys: GgufKeys, source: TensorSource): Config {
  const config = gemma(keys, source);
  for (const key of ["dense_2_feat_in", "dense_2_feat_out", "dense_3_feat_in", "dense_3_feat_out"]) keys.value(key); // in the tensors
  return {
    ...config,
    architectures: ["Gemma3TextModel"],
    use_bidirectional_attention: true,
    query_pre_attn_scalar: config.head_dim,
    layer_types: layerTypes(keys, 6),
    sliding_window: keys.size("attention.sliding_window"),
    rope_parameters: localRope(keys, config, 10_000),
  };
}

function nomicBert(keys: GgufKeys, source: TensorSource): Config {
  const { hidden_size, num_hidden_layers, num_attention_heads, intermediate_size, max_position_embeddings, ...rest } =
    encoder(keys, source);
  keys.value("rope.dimension_count");
  keys.value("attention.head_count_kv");
  return {
    ...rest,
    architectures: ["NomicBertModel"],
    n_embd: hidden_size,
    n_layer: num_hidden_layers,
    n_head: num_attention_heads,
    n_inner: intermediate_size,
    n_positions: max_position_embeddings,
    max_trained_positions: max_position_embeddings,
    rotary_emb_base: keys.number("rope.freq_base") ?? 10_000,
    layer_norm_epsilon: keys.number("attention.layer_norm_epsilon") ?? 1e-12,
    type_vocab_size: source.has("token_types.weight") ? source.get("token_types.weight").shape[0] : 0,
  };
}

const BERT: Naming = {
  ...STANDARD,
  model: {
    token_embd: "embeddings.word_embeddings",
    token_types: "embeddings.token_type_embeddings",
    position_embd: "embeddings.position_embeddings",
    token_embd_norm: "embeddings.LayerNorm",
    cls: "classifier.dense",
    "cls.output": "classifier.out_proj",
  },
  layerPrefix: "encoder.layer",
  layer: {
    attn_q: "attention.self.query",
    attn_k: "attention.self.key",
    attn_v: "attention.self.value",
    attn_output: "attention.output.dense",
    attn_output_norm: "attention.output.LayerNorm",
    ffn_up: "intermediate.dense",
    ffn_down: "output.dense",
    layer_output_norm: "output.LayerNorm",
  },
};

const MODERN_BERT: Naming = {
  ...STANDARD,
  model: {
    token_embd: "embeddings.tok_embeddings",
    token_embd_norm: "embeddings.norm",
    output_norm: "final_norm",
    cls: "head.dense",
    "cls.norm": "head.norm",
    "cls.output": "classifier",
  },
  layerPrefix: "layers",
  layer: {
    attn_norm: "attn_norm",
    attn_qkv: "attn.Wqkv",
    attn_output: "attn.Wo",
    ffn_norm: "mlp_norm",
    ffn_up: "mlp.Wi",
    ffn_down: "mlp.Wo",
  },
};

export const ENCODERS: GgufArchitectures = {
  bert: { config: bert, naming: BERT },
  "nomic-bert": {
    config: nomicBert,
    naming: {
      ...BERT,
      model: { ...BERT.model, token_embd_norm: "emb_ln" },
      layerPrefix: "encoder.layers",
      layer: {
        attn_qkv: "attn.Wqkv",
        attn_output: "attn.out_proj",
        attn_output_norm: "norm1",
        ffn_gate: "mlp.fc12",
        ffn_up: "mlp.fc11",
        ffn_down: "mlp.fc2",
        layer_output_norm: "norm2",
      },
    },
  },
  "modern-bert": { config: modernBert, naming: MODERN_BERT },
  "gemma-embedding": {
    config: gemmaEmbedding,
    naming: standard(POST_NORMS, {
      normsPlusOne: true,
      model: { ...STANDARD.model, dense_2: "dense_2", dense_3: "dense_3" },
    }),
  },
};
