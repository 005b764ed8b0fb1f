// Latent attention: DeepSeek V2, V3 and R1, Kimi K2, GLM-4.7-Flash and Mistral Large 3 (all deepseek2), Mistral 4.

import type { TensorSource } from "../../../core/tensor.js";
import { type GgufArchitectures, SHARED_EXPERTS, standard, withoutSuffix } from "../gguf-architecture.js";
import type { GgufKeys } from "../gguf-keys.js";
import { type Config, decoder, GATING, groupedExperts, withoutNextn } from "../gguf-parts.js";

/** Heads: of newer files as the latent sees them, with their own sizes beside; of older ones as they are. */
function headSizes(keys: GgufKeys, rank: number, ropeDim: number): { headDim: number; valueDim: number } {
  const heads = keys.number("attention.head_count_kv"); // 1 in newer files: the latent
  const [key, value] = [keys.size("attention.key_length"), keys.size("attention.value_length")];
  const headDim = keys.number("attention.key_length_mla");
  if (headDim === null) {
    if (heads !== keys.size("attention.head_count")) throw keys.refuse("attention.key_length_mla", "a size");
    return { headDim: key, valueDim: value };
  }
  if (key !== rank + ropeDim) throw keys.refuse("attention.key_length", `${rank + ropeDim}`);
  if (value !== rank) throw keys.refuse("attention.value_length", `${rank}`);
  return { headDim, valueDim: keys.size("attention.value_length_mla") };
}

/** Files may leave the gating out: a bias for the choice comes with sigmoids. */
function gatingOf(keys: GgufKeys, source: TensorSource): number {
  const stated = keys.number("expert_gating_func") || null;
  const first = keys.number("leading_dense_block_count") ?? 0;
  const gating = stated ?? (source.has(`blk.${first}.exp_probs_b.bias`) ? GATING.sigmoid : GATING.softmax);
  if (gating !== GATING.softmax && gating !== GATING.sigmoid) throw keys.refuse("expert_gating_func", "1, 2");
  return gating;
}

function latent(keys: GgufKeys, source: TensorSource): Config {
  const rank = keys.size("attention.kv_lora_rank");
  const ropeDim = keys.size("rope.dimension_count");
  const { headDim, valueDim } = headSizes(keys, rank, ropeDim);
  const kvHeads = keys.size("attention.head_count");
  const { head_dim: _, ...config } = withoutNextn(keys, decoder(keys, source, { headDim, ropeDim, kvHeads }));
  const sharpening = keys.number("rope.scaling.yarn_log_multiplier");
  const rope = config.rope_parameters as Config;
  const mscale = sharpening === null ? {} : { mscale: 10 * sharpening, mscale_all_dim: 10 * sharpening };
  const experts = groupedExperts(keys);
  const isSoftmax = gatingOf(keys, source) === GATING.softmax;
  // Softmax scores, normalised: the experts of Mistral's models, whose queries grow with their position.
  const isMistral = isSoftmax && experts.norm_topk_prob === true;
  const beta = keys.number("attention.temperature_scale") ?? (keys.architecture === "mistral4" ? 0.1 : null);
  if (beta !== null && !isMistral) throw keys.refuse("attention.temperature_scale", "none with these experts");
  const scaled = beta === null ? {} : { llama_4_scaling_beta: beta };
  const original = rope.original_max_position_embeddings as number;
  const length = keys.number("attention.temperature_length") ?? original;
  if (beta !== null && length !== original) throw keys.refuse("attention.temperature_length", `${original}`);
  return {
    ...config,
    ...experts,
    architectures: [isMistral ? "Mistral4ForCausalLM" : isSoftmax ? "DeepseekV2ForCausalLM" : "DeepseekV3ForCausalLM"],
    topk_method: isMistral ? null : !isSoftmax ? "noaux_tc" : experts.n_group === 1 ? "greedy" : "group_limited_greedy",
    kv_lora_rank: rank,
    q_lora_rank: keys.number("attention.q_lora_rank"),
    qk_nope_head_dim: headDim - ropeDim,
    qk_rope_head_dim: ropeDim,
    v_head_dim: valueDim,
    rope_parameters: rope.rope_type === "yarn" ? { ...rope, ...mscale, ...scaled } : rope,
  };
}

const LATENT_NAMES = standard(
  {
    ...SHARED_EXPERTS,
    attn_q_a: "self_attn.q_a_proj",
    attn_q_a_norm: "self_attn.q_a_layernorm",
    attn_q_b: "self_attn.q_b_proj",
    attn_kv_a_mqa: "self_attn.kv_a_proj_with_mqa",
    attn_kv_a_norm: "self_attn.kv_a_layernorm",
    attn_kv_b: "self_attn.kv_b_proj",
  },
  { restore: { exp_probs_b: withoutSuffix } },
);

export const LATENT: GgufArchitectures = {
  deepseek2: { config: latent, naming: LATENT_NAMES },
  mistral4: { config: latent, naming: LATENT_NAMES },
};
