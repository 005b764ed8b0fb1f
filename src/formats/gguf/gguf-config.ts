// The metadata of a GGUF file as the config.json of the same model on Hugging Face, so that a model family reads one shape of
// configuration only. One function per GGUF architecture; an architecture not listed, and a key not read, is refused by name.

import { FormatError } from "../../core/errors.js";
import type { TensorSource } from "../../core/tensor.js";
import type { GgufMetadata } from "./gguf.js";
import { GgufKeys } from "./gguf-keys.js";
import {
  type Config,
  decoder,
  experts,
  gemma,
  groupedExperts,
  hybrid,
  hybridMoe,
  layers,
  layerTypes,
  MAX_COUNT,
  perLayer,
  sharedExpert,
  vocabulary,
} from "./gguf-parts.js";

type Build = (keys: GgufKeys, source: TensorSource) => Config;

export const GGUF_CONFIGS: Readonly<Record<string, Build>> = {
  llama: (keys, source) => {
    const window = keys.number("attention.sliding_window") ?? 0;
    const common = { ...decoder(keys, source), mlp_bias: source.has("blk.0.ffn_gate.bias") };
    if ((keys.number("expert_count") ?? 0) > 0) {
      return { ...common, ...experts(keys), architectures: ["MixtralForCausalLM"], sliding_window: window || null };
    }
    keys.number("expert_used_count");
    if (window > 0) return { ...common, architectures: ["MistralForCausalLM"], sliding_window: window };
    return { ...common, architectures: ["LlamaForCausalLM"] };
  },
  qwen2: (keys, source) => ({ ...decoder(keys, source), architectures: ["Qwen2ForCausalLM"] }),
  qwen3: (keys, source) => ({ ...decoder(keys, source), architectures: ["Qwen3ForCausalLM"] }),
  qwen3moe: (keys, source) => ({
    ...decoder(keys, source),
    ...experts(keys),
    architectures: ["Qwen3MoeForCausalLM"],
    moe_intermediate_size: keys.size("expert_feed_forward_length"),
    norm_topk_prob: true,
    decoder_sparse_step: 1,
    mlp_only_layers: [],
  }),
  qwen2moe: (keys, source) => ({
    ...decoder(keys, source),
    ...experts(keys),
    ...sharedExpert(keys),
    architectures: ["Qwen2MoeForCausalLM"],
    norm_topk_prob: false,
    decoder_sparse_step: 1,
    mlp_only_layers: [],
  }),
  qwen3next: (keys, source) => ({ ...hybridMoe(keys, source), architectures: ["Qwen3NextForCausalLM"] }),
  qwen35: (keys, source) => ({ ...hybrid(keys, source), architectures: ["Qwen3_5ForCausalLM"] }),
  qwen35moe: (keys, source) => ({ ...hybridMoe(keys, source), architectures: ["Qwen3_5MoeForCausalLM"] }),
  deepseek2: (keys, source) => {
    const rank = keys.size("attention.kv_lora_rank");
    const ropeDim = keys.size("rope.dimension_count");
    const headDim = keys.size("attention.key_length_mla");
    if (keys.number("attention.key_length") !== rank + ropeDim)
      throw keys.refuse("attention.key_length", `${rank + ropeDim}`);
    if (keys.number("attention.value_length") !== rank) throw keys.refuse("attention.value_length", `${rank}`);
    keys.number("attention.head_count_kv"); // 1 in files: the latent
    const heads = keys.size("attention.head_count");
    const { head_dim: _, ...config } = decoder(keys, source, { headDim, ropeDim, kvHeads: heads });
    const sharpening = keys.number("rope.scaling.yarn_log_multiplier");
    const rope = config.rope_parameters as Config;
    const mscale = sharpening === null ? {} : { mscale: 10 * sharpening, mscale_all_dim: 10 * sharpening };
    return {
      ...config,
      architectures: ["DeepseekV3ForCausalLM"],
      kv_lora_rank: rank,
      q_lora_rank: keys.number("attention.q_lora_rank"),
      qk_nope_head_dim: headDim - ropeDim,
      qk_rope_head_dim: ropeDim,
      v_head_dim: keys.size("attention.value_length_mla"),
      rope_parameters: rope.rope_type === "yarn" ? { ...rope, ...mscale } : rope,
      ...groupedExperts(keys),
    };
  },
  lfm2: (keys, source) => {
    // Layers without key heads are convolutions.
    const kvHeads = perLayer(keys, "attention.head_count_kv");
    const config = decoder(keys, source, { kvHeads: Math.max(...kvHeads) });
    return {
      ...config,
      architectures: ["Lfm2ForCausalLM"],
      block_auto_adjust_ff_dim: false,
      conv_L_cache: keys.size("shortconv.l_cache"),
      conv_bias: source.has("blk.0.shortconv.conv.bias"),
      layer_types: kvHeads.map((heads) => (heads === 0 ? "conv" : "full_attention")),
      norm_eps: config.rms_norm_eps,
    };
  },
  mistral3: (keys, source) => {
    const window = keys.number("attention.sliding_window") || null;
    const config: Config = { ...decoder(keys, source), sliding_window: window };
    const beta = keys.number("attention.temperature_scale");
    if (beta === null) return { ...config, architectures: ["MistralForCausalLM"] };
    const mscale = keys.number("rope.scaling.yarn_log_multiplier") ?? 1;
    const rope = { ...(config.rope_parameters as Config), mscale, mscale_all_dim: mscale, llama_4_scaling_beta: beta };
    return { ...config, architectures: ["Ministral3ForCausalLM"], rope_parameters: rope };
  },
  seed_oss: (keys, source) => ({
    ...decoder(keys, source),
    architectures: ["SeedOssForCausalLM"],
    attention_out_bias: source.has("blk.0.attn_output.bias"),
  }),
  ernie4_5: (keys, source) => {
    const config = decoder(keys, source);
    return { ...config, architectures: ["Ernie4_5ForCausalLM"], use_bias: config.attention_bias };
  },
  "hunyuan-dense": (keys, source) => ({ ...decoder(keys, source), architectures: ["HunYuanDenseV1ForCausalLM"] }),
  glm4: (keys, source) => ({ ...decoder(keys, source), architectures: ["Glm4ForCausalLM"] }),
  arcee: (keys, source) => ({ ...decoder(keys, source), architectures: ["ArceeForCausalLM"], hidden_act: "relu2" }),
  glm4moe: (keys, source) => {
    // Layers at the end that predict several tokens ahead are counted, but not of the model.
    const numAhead = keys.number("nextn_predict_layers") ?? 0;
    const config = decoder(keys, source);
    return {
      ...config,
      ...groupedExperts(keys),
      architectures: ["Glm4MoeForCausalLM"],
      num_hidden_layers: (config.num_hidden_layers as number) - numAhead,
      use_qk_norm: source.has("blk.0.attn_q_norm.weight"),
    };
  },
  olmoe: (keys, source) => ({
    ...decoder(keys, source),
    ...experts(keys),
    architectures: ["OlmoeForCausalLM"],
    norm_topk_prob: false,
  }),
  exaone4: (keys, source) => {
    const window = keys.number("attention.sliding_window") || null;
    const types = layerTypes(keys, window === null ? 1 : 4);
    return {
      ...decoder(keys, source),
      architectures: ["Exaone4ForCausalLM"],
      layer_types: types,
      sliding_window: window,
    };
  },
  gemma2: (keys, source) => ({
    ...gemma(keys, source),
    architectures: ["Gemma2ForCausalLM"],
    attn_logit_softcapping: keys.number("attn_logit_softcapping"),
    final_logit_softcapping: keys.number("final_logit_softcapping"),
    layer_types: layerTypes(keys, 2),
    sliding_window: keys.size("attention.sliding_window"),
  }),
  gemma3: (keys, source) => {
    const config = gemma(keys, source);
    const window = keys.number("attention.sliding_window");
    const local = keys.number("rope.freq_base_swa") ?? 10_000;
    return {
      ...config,
      architectures: ["Gemma3ForCausalLM"],
      final_logit_softcapping: keys.number("final_logit_softcapping"),
      layer_types: layerTypes(keys, window === null ? 1 : 6),
      sliding_window: window,
      rope_parameters: {
        full_attention: config.rope_parameters,
        sliding_attention: { rope_theta: local, rope_type: "default" },
      },
    };
  },
  phi3: (keys, source) => ({
    ...decoder(keys, source),
    architectures: ["Phi3ForCausalLM"],
    original_max_position_embeddings: keys.number("rope.scaling.original_context_length"),
    sliding_window: keys.number("attention.sliding_window") || null,
  }),
  "gpt-oss": (keys, source) => {
    const config = decoder(keys, source, { innerKey: "expert_feed_forward_length" });
    const rope = config.rope_parameters as Config;
    return {
      ...config,
      ...experts(keys),
      architectures: ["GptOssForCausalLM"],
      layer_types: layerTypes(keys, 2),
      sliding_window: keys.size("attention.sliding_window"),
      // No key says so: this family's yarn does not round the ends of its ramp.
      rope_parameters: rope.rope_type === "yarn" ? { ...rope, truncate: false } : rope,
    };
  },
  gpt2: (keys, source) => ({
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
  olmo2: (keys, source) => ({ ...decoder(keys, source), architectures: ["Olmo2ForCausalLM"] }),
  smollm3: (keys, source) => ({
    ...decoder(keys, source),
    architectures: ["SmolLM3ForCausalLM"],
    no_rope_layer_interval: 4,
    no_rope_layers: layers(keys, (layer) => ((layer + 1) % 4 === 0 ? 0 : 1)),
  }),
  granite: (keys, source) => ({
    ...decoder(keys, source),
    architectures: ["GraniteForCausalLM"],
    attention_multiplier: keys.number("attention.scale"),
    embedding_multiplier: keys.number("embedding_scale") ?? 1,
    residual_multiplier: keys.number("residual_scale") ?? 1,
    logits_scaling: keys.number("logit_scale") ?? 1,
  }),
};

/** The config.json that the metadata amounts to. `source` holds the file's tensors under their GGUF names. */
export function ggufConfig(metadata: GgufMetadata, source: TensorSource): Config {
  const architecture = metadata.get("general.architecture");
  const known = Object.keys(GGUF_CONFIGS).join(", ");
  if (typeof architecture !== "string" || !Object.hasOwn(GGUF_CONFIGS, architecture)) {
    throw new FormatError("unsupported_architecture", { value: String(architecture), known: `${known} (GGUF)` });
  }
  const keys = new GgufKeys(metadata, architecture, source.path);
  const config = GGUF_CONFIGS[architecture]!(keys, source);
  keys.checkAllRead();
  return config;
}
