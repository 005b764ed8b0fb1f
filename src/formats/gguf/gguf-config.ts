// The metadata of a GGUF file as the config.json of the same model on Hugging Face, so that a model family reads one shape of
// configuration only. One function per GGUF architecture; an architecture not listed, and a key not read, is refused by name.

import { FormatError } from "../../core/errors.js";
import type { TensorSource } from "../../core/tensor.js";
import type { GgufMetadata } from "./gguf.js";
import { GgufKeys } from "./gguf-keys.js";
import { ggufRope } from "./gguf-rope.js";

type Config = Record<string, unknown>;
type Build = (keys: GgufKeys, source: TensorSource) => Config;

/** Most layers, and most experts of a layer, that a file may speak of. */
const MAX_COUNT = 10_000;

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
    // 2: sigmoid scores, as V3, R1 and Kimi K2 have.
    if (keys.number("expert_gating_func") !== 2) throw keys.refuse("expert_gating_func", "2");
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
      first_k_dense_replace: keys.number("leading_dense_block_count") ?? 0,
      moe_intermediate_size: keys.size("expert_feed_forward_length"),
      n_routed_experts: keys.size("expert_count", MAX_COUNT),
      num_local_experts: keys.size("expert_count", MAX_COUNT),
      num_experts_per_tok: keys.size("expert_used_count"),
      n_shared_experts: keys.number("expert_shared_count") ?? 0,
      n_group: keys.number("expert_group_count") || 1,
      topk_group: keys.number("expert_group_used_count") || 1,
      routed_scaling_factor: keys.number("expert_weights_scale") || 1,
      norm_topk_prob: keys.value("expert_weights_norm") === true,
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

interface DecoderKeys {
  readonly innerKey?: string;
  /** Where layers differ in their key heads. */
  readonly kvHeads?: number;
  /** Where heads are made from a latent, which attention.key_length speaks of. */
  readonly headDim?: number;
  readonly ropeDim?: number;
}

/** What all decoders with RMS norm and rotary embedding share. */
function decoder(keys: GgufKeys, source: TensorSource, own: DecoderKeys = {}): Config {
  const { innerKey = "feed_forward_length" } = own;
  const hidden = keys.size("embedding_length");
  const heads = keys.size("attention.head_count");
  const headDim = own.headDim ?? keys.number("attention.key_length") ?? hidden / heads;
  if (own.headDim === undefined && (keys.number("attention.value_length") ?? headDim) !== headDim) {
    throw keys.refuse("attention.value_length", `${headDim}, as attention.key_length`);
  }
  keys.number("feed_forward_length"); // mixtures may state it beside the experts' own
  return {
    hidden_act: "silu",
    hidden_size: hidden,
    head_dim: headDim,
    intermediate_size: keys.size(innerKey),
    max_position_embeddings: keys.size("context_length"),
    num_attention_heads: heads,
    num_hidden_layers: keys.size("block_count", MAX_COUNT),
    num_key_value_heads: own.kvHeads ?? keys.number("attention.head_count_kv") ?? heads,
    rms_norm_eps: keys.number("attention.layer_norm_rms_epsilon") ?? 1e-5,
    rope_parameters: ggufRope(keys, source, own.ropeDim ?? headDim),
    attention_bias: source.has("blk.0.attn_q.bias"),
    ...vocabulary(keys, source),
  };
}

/** Qwen3-Next and Qwen3.5: gated delta nets in all but every n-th layer. */
function hybrid(keys: GgufKeys, source: TensorSource, own: DecoderKeys = {}): Config {
  const numValueHeads = keys.size("ssm.time_step_rank");
  const interval = keys.number("full_attention_interval") ?? 4;
  // Sections of the rotary dimensions are for images; with text alone all positions are equal.
  keys.value("rope.dimension_sections");
  return {
    ...decoder(keys, source, own),
    full_attention_interval: interval,
    layer_types: layers(keys, (layer) => ((layer + 1) % interval === 0 ? "full_attention" : "linear_attention")),
    linear_conv_kernel_dim: keys.size("ssm.conv_kernel"),
    linear_key_head_dim: keys.size("ssm.state_size"),
    linear_num_key_heads: keys.size("ssm.group_count"),
    linear_num_value_heads: numValueHeads,
    linear_value_head_dim: keys.size("ssm.inner_size") / numValueHeads,
  };
}

