// Decoders with LayerNorm.

import type { TensorSource } from "../../../core/tensor.js";
import { entryOf, permuteRows } from "../../tensor-views.js";
import { type GgufArchitectures, type Restore, STANDARD, splitQkv, standard } from "../gguf-architecture.js";
import type { GgufKeys } from "../gguf-keys.js";
import { type Config, decoder, layerTypes, MAX_COUNT, vocabulary } from "../gguf-parts.js";

/** `epsField` is what the family calls the norms' epsilon. */
function layerNormDecoder(keys: GgufKeys, source: TensorSource, epsField: string): Config {
  return { ...decoder(keys, source), [epsField]: keys.number("attention.layer_norm_epsilon") ?? 1e-5 };
}

function cohere(keys: GgufKeys, source: TensorSource): Config {
  const scale = keys.number("logit_scale");
  return { ...layerNormDecoder(keys, source, "layer_norm_eps"), ...(scale === null ? {} : { logit_scale: scale }) };
}

/** Rows [q, k, v of all heads] -> [q, k, v] of each head. */
const byHead: Restore = (tensor, name, config) => {
  const heads = config.num_attention_heads as number;
  const rows = tensor.shape[0]!;
  const headDim = rows / 3 / heads;
  return [
    permuteRows(tensor, name, (row) => {
      const part = Math.floor(row / headDim) % 3;
      const head = Math.floor(row / (3 * headDim));
      return (part * heads + head) * headDim + (row % headDim);
    }),
  ];
};

/** [heads, head] -> a norm of each head's own. */
const splitNorms: Restore = (tensor, name) =>
  Array.from({ length: tensor.shape[0]! }, (_, head) =>
    entryOf(tensor, name.replace("layernorm", `layernorm.norms.${head}`), head),
  );

export const LAYER_NORM: GgufArchitectures = {
  gpt2: {
    config: (keys, source) => ({
      architectures: ["GPT2LMHeadModel"],
      activation_function: "gelu_new",
      n_embd: keys.size("embedding_length"),
      n_head: keys.size("attention.head_count"),
      n_layer: keys.size("block_count", MAX_COUNT),
      n_positions: keys.size("context_length"),
      n_inner: keys.size("feed_forward_length"),
      layer_norm_epsilon: keys.number("attention.layer_norm_epsilon") ?? 1e-5,
      ...vocabulary(keys, source),
      // Hugging Face keeps gpt2's matrices as [inputs, outputs]; a GGUF file has them as [outputs, inputs] like all others.
      conv1d_weights: false,
    }),
    naming: {
      ...STANDARD,
      model: {
        token_embd: "transformer.wte",
        position_embd: "transformer.wpe",
        output_norm: "transformer.ln_f",
        output: "lm_head",
      },
      layerPrefix: "transformer.h",
      layer: {
        attn_norm: "ln_1",
        attn_qkv: "attn.c_attn",
        attn_output: "attn.c_proj",
        ffn_norm: "ln_2",
        ffn_up: "mlp.c_fc",
        ffn_down: "mlp.c_proj",
      },
    },
  },
  gptneox: {
    config: (keys, source) => ({
      ...layerNormDecoder(keys, source, "layer_norm_eps"),
      architectures: ["GPTNeoXForCausalLM"],
      hidden_act: "gelu",
      attention_bias: source.has("blk.0.attn_qkv.bias"),
      use_parallel_residual: keys.value("use_parallel_residual") !== false,
    }),
    naming: {
      ...STANDARD,
      model: { token_embd: "gpt_neox.embed_in", output_norm: "gpt_neox.final_layer_norm", output: "embed_out" },
      layerPrefix: "gpt_neox.layers",
      layer: {
        attn_norm: "input_layernorm",
        attn_qkv: "attention.query_key_value",
        attn_output: "attention.dense",
        ffn_norm: "post_attention_layernorm",
        ffn_up: "mlp.dense_h_to_4h",
        ffn_down: "mlp.dense_4h_to_h",
      },
      restore: { attn_qkv: byHead },
    },
  },
  phi2: {
    config: (keys, source) => ({
      ...layerNormDecoder(keys, source, "layer_norm_eps"),
      architectures: ["PhiForCausalLM"],
      hidden_act: "gelu_new",
    }),
    naming: standard(
      { attn_output: "self_attn.dense", ffn_up: "mlp.fc1", ffn_down: "mlp.fc2" },
      {
        model: { ...STANDARD.model, output_norm: "model.final_layernorm" },
        restore: { attn_qkv: splitQkv }, // in older files
      },
    ),
  },
  // No key says so, and llama.cpp has none: all released models see a window of 4096.
  starcoder2: {
    config: (keys, source) => ({
      ...layerNormDecoder(keys, source, "norm_epsilon"),
      architectures: ["Starcoder2ForCausalLM"],
      hidden_act: "gelu_pytorch_tanh",
      use_bias: source.has("blk.0.attn_q.bias"),
      sliding_window: (keys.number("attention.sliding_window") ?? 4096) || null,
    }),
    naming: standard({ ffn_up: "mlp.c_fc", ffn_down: "mlp.c_proj" }),
  },
  stablelm: {
    config: (keys, source) => ({
      ...layerNormDecoder(keys, source, "layer_norm_eps"),
      architectures: ["StableLmForCausalLM"],
      use_qkv_bias: source.has("blk.0.attn_q.bias"),
      qk_layernorm: source.has("blk.0.attn_q_norm.weight"),
      use_parallel_residual: !source.has("blk.0.ffn_norm.weight"),
    }),
    naming: standard(
      { attn_q_norm: "self_attn.q_layernorm", attn_k_norm: "self_attn.k_layernorm" },
      { restore: { attn_q_norm: splitNorms, attn_k_norm: splitNorms } },
    ),
  },
  nemotron: {
    config: (keys, source) => ({
      ...layerNormDecoder(keys, source, "norm_eps"),
      architectures: ["NemotronForCausalLM"],
      hidden_act: "relu2",
      mlp_bias: source.has("blk.0.ffn_up.bias"),
    }),
    naming: { ...STANDARD, normsPlusOne: true },
  },
  "command-r": {
    config: (keys, source) => ({
      ...cohere(keys, source),
      architectures: ["CohereForCausalLM"],
      use_qk_norm: source.has("blk.0.attn_q_norm.weight"),
    }),
    naming: STANDARD,
  },
  cohere2: {
    config: (keys, source) => ({
      ...cohere(keys, source),
      architectures: ["Cohere2ForCausalLM"],
      sliding_window: keys.size("attention.sliding_window"),
      layer_types: layerTypes(keys, 4),
    }),
    naming: STANDARD,
  },
};
