// The metadata that a converter writes for a config.json, under the names of its architecture.

import type { GgufValue } from "./gguf-writer.js";

// biome-ignore lint/suspicious/noExplicitAny: config.json is whatever the folder says
export type Raw = Record<string, any>;

type Values = Record<string, GgufValue | null | undefined>;

export function metadataOf(architecture: string, raw: Raw): Record<string, GgufValue> {
  const rope = raw.rope_parameters?.full_attention ?? raw.rope_parameters ?? {};
  const values: Values = {
    context_length: raw.max_position_embeddings ?? raw.n_positions,
    embedding_length: raw.hidden_size ?? raw.n_embd,
    block_count: raw.num_hidden_layers ?? raw.n_layer,
    feed_forward_length: raw.intermediate_size ?? raw.n_inner ?? 4 * raw.n_embd,
    vocab_size: raw.vocab_size,
    expert_count: raw.num_local_experts ?? raw.num_experts ?? raw.n_routed_experts,
    expert_shared_count: raw.n_shared_experts,
    expert_group_count: raw.n_group,
    expert_group_used_count: raw.topk_group,
    expert_weights_scale: raw.routed_scaling_factor,
    expert_weights_norm: raw.n_routed_experts ? raw.norm_topk_prob : null,
    leading_dense_block_count: raw.first_k_dense_replace,
    "attention.q_lora_rank": raw.q_lora_rank,
    "attention.kv_lora_rank": raw.kv_lora_rank,
    "attention.key_length_mla": raw.kv_lora_rank && raw.qk_nope_head_dim + raw.qk_rope_head_dim,
    "attention.value_length_mla": raw.v_head_dim,
    expert_shared_feed_forward_length: raw.shared_expert_intermediate_size,
    full_attention_interval: raw.linear_num_key_heads && 4,
    "shortconv.l_cache": raw.conv_L_cache,
    "ssm.conv_kernel": raw.linear_conv_kernel_dim,
    "ssm.state_size": raw.linear_key_head_dim,
    "ssm.group_count": raw.linear_num_key_heads,
    "ssm.time_step_rank": raw.linear_num_value_heads,
    "ssm.inner_size": raw.linear_num_value_heads && raw.linear_num_value_heads * raw.linear_value_head_dim,
    expert_used_count: raw.num_experts_per_tok ?? raw.top_k_experts,
    expert_feed_forward_length:
      raw.moe_intermediate_size ?? (architecture === "gpt-oss" ? raw.intermediate_size : null),
    attn_logit_softcapping: raw.attn_logit_softcapping,
    final_logit_softcapping: raw.final_logit_softcapping,
    embedding_scale: raw.embedding_multiplier,
    residual_scale: raw.residual_multiplier,
    logit_scale: raw.logits_scaling,
    "attention.scale": raw.attention_multiplier,
    "attention.head_count": raw.num_attention_heads ?? raw.n_head,
    "attention.head_count_kv": raw.conv_L_cache
      ? kvHeadsOf(raw, "full_attention")
      : raw.kv_lora_rank
        ? 1
        : raw.num_key_value_heads,
    "attention.key_length": raw.kv_lora_rank ? raw.kv_lora_rank + raw.qk_rope_head_dim : raw.head_dim,
    "attention.value_length": raw.kv_lora_rank ?? raw.head_dim,
    "attention.layer_norm_rms_epsilon": raw.rms_norm_eps ?? raw.norm_eps,
    "attention.layer_norm_epsilon": raw.layer_norm_epsilon ?? raw.layer_norm_eps ?? raw.norm_epsilon,
    "attention.sliding_window": architecture === "phi3" ? (raw.sliding_window ?? 0) : raw.sliding_window,
    "attention.sliding_window_pattern":
      architecture === "exaone4"
        ? raw.layer_types.map((type: string) => type === "sliding_attention")
        : raw._sliding_window_pattern,
    "attention.temperature_scale": rope.llama_4_scaling_beta,
    "rope.scaling.yarn_log_multiplier": rope.llama_4_scaling_beta && rope.mscale_all_dim,
    "rope.freq_base": rope.rope_theta,
    "rope.dimension_count":
      raw.num_attention_heads &&
      (raw.qk_rope_head_dim ?? raw.head_dim ?? raw.hidden_size / raw.num_attention_heads) *
        (rope.partial_rotary_factor ?? 1),
    "rope.scaling.type": rope.rope_type === "yarn" ? "yarn" : null,
    "rope.scaling.factor": rope.rope_type === "yarn" ? rope.factor : null,
    "rope.scaling.original_context_length":
      rope.rope_type === "yarn" ? rope.original_max_position_embeddings : raw.original_max_position_embeddings,
    ...ownValues(architecture, raw),
  };
  const metadata: Record<string, GgufValue> = {
    "general.architecture": architecture,
    "tokenizer.ggml.bos_token_id": raw.bos_token_id,
    "tokenizer.ggml.eos_token_id": raw.eos_token_id,
  };
  for (const [key, value] of Object.entries(values)) {
    if (key.startsWith("xielu.")) metadata[key] = value!;
    else if (value !== null && value !== undefined) metadata[`${architecture}.${key}`] = value;
  }
  return metadata;
}

