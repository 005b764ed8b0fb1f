// Gemma 1 to 4.

import { toFloat32 } from "../../../core/dequantize/dequantize.js";
import type { TensorSource } from "../../../core/tensor.js";
import { entryOf } from "../../tensor-views.js";
import {
  type GgufArchitectures,
  POST_NORMS,
  type Restore,
  STANDARD,
  standard,
  withoutSuffix,
} from "../gguf-architecture.js";
import type { GgufKeys } from "../gguf-keys.js";
import { type Config, type DecoderKeys, decoder, experts, layerTypes, localRope, perLayer } from "../gguf-parts.js";

export function gemma(keys: GgufKeys, source: TensorSource, own: DecoderKeys = {}): Config {
  const { hidden_act: _, ...config } = decoder(keys, source, own);
  const heads = config.num_attention_heads as number;
  // No key says so: only the 27B models (46 and 62 layers) scale queries by the width of the model, not of a head.
  const isLargest = config.num_hidden_layers === (keys.architecture === "gemma2" ? 46 : 62);
  return {
    ...config,
    hidden_activation: "gelu_pytorch_tanh",
    query_pre_attn_scalar: isLargest ? (config.hidden_size as number) / heads : config.head_dim,
  };
}

/** Of Gemma 3n and the small Gemma 4. */
function perLayerInputs(keys: GgufKeys, source: TensorSource): Config {
  const width = keys.number("embedding_length_per_layer_input") ?? 0;
  if (width === 0) return { hidden_size_per_layer_input: 0 };
  return {
    hidden_size_per_layer_input: width,
    vocab_size_per_layer_input: source.get("per_layer_token_embd.weight").shape[0],
  };
}

/** Gemma 4 turns the first of a full layer's frequencies only: the divisors of the others are as good as infinite. */
function proportionalRope(keys: GgufKeys, source: TensorSource): Config {
  const factors = toFloat32(source.get("rope_freqs.weight"));
  const turned = factors.filter((factor) => factor === 1).length;
  const isRight = factors.every((factor, i) => (i < turned ? factor === 1 : factor >= 1e29));
  if (!isRight) throw keys.refuse("rope.scaling.type", "divisors that are 1, then 1e30, in rope_freqs.weight");
  return {
    rope_type: "proportional",
    rope_theta: keys.number("rope.freq_base") ?? 1e6,
    partial_rotary_factor: turned / factors.length,
  };
}

/** Of the mixtures among Gemma 4: every layer has experts beside its feed-forward. */
function expertsBeside(keys: GgufKeys, source: TensorSource): Config {
  if (!source.has("blk.0.ffn_gate_inp.weight")) return {};
  const { num_experts_per_tok: top_k_experts, ...counts } = experts(keys);
  return {
    ...counts,
    top_k_experts,
    enable_moe_block: true,
    moe_intermediate_size: keys.size("expert_feed_forward_length"),
  };
}

/** Full layers have heads of their own; without a value matrix, keys serve as values. */
function gemma4(keys: GgufKeys, source: TensorSource): Config {
  const types = layerTypes(keys, 6);
  const isFull = types.map((type) => type === "full_attention");
  const kvHeads = perLayer(keys, "attention.head_count_kv");
  const headDim = keys.size("attention.key_length_swa");
  const fullDim = keys.size("attention.key_length");
  for (const [key, size] of [
    ["attention.value_length", fullDim],
    ["attention.value_length_swa", headDim],
    ["rope.dimension_count", fullDim],
    ["rope.dimension_count_swa", headDim],
  ] as const) {
    if ((keys.number(key) ?? size) !== size) throw keys.refuse(key, `${size}`);
  }
  const sizes = perLayer(keys, "feed_forward_length");
  const numShared = keys.number("attention.shared_kv_layers") ?? 0;
  const isWide = numShared > 0 && sizes.at(-1) === 2 * sizes[0]!;
  const wanted = sizes.map((_, layer) => sizes[0]! * (isWide && layer >= sizes.length - numShared ? 2 : 1));
  if (sizes.some((size, layer) => size !== wanted[layer]))
    throw keys.refuse("feed_forward_length", "one size, or twice as much in the layers without keys");
  const fullHeads = kvHeads[isFull.indexOf(true)]!;
  const own = { headDim, innerSize: sizes[0]!, kvHeads: kvHeads[isFull.indexOf(false)] ?? fullHeads };
  return {
    ...gemma(keys, source, own),
    ...perLayerInputs(keys, source),
    ...expertsBeside(keys, source),
    architectures: ["Gemma4ForCausalLM"],
    // Not in the file: the E models, which have per-layer inputs, let a picture's tokens see what is before them only.
    use_bidirectional_attention: keys.number("embedding_length_per_layer_input") ? null : "vision",
    per_layer_config: Object.fromEntries(
      isFull.flatMap((full, layer) => (full ? [[layer, { head_dim: fullDim, num_key_value_heads: fullHeads }]] : [])),
    ),
    attention_k_eq_v: isFull.some(
      (full, layer) => full && source.has(`blk.${layer}.attn_k.weight`) && !source.has(`blk.${layer}.attn_v.weight`),
    ),
    use_double_wide_mlp: isWide,
    num_kv_shared_layers: numShared,
    final_logit_softcapping: keys.number("final_logit_softcapping"),
    sliding_window: keys.size("attention.sliding_window"),
    layer_types: types,
    rope_parameters: {
      full_attention: proportionalRope(keys, source),
      sliding_attention: { rope_type: "default", rope_theta: keys.number("rope.freq_base_swa") ?? 1e4 },
    },
  };
}