function hybridMoe(keys: GgufKeys, source: TensorSource): Config {
  return {
    ...hybrid(keys, source, { innerKey: "expert_feed_forward_length" }),
    ...experts(keys),
    ...sharedExpert(keys),
    norm_topk_prob: true,
  };
}

function sharedExpert(keys: GgufKeys): Config {
  return {
    moe_intermediate_size: keys.size("expert_feed_forward_length"),
    shared_expert_intermediate_size: keys.size("expert_shared_feed_forward_length"),
  };
}

function vocabulary(keys: GgufKeys, source: TensorSource): Config {
  const ends = [keys.tokenId("eos"), keys.tokenId("eot"), keys.tokenId("eom")].filter((id) => id !== null);
  return {
    bos_token_id: keys.tokenId("bos"),
    eos_token_id: [...new Set(ends)],
    tie_word_embeddings: !source.has("output.weight"),
    vocab_size: source.get("token_embd.weight").shape[0],
  };
}

function gemma(keys: GgufKeys, source: TensorSource): Config {
  const { hidden_act: _, ...config } = decoder(keys, source);
  const heads = config.num_attention_heads as number;
  // No key says so: only the 27B models (46 and 62 layers) scale queries by the width of the model, not of a head.
  const isLargest = config.num_hidden_layers === (keys.architecture === "gemma2" ? 46 : 62);
  return {
    ...config,
    hidden_activation: "gelu_pytorch_tanh",
    query_pre_attn_scalar: isLargest ? (config.hidden_size as number) / heads : config.head_dim,
  };
}

function experts(keys: GgufKeys): Config {
  const gating = keys.number("expert_gating_func");
  const expected = keys.architecture === "gpt-oss" ? 3 : 1; // softmax over the chosen, softmax over all
  if (gating !== null && gating !== 0 && gating !== expected) throw keys.refuse("expert_gating_func", `${expected}`);
  const scale = keys.number("expert_weights_scale");
  if (scale !== null && scale !== 0 && scale !== 1) throw keys.refuse("expert_weights_scale", "1");
  keys.value("expert_weights_norm"); // all three families normalise what was chosen
  const count = keys.size("expert_count", MAX_COUNT);
  return { num_experts: count, num_local_experts: count, num_experts_per_tok: keys.size("expert_used_count") };
}

/** Every `period`-th layer has full attention, the others a window; the file may say otherwise. */
function layerTypes(keys: GgufKeys, period: number): string[] {
  const pattern = keys.value("attention.sliding_window_pattern") ?? period;
  if (Array.isArray(pattern)) {
    if (pattern.length !== keys.size("block_count", MAX_COUNT)) {
      throw keys.refuse("attention.sliding_window_pattern", "a number, or one flag per layer");
    }
    return pattern.map((isSliding) => (isSliding ? "sliding_attention" : "full_attention"));
  }
  if (typeof pattern !== "number" || !Number.isSafeInteger(pattern) || pattern < 1) {
    throw keys.refuse("attention.sliding_window_pattern", "a number from 1 up, or one flag per layer");
  }
  return layers(keys, (layer) => ((layer + 1) % pattern === 0 ? "full_attention" : "sliding_attention"));
}

/** One number per layer, or one for all. */
function perLayer(keys: GgufKeys, key: string): number[] {
  const value = keys.value(key);
  const count = keys.size("block_count", MAX_COUNT);
  const numbers = Array.isArray(value) ? value : Array.from({ length: count }, () => value);
  if (numbers.length !== count || !numbers.every((n) => Number.isSafeInteger(n) && n >= 0)) {
    throw keys.refuse(key, `one whole number, or one for each of ${count} layers`);
  }
  return numbers;
}

function layers<T>(keys: GgufKeys, of: (layer: number) => T): T[] {
  return Array.from({ length: keys.size("block_count", MAX_COUNT) }, (_, layer) => of(layer));
}
