// Models with gated delta nets, or with short convolutions.

import type { TensorSource } from "../../../core/tensor.js";
import {
  asConvolution,
  type GgufArchitectures,
  type Naming,
  SHARED_EXPERT,
  standard,
  withoutSuffix,
} from "../gguf-architecture.js";
import { groupedDeltaNet, tiledDeltaNet } from "../gguf-delta-net.js";
import type { GgufKeys } from "../gguf-keys.js";
import { type Config, decoder, experts, GATING, hybrid, hybridMoe, perLayer } from "../gguf-parts.js";

const DELTA_NET = standard(
  {
    ...SHARED_EXPERT,
    post_attention_norm: "post_attention_layernorm",
    attn_qkv: "linear_attn.in_proj_qkv",
    attn_gate: "linear_attn.in_proj_z",
    ssm_conv1d: "linear_attn.conv1d",
    ssm_norm: "linear_attn.norm",
    ssm_out: "linear_attn.out_proj",
    ssm_alpha: "linear_attn.in_proj_a",
    ssm_beta: "linear_attn.in_proj_b",
    ssm_ba: "linear_attn",
    ssm_a: "linear_attn.A_log",
    ssm_dt: "linear_attn.dt_bias",
  },
  { normsPlusOne: true },
);

const LFM2: Naming = standard(
  {
    attn_norm: "operator_norm",
    attn_output: "self_attn.out_proj",
    attn_q_norm: "self_attn.q_layernorm",
    attn_k_norm: "self_attn.k_layernorm",
    ffn_norm: "ffn_norm",
    ffn_gate: "feed_forward.w1",
    ffn_up: "feed_forward.w3",
    ffn_down: "feed_forward.w2",
    ffn_gate_inp: "feed_forward.gate",
    exp_probs_b: "feed_forward.expert_bias",
    "shortconv.conv": "conv.conv",
    "shortconv.in_proj": "conv.in_proj",
    "shortconv.out_proj": "conv.out_proj",
  },
  {
    model: { token_embd: "model.embed_tokens", token_embd_norm: "model.embedding_norm", output: "lm_head" },
    experts: {
      gate: "feed_forward.experts.{e}.w1",
      up: "feed_forward.experts.{e}.w3",
      down: "feed_forward.experts.{e}.w2",
    },
    restore: { "shortconv.conv": asConvolution, exp_probs_b: withoutSuffix },
  },
);

/** Layers without key heads are convolutions. */
function lfm2(keys: GgufKeys, source: TensorSource): Config {
  const kvHeads = perLayer(keys, "attention.head_count_kv");
  const config = decoder(keys, source, { kvHeads: Math.max(...kvHeads) });
  return {
    ...config,
    block_auto_adjust_ff_dim: false,
    conv_L_cache: keys.size("shortconv.l_cache"),
    conv_bias: source.has("blk.0.shortconv.conv.bias"),
    layer_types: kvHeads.map((heads) => (heads === 0 ? "conv" : "full_attention")),
    norm_eps: config.rms_norm_eps,
  };
}

export const RECURRENT: GgufArchitectures = {
  qwen3next: {
    config: (keys, source) => ({ ...hybridMoe(keys, source), architectures: ["Qwen3NextForCausalLM"] }),
    naming: { ...DELTA_NET, restore: groupedDeltaNet },
  },
  qwen35: {
    config: (keys, source) => ({ ...hybrid(keys, source), architectures: ["Qwen3_5ForCausalLM"] }),
    naming: { ...DELTA_NET, restore: tiledDeltaNet },
  },
  qwen35moe: {
    config: (keys, source) => ({ ...hybridMoe(keys, source), architectures: ["Qwen3_5MoeForCausalLM"] }),
    naming: { ...DELTA_NET, restore: tiledDeltaNet },
  },
  lfm2: {
    config: (keys, source) => ({ ...lfm2(keys, source), architectures: ["Lfm2ForCausalLM"] }),
    naming: LFM2,
  },
  lfm2moe: {
    config: (keys, source) => ({
      ...lfm2(keys, source),
      ...experts(keys, GATING.sigmoid),
      architectures: ["Lfm2MoeForCausalLM"],
      moe_intermediate_size: keys.size("expert_feed_forward_length"),
      num_dense_layers: keys.number("leading_dense_block_count") ?? 0,
    }),
    naming: LFM2,
  },
};