const PER_LAYER_MODEL = {
  ...STANDARD.model,
  per_layer_token_embd: "model.embed_tokens_per_layer",
  per_layer_model_proj: "model.per_layer_model_projection",
  per_layer_proj_norm: "model.per_layer_projection_norm",
};

const PER_LAYER = {
  ...POST_NORMS,
  inp_gate: "per_layer_input_gate",
  proj: "per_layer_projection",
  post_norm: "post_per_layer_input_norm",
};

/** [streams - 1, hidden, hidden] -> a matrix of each stream. */
const splitStreams: Restore = (tensor, name) =>
  Array.from({ length: tensor.shape[0]! }, (_, i) => entryOf(tensor, name.replace(/\.weight$/, `.${i}.weight`), i));

export const GEMMA: GgufArchitectures = {
  gemma: {
    config: (keys, source) => ({ ...gemma(keys, source), architectures: ["GemmaForCausalLM"] }),
    naming: { ...STANDARD, normsPlusOne: true },
  },
  gemma2: {
    config: (keys, source) => ({
      ...gemma(keys, source),
      architectures: ["Gemma2ForCausalLM"],
      attn_logit_softcapping: keys.number("attn_logit_softcapping"),
      final_logit_softcapping: keys.number("final_logit_softcapping"),
      layer_types: layerTypes(keys, 2),
      sliding_window: keys.size("attention.sliding_window"),
    }),
    naming: standard(POST_NORMS, { normsPlusOne: true }),
  },
  gemma3: {
    config: (keys, source) => {
      const config = gemma(keys, source);
      const window = keys.number("attention.sliding_window");
      return {
        ...config,
        architectures: ["Gemma3ForCausalLM"],
        final_logit_softcapping: keys.number("final_logit_softcapping"),
        layer_types: layerTypes(keys, window === null ? 1 : 6),
        sliding_window: window,
        rope_parameters: localRope(keys, config, 10_000),
      };
    },
    naming: standard(POST_NORMS, { normsPlusOne: true }),
  },
  gemma3n: {
    config: (keys, source) => {
      const sizes = perLayer(keys, "feed_forward_length");
      const config = gemma(keys, source, { innerSize: sizes[0]! });
      return {
        ...config,
        ...perLayerInputs(keys, source),
        architectures: ["Gemma3nForCausalLM"],
        intermediate_size: sizes,
        final_logit_softcapping: keys.number("final_logit_softcapping") ?? 0,
        layer_types: layerTypes(keys, 5),
        sliding_window: keys.size("attention.sliding_window"),
        rope_parameters: localRope(keys, config, 10_000),
        num_kv_shared_layers: keys.number("attention.shared_kv_layers") ?? Math.max(0, sizes.length - 20),
        altup_num_inputs: keys.size("altup.num_inputs"),
        altup_active_idx: keys.number("altup.active_idx") ?? 0,
        laurel_rank: source.get("blk.0.laurel_l.weight").shape[0],
        activation_sparsity_scale: keys.value("activation_sparsity_scale"),
      };
    },
    naming: standard(
      {
        ...PER_LAYER,
        altup_correct_scale: "altup.correct_output_scale",
        altup_correct_coef: "altup.correction_coefs",
        altup_predict_coef: "altup.prediction_coefs",
        altup_router: "altup.modality_router",
        altup_router_norm: "altup.router_norm",
        laurel_l: "laurel.linear_left",
        laurel_r: "laurel.linear_right",
        laurel_post_norm: "laurel.post_laurel_norm",
      },
      {
        model: {
          ...PER_LAYER_MODEL,
          altup_proj: "model.altup_projections",
          altup_unembd_proj: "model.altup_unembed_projections",
        },
        restore: { altup_proj: splitStreams, altup_unembd_proj: splitStreams, altup_correct_scale: withoutSuffix },
      },
    ),
  },
  gemma4: {
    config: gemma4,
    naming: standard(
      {
        ...PER_LAYER,
        layer_output_scale: "layer_scalar",
        pre_ffw_norm_2: "pre_feedforward_layernorm_2",
        post_ffw_norm_1: "post_feedforward_layernorm_1",
        post_ffw_norm_2: "post_feedforward_layernorm_2",
        ffn_gate_inp: "router.proj",
      },
      {
        model: PER_LAYER_MODEL,
        restore: { layer_output_scale: withoutSuffix },
        experts: { gate: "experts.{e}.gate_proj", up: "experts.{e}.up_proj", down: "experts.{e}.down_proj" },
        scales: { ffn_gate_inp: "router.scale", ffn_down_exps: "router.per_expert_scale" },
      },
    ),
  },
};
