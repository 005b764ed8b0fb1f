// Dense decoders with RMS norm: Llama and what differs from it in little.

import {
  type GgufArchitectures,
  LLAMA,
  POST_NORMS,
  STANDARD,
  splitQkv,
  standard,
  W_EXPERTS,
} from "../gguf-architecture.js";
import { type Config, decoder, experts, graniteScales, layers, layerTypes, localRope } from "../gguf-parts.js";
import { xieluConfig, xieluTensors } from "../gguf-xielu.js";

const MIXTRAL = { ...standard({ ffn_gate_inp: "block_sparse_moe.gate" }, { experts: W_EXPERTS }), isPermuted: true };

export const PLAIN: GgufArchitectures = {
  llama: {
    config: (keys, source) => {
      const window = keys.number("attention.sliding_window") ?? 0;
      const common = { ...decoder(keys, source), mlp_bias: source.has("blk.0.ffn_gate.bias") };
      if ((keys.number("expert_count") ?? 0) > 0) {
        return { ...common, ...experts(keys), architectures: ["MixtralForCausalLM"], sliding_window: window || null };
      }
      keys.number("expert_used_count");
      if (window > 0) return { ...common, architectures: ["MistralForCausalLM"], sliding_window: window };
      return { ...common, architectures: ["LlamaForCausalLM"] };
    },
    naming: (config) => (config.num_local_experts === undefined ? LLAMA : MIXTRAL),
  },
  qwen2: {
    config: (keys, source) => ({ ...decoder(keys, source), architectures: ["Qwen2ForCausalLM"] }),
    naming: STANDARD,
  },
  // The text parts of models that see.
  qwen2vl: {
    config: (keys, source) => ({ ...decoder(keys, source), architectures: ["Qwen2ForCausalLM"] }),
    naming: STANDARD,
  },
  qwen3: {
    config: (keys, source) => ({ ...decoder(keys, source), architectures: ["Qwen3ForCausalLM"] }),
    naming: STANDARD,
  },
  qwen3vl: {
    config: (keys, source) => {
      keys.number("n_deepstack_layers"); // their rows come with each picture
      return { ...decoder(keys, source), architectures: ["Qwen3ForCausalLM"] };
    },
    naming: STANDARD,
  },
  mistral3: {
    config: (keys, source) => {
      const window = keys.number("attention.sliding_window") || null;
      const config: Config = { ...decoder(keys, source), sliding_window: window };
      const beta = keys.number("attention.temperature_scale");
      if (beta === null) return { ...config, architectures: ["MistralForCausalLM"] };
      const mscale = keys.number("rope.scaling.yarn_log_multiplier") ?? 1;
      const scaling = { mscale, mscale_all_dim: mscale, llama_4_scaling_beta: beta };
      const rope = { ...(config.rope_parameters as Config), ...scaling };
      return { ...config, architectures: ["Ministral3ForCausalLM"], rope_parameters: rope };
    },
    naming: LLAMA,
  },
  seed_oss: {
    config: (keys, source) => ({
      ...decoder(keys, source),
      architectures: ["SeedOssForCausalLM"],
      attention_out_bias: source.has("blk.0.attn_output.bias"),
    }),
    naming: standard({ post_attention_norm: "post_attention_layernorm" }),
  },
  ernie4_5: {
    config: (keys, source) => {
      const config = decoder(keys, source);
      return { ...config, architectures: ["Ernie4_5ForCausalLM"], use_bias: config.attention_bias };
    },
    naming: STANDARD,
  },
  "hunyuan-dense": {
    config: (keys, source) => ({ ...decoder(keys, source), architectures: ["HunYuanDenseV1ForCausalLM"] }),
    naming: standard({ attn_q_norm: "self_attn.query_layernorm", attn_k_norm: "self_attn.key_layernorm" }),
  },
  // GLM-4 of 2024; mostly with q, k and v in one matrix, as in the makers' own checkpoints. GLM's ffn_up holds gate and up.
  chatglm: {
    config: (keys, source) => ({
      ...decoder(keys, source),
      architectures: ["GlmForCausalLM"],
      attention_bias: source.has("blk.0.attn_qkv.bias") || source.has("blk.0.attn_q.bias"),
    }),
    naming: standard({ ffn_up: "mlp.gate_up_proj" }, { restore: { attn_qkv: splitQkv } }),
  },
  glm4: {
    config: (keys, source) => ({ ...decoder(keys, source), architectures: ["Glm4ForCausalLM"] }),
    naming: standard({
      post_attention_norm: "post_self_attn_layernorm",
      post_ffw_norm: "post_mlp_layernorm",
      ffn_up: "mlp.gate_up_proj",
    }),
  },
  arcee: {
    config: (keys, source) => ({ ...decoder(keys, source), architectures: ["ArceeForCausalLM"], hidden_act: "relu2" }),
    naming: LLAMA,
  },
  exaone4: {
    config: (keys, source) => {
      const window = keys.number("attention.sliding_window") || null;
      const types = layerTypes(keys, window === null ? 1 : 4);
      const config = decoder(keys, source);
      return { ...config, architectures: ["Exaone4ForCausalLM"], layer_types: types, sliding_window: window };
    },
    naming: standard(POST_NORMS),
  },
  // Phi's ffn_up holds gate and up.
  phi3: {
    config: (keys, source) => ({
      ...decoder(keys, source),
      architectures: ["Phi3ForCausalLM"],
      original_max_position_embeddings: keys.number("rope.scaling.original_context_length"),
      sliding_window: keys.number("attention.sliding_window") || null,
    }),
    naming: standard({ ffn_up: "mlp.gate_up_proj" }),
  },
  // OLMo 3 is the one with windows.
  olmo2: {
    config: (keys, source) => {
      const config = decoder(keys, source);
      const window = keys.number("attention.sliding_window") || null;
      if (window === null) return { ...config, architectures: ["Olmo2ForCausalLM"] };
      return {
        ...config,
        architectures: ["Olmo3ForCausalLM"],
        sliding_window: window,
        layer_types: layerTypes(keys, 4),
        rope_parameters: localRope(keys, config, keys.number("rope.freq_base") ?? 10_000),
      };
    },
    naming: standard(POST_NORMS),
  },
  smollm3: {
    config: (keys, source) => ({
      ...decoder(keys, source),
      architectures: ["SmolLM3ForCausalLM"],
      no_rope_layer_interval: 4,
      no_rope_layers: layers(keys, (layer) => ((layer + 1) % 4 === 0 ? 0 : 1)),
    }),
    naming: LLAMA,
  },
  granite: {
    config: (keys, source) => ({
      ...decoder(keys, source),
      ...graniteScales(keys),
      architectures: ["GraniteForCausalLM"],
    }),
    naming: LLAMA,
  },
  // No key says what the activation is: the makers' model (relu squared), or the first attempts to reproduce it, known by their vocabulary.
  bitnet: {
    config: (keys, source) => {
      const config = decoder(keys, source);
      const isReproduction = config.vocab_size === 32_002;
      return { ...config, architectures: ["BitNetForCausalLM"], hidden_act: isReproduction ? "silu" : "relu2" };
    },
    naming: standard({ attn_sub_norm: "self_attn.attn_sub_norm", ffn_sub_norm: "mlp.ffn_sub_norm" }),
  },
  apertus: {
    config: (keys, source) => ({
      ...decoder(keys, source),
      ...xieluConfig(keys),
      architectures: ["ApertusForCausalLM"],
      hidden_act: "xielu",
    }),
    naming: standard({ attn_norm: "attention_layernorm", ffn_norm: "feedforward_layernorm" }, { stated: xieluTensors }),
  },
};