/** Mamba-2 mixers, as each family calls their sizes. */
function mambaValues(raw: Raw, [heads, headDim, groups, state, taps]: readonly string[]): Values {
  return {
    "ssm.conv_kernel": raw[taps!],
    "ssm.state_size": raw[state!],
    "ssm.group_count": raw[groups!],
    "ssm.time_step_rank": raw[heads!],
    "ssm.inner_size": raw[heads!] * raw[headDim!],
  };
}

const MAMBA_FIELDS = ["mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state", "mamba_d_conv"];

function kvHeadsOf(raw: Raw, attention: string, types: string[] = raw.layer_types): number[] {
  return types.map((type) => (type === attention ? raw.num_key_value_heads : 0));
}

function slidingLayers(raw: Raw): boolean[] {
  return raw.layer_types.map((type: string) => type === "sliding_attention");
}

/** What an architecture has beside, or instead of, what all have. */
function ownValues(architecture: string, raw: Raw): Values {
  const windows = { "attention.sliding_window_pattern": raw.layer_types && slidingLayers(raw) };
  switch (architecture) {
    case "deepseek2":
      return {
        expert_gating_func: raw.architectures[0] === "DeepseekV3ForCausalLM" ? 2 : null,
        expert_group_count: raw.topk_method === "greedy" ? 1 : raw.n_group,
      };
    case "glm4moe":
      return { expert_gating_func: 2 };
    case "mistral4":
      return {
        "attention.temperature_scale": null,
        "rope.scaling.yarn_log_multiplier": 0.1 * raw.rope_parameters.mscale_all_dim,
        "rope.dimension_count": raw.qk_rope_head_dim,
      };
    case "olmo2":
      return raw.sliding_window === undefined
        ? {}
        : { ...windows, "rope.freq_base_swa": raw.rope_parameters.sliding_attention.rope_theta };
    case "gemma3n":
      return {
        ...windows,
        "rope.freq_base_swa": raw.rope_parameters.sliding_attention.rope_theta,
        "altup.active_idx": raw.altup_active_idx,
        "altup.num_inputs": raw.altup_num_inputs,
        embedding_length_per_layer_input: raw.hidden_size_per_layer_input,
        "attention.shared_kv_layers": raw.num_kv_shared_layers,
        // The golden cuts 95 % in some layers: the quantile of the normal distribution, as f32.
        activation_sparsity_scale: raw.activation_sparsity_pattern.map((share: number) =>
          share === 0.95 ? 1.6448536 : Number.NEGATIVE_INFINITY,
        ),
      };
    case "gemma-embedding":
      return {
        ...windows,
        "rope.freq_base_swa": raw.rope_parameters.sliding_attention.rope_theta,
        "attention.causal": false,
        pooling_type: 1,
      };
    case "gemma4":
      return {
        ...windows,
        "rope.freq_base_swa": raw.rope_parameters.sliding_attention.rope_theta,
        embedding_length_per_layer_input: raw.hidden_size_per_layer_input,
        "attention.shared_kv_layers": raw.num_kv_shared_layers,
        "attention.key_length": raw.per_layer_config["1"].head_dim,
        "attention.value_length": raw.per_layer_config["1"].head_dim,
        "attention.key_length_swa": raw.head_dim,
        "attention.value_length_swa": raw.head_dim,
        "rope.dimension_count": raw.per_layer_config["1"].head_dim,
        "rope.dimension_count_swa": raw.head_dim,
      };
    case "llama4":
      return {
        feed_forward_length: raw.intermediate_size_mlp,
        expert_feed_forward_length: raw.intermediate_size,
        interleave_moe_layer_step: raw.interleave_moe_layer_step,
      };
    case "granitehybrid":
      return {
        ...mambaValues(raw, MAMBA_FIELDS),
        "attention.head_count_kv": kvHeadsOf(raw, "full_attention"),
        expert_shared_feed_forward_length: raw.shared_intermediate_size,
        "rope.scaling.finetuned": raw.position_embedding_type === "rope",
      };
    case "falcon-h1":
      return { ...mambaValues(raw, MAMBA_FIELDS), "rope.dimension_count": null, embedding_scale: null }; // in the weights
    case "mamba2":
      return {
        ...mambaValues(raw, ["num_heads", "head_dim", "n_groups", "state_size", "conv_kernel"]),
        "attention.head_count": 0,
        "attention.head_count_kv": null,
        "attention.key_length": null,
        "attention.value_length": null,
        "rope.dimension_count": null,
        "attention.layer_norm_rms_epsilon": raw.layer_norm_epsilon,
        "attention.layer_norm_epsilon": null,
        feed_forward_length: 0,
      };
    case "nemotron_h_moe": {
      const types: string[] = raw.layers_block_type;
      const fields = ["mamba_num_heads", "mamba_head_dim", "n_groups", "ssm_state_size", "conv_kernel"];
      return {
        ...mambaValues(raw, fields),
        block_count: types.length,
        "attention.head_count_kv": kvHeadsOf(raw, "full_attention", types),
        feed_forward_length: types.map((type) => (type === "moe" ? raw.moe_intermediate_size : 0)),
        expert_shared_feed_forward_length: raw.moe_shared_expert_intermediate_size,
        "rope.scaling.finetuned": true,
        "rope.dimension_count": raw.hidden_size / raw.num_attention_heads,
      };
    }
    case "granitemoe":
      return { expert_shared_feed_forward_length: raw.shared_intermediate_size };
    case "lfm2moe":
      return { expert_gating_func: 2, leading_dense_block_count: raw.num_dense_layers };
    case "minimax-m2":
      return { expert_feed_forward_length: raw.intermediate_size };
    case "nemotron":
      return { "attention.layer_norm_epsilon": raw.norm_eps, "rope.scaling.type": "none" };
    case "command-r":
    case "cohere2":
      return { logit_scale: raw.logit_scale, "rope.scaling.type": "none" };
    case "gptneox":
      return { "attention.head_count_kv": null, "rope.freq_base": null, use_parallel_residual: true };
    case "stablelm":
      return { use_parallel_residual: raw.use_parallel_residual };
    case "bitnet":
      return { "rope.scaling.type": "linear", "rope.scaling.factor": 1 };
    case "ernie4_5-moe":
      return {
        expert_count: raw.moe_num_experts,
        expert_used_count: raw.moe_k,
        expert_shared_count: raw.moe_num_shared_experts,
        expert_shared_feed_forward_length: raw.intermediate_size / raw.num_key_value_heads,
        leading_dense_block_count: raw.moe_layer_start_index,
        interleave_moe_layer_step: raw.moe_layer_interval,
      };
    default:
      return {};
  }
}
