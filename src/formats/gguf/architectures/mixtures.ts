// Mixtures of experts, with plain attention.

import {
  asRow,
  type GgufArchitectures,
  LLAMA,
  SHARED_EXPERT,
  SHARED_EXPERTS,
  STANDARD,
  standard,
  W_EXPERTS,
  withoutSuffix,
} from "../gguf-architecture.js";
import {
  type Config,
  decoder,
  experts,
  GATING,
  graniteScales,
  groupedExperts,
  layers,
  layerTypes,
  MAX_COUNT,
  sharedExpert,
  withoutNextn,
} from "../gguf-parts.js";

/** Granite's shared feed-forward, where a file has gate and up by themselves. */
export const GRANITE_EXPERTS = {
  layer: {
    ffn_gate_inp: "block_sparse_moe.router.layer",
    ffn_gate_shexp: "shared_mlp.gate_proj",
    ffn_up_shexp: "shared_mlp.up_proj",
    ffn_down_shexp: "shared_mlp.down_proj",
  },
  experts: W_EXPERTS,
};

export const MIXTURES: GgufArchitectures = {
  qwen3moe: {
    config: (keys, source) => ({
      ...decoder(keys, source),
      ...experts(keys),
      architectures: ["Qwen3MoeForCausalLM"],
      moe_intermediate_size: keys.size("expert_feed_forward_length"),
      norm_topk_prob: true,
      decoder_sparse_step: 1,
      mlp_only_layers: [],
    }),
    naming: STANDARD,
  },
  qwen2moe: {
    config: (keys, source) => ({
      ...decoder(keys, source),
      ...experts(keys),
      ...sharedExpert(keys),
      architectures: ["Qwen2MoeForCausalLM"],
      norm_topk_prob: false,
      decoder_sparse_step: 1,
      mlp_only_layers: [],
    }),
    naming: standard(SHARED_EXPERT, { restore: { ffn_gate_inp_shexp: asRow } }),
  },
  olmoe: {
    config: (keys, source) => ({
      ...decoder(keys, source),
      ...experts(keys),
      architectures: ["OlmoeForCausalLM"],
      norm_topk_prob: false,
    }),
    naming: STANDARD,
  },
  "gpt-oss": {
    config: (keys, source) => {
      const config = decoder(keys, source, { innerKey: "expert_feed_forward_length" });
      const rope = config.rope_parameters as Config;
      return {
        ...config,
        ...experts(keys, GATING.softmaxOfChosen),
        architectures: ["GptOssForCausalLM"],
        layer_types: layerTypes(keys, 2),
        sliding_window: keys.size("attention.sliding_window"),
        // No key says so: this family's yarn does not round the ends of its ramp.
        rope_parameters: rope.rope_type === "yarn" ? { ...rope, truncate: false } : rope,
      };
    },
    naming: standard({ ffn_gate_inp: "mlp.router", post_attention_norm: "post_attention_layernorm" }),
  },
  glm4moe: {
    config: (keys, source) => {
      if (keys.number("expert_gating_func") !== GATING.sigmoid) throw keys.refuse("expert_gating_func", "2");
      return {
        ...withoutNextn(keys, decoder(keys, source)),
        ...groupedExperts(keys),
        architectures: ["Glm4MoeForCausalLM"],
        use_qk_norm: source.has("blk.0.attn_q_norm.weight"),
      };
    },
    naming: standard(
      { ...SHARED_EXPERTS, post_attention_norm: "post_attention_layernorm" },
      { restore: { exp_probs_b: withoutSuffix } },
    ),
  },
  "ernie4_5-moe": {
    config: (keys, source) => {
      const config = decoder(keys, source);
      keys.number("expert_shared_feed_forward_length"); // converters write another number
      return {
        ...config,
        ...experts(keys),
        architectures: ["Ernie4_5_MoeForCausalLM"],
        use_bias: config.attention_bias,
        moe_num_experts: keys.size("expert_count", MAX_COUNT),
        moe_k: keys.size("expert_used_count"),
        moe_intermediate_size: keys.size("expert_feed_forward_length"),
        moe_num_shared_experts: keys.number("expert_shared_count") ?? 0,
        moe_layer_start_index: keys.number("leading_dense_block_count") ?? 0,
        moe_layer_interval: keys.number("interleave_moe_layer_step") ?? 1,
      };
    },
    naming: standard(
      { ...SHARED_EXPERTS, exp_probs_b: "mlp.moe_statics.e_score_correction_bias" },
      { restore: { exp_probs_b: (tensor, name, config) => asRow(tensor, name.replace(/\.bias$/, ""), config) } },
    ),
  },
  "minimax-m2": {
    config: (keys, source) => ({
      ...decoder(keys, source, { innerKey: "expert_feed_forward_length" }),
      ...experts(keys, GATING.sigmoid),
      architectures: ["MiniMaxM2ForCausalLM"],
      use_qk_norm: source.has("blk.0.attn_q_norm.weight"),
    }),
    naming: standard(
      { ffn_gate_inp: "block_sparse_moe.gate", exp_probs_b: "block_sparse_moe.e_score_correction_bias" },
      { experts: W_EXPERTS, restore: { exp_probs_b: withoutSuffix } },
    ),
  },
  granitemoe: {
    config: (keys, source) => ({
      ...decoder(keys, source),
      ...experts(keys),
      ...graniteScales(keys),
      architectures: [
        source.has("blk.0.ffn_up_shexp.weight") ? "GraniteMoeSharedForCausalLM" : "GraniteMoeForCausalLM",
      ],
      shared_intermediate_size: keys.number("expert_shared_feed_forward_length") ?? 0,
    }),
    naming: { ...standard(GRANITE_EXPERTS.layer), experts: W_EXPERTS, isPermuted: LLAMA.isPermuted },
  },
  // The file says nothing of chunks and of the scale of queries: 8192 for all that are known. A window of 0: no chunks, rope everywhere.
  llama4: {
    config: (keys, source) => {
      const isChunked = keys.number("attention.sliding_window") !== 0;
      const types = layerTypes(keys, isChunked ? 4 : 1);
      const isFull = (layer: number): boolean => isChunked && types[layer] === "full_attention";
      return {
        ...decoder(keys, source),
        ...experts(keys, GATING.sigmoid),
        architectures: ["Llama4ForCausalLM"],
        intermediate_size: keys.size("expert_feed_forward_length"),
        intermediate_size_mlp: keys.size("feed_forward_length"),
        interleave_moe_layer_step: keys.number("interleave_moe_layer_step") ?? 1,
        attention_chunk_size: isChunked ? 8192 : null,
        layer_types: layers(keys, (layer) => (isChunked && !isFull(layer) ? "chunked_attention" : "full_attention")),
        no_rope_layers: layers(keys, (layer) => (isFull(layer) ? 0 : 1)),
        attn_temperature_tuning: isChunked,
        floor_scale: 8192,
        attn_scale: 0.1,
        use_qk_norm: keys.number("expert_count") !== 128, // Scout norms, Maverick does not
      };
    },
    naming: standard(
      {
        ffn_gate: "feed_forward.gate_proj",
        ffn_up: "feed_forward.up_proj",
        ffn_down: "feed_forward.down_proj",
        ffn_gate_inp: "feed_forward.router",
        ffn_gate_shexp: "feed_forward.shared_expert.gate_proj",
        ffn_up_shexp: "feed_forward.shared_expert.up_proj",
        ffn_down_shexp: "feed_forward.shared_expert.down_proj",
      },
      {
        experts: {
          gate: "feed_forward.experts.{e}.gate_proj",
          up: "feed_forward.experts.{e}.up_proj",
          down: "feed_forward.experts.{e}.down_proj",
        },
      },
    ),
  },
};
