// What the configurations of GGUF architectures are made of.

import type { TensorSource } from "../../core/tensor.js";
import type { Config } from "./gguf-architecture.js";
import type { GgufKeys } from "./gguf-keys.js";
import { ggufRope } from "./gguf-rope.js";

export type { Config } from "./gguf-architecture.js";

/** Most layers, and most experts of a layer, that a file may speak of. */
export const MAX_COUNT = 10_000;

export interface DecoderKeys {
  readonly innerKey?: string;
  /** Where layers differ in their inner size. */
  readonly innerSize?: number;
  /** Where layers differ in their key heads. */
  readonly kvHeads?: number;
  /** Where heads are made from a latent, which attention.key_length speaks of. */
  readonly headDim?: number;
  readonly ropeDim?: number;
}

/** What all decoders with RMS norm and rotary embedding share. */
export function decoder(keys: GgufKeys, source: TensorSource, own: DecoderKeys = {}): Config {
  const { innerKey = "feed_forward_length" } = own;
  const hidden = keys.size("embedding_length");
  const heads = keys.size("attention.head_count");
  const headDim = own.headDim ?? keys.number("attention.key_length") ?? hidden / heads;
  if (own.headDim === undefined && (keys.number("attention.value_length") ?? headDim) !== headDim) {
    throw keys.refuse("attention.value_length", `${headDim}, as attention.key_length`);
  }
  keys.value("feed_forward_length"); // mixtures may state it beside the experts' own
  return {
    hidden_act: "silu",
    hidden_size: hidden,
    head_dim: headDim,
    intermediate_size: own.innerSize ?? keys.size(innerKey),
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
export function hybrid(keys: GgufKeys, source: TensorSource, own: DecoderKeys = {}): Config {
  const numValueHeads = keys.size("ssm.time_step_rank");
  const interval = keys.number("full_attention_interval") ?? 4;
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

export function hybridMoe(keys: GgufKeys, source: TensorSource): Config {
  return {
    ...hybrid(keys, source, { innerKey: "expert_feed_forward_length" }),
    ...experts(keys),
    ...sharedExpert(keys),
    norm_topk_prob: true,
  };
}

export function sharedExpert(keys: GgufKeys): Config {
  return {
    moe_intermediate_size: keys.size("expert_feed_forward_length"),
    shared_expert_intermediate_size: keys.size("expert_shared_feed_forward_length"),
  };
}

export function vocabulary(keys: GgufKeys, source: TensorSource): Config {
  const ends = [keys.tokenId("eos"), keys.tokenId("eot"), keys.tokenId("eom")].filter((id) => id !== null);
  return {
    bos_token_id: keys.tokenId("bos"),
    eos_token_id: [...new Set(ends)],
    tie_word_embeddings: !source.has("output.weight"),
    vocab_size: source.get("token_embd.weight").shape[0],
  };
}

/** Of layers with windows beside full attention: a plain rope of their own, by default of base `theta`. */
export function localRope(keys: GgufKeys, config: Config, theta: number): Config {
  const local = { rope_type: "default", rope_theta: keys.number("rope.freq_base_swa") ?? theta };
  return { full_attention: config.rope_parameters, sliding_attention: local };
}

/** Granite's multipliers. A key of another meaning is its switch of the rope, which only hybrid models may turn off. */
export function graniteScales(keys: GgufKeys): Config {
  const hasRope = keys.value("rope.scaling.finetuned") !== false;
  if (!hasRope && keys.architecture !== "granitehybrid") throw keys.refuse("rope.scaling.finetuned", "true");
  return {
    position_embedding_type: hasRope ? "rope" : "nope",
    attention_multiplier: keys.number("attention.scale"),
    embedding_multiplier: keys.number("embedding_scale") ?? 1,
    residual_multiplier: keys.number("residual_scale") ?? 1,
    logits_scaling: keys.number("logit_scale") ?? 1,
  };
}

/** Numbers of the functions that make weights of a router's scores; a file may leave it out, or say 0. */
export const GATING = { softmax: 1, sigmoid: 2, softmaxOfChosen: 3 };

/** Experts without groups. `gating` is the only function that the family has; weights of the chosen are normalised, or not, as it does. */
export function experts(keys: GgufKeys, gating = GATING.softmax): Config {
  const stated = keys.number("expert_gating_func");
  if (stated !== null && stated !== 0 && stated !== gating) throw keys.refuse("expert_gating_func", `${gating}`);
  const scale = keys.number("expert_weights_scale");
  if (scale !== null && scale !== 0 && scale !== 1) throw keys.refuse("expert_weights_scale", "1");
  keys.value("expert_weights_norm");
  const count = keys.size("expert_count", MAX_COUNT);
  return { num_experts: count, num_local_experts: count, num_experts_per_tok: keys.size("expert_used_count") };
}

/** DeepSeek's experts and those after them: the best groups first, beside shared experts. */
export function groupedExperts(keys: GgufKeys): Config {
  const count = keys.size("expert_count", MAX_COUNT);
  return {
    first_k_dense_replace: keys.number("leading_dense_block_count") ?? 0,
    moe_intermediate_size: keys.size("expert_feed_forward_length"),
    n_routed_experts: count,
    num_local_experts: count,
    num_experts_per_tok: keys.size("expert_used_count"),
    n_shared_experts: keys.number("expert_shared_count") ?? 0,
    n_group: keys.number("expert_group_count") || 1,
    topk_group: keys.number("expert_group_used_count") || 1,
    routed_scaling_factor: keys.number("expert_weights_scale") || 1,
    norm_topk_prob: keys.value("expert_weights_norm") === true,
  };
}

/** Every `period`-th layer has full attention, the others a window; the file may say otherwise. */
export function layerTypes(keys: GgufKeys, period: number): string[] {
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

/** Layers at the end that predict several tokens ahead are counted by files, but are not of the model. */
export function withoutNextn(keys: GgufKeys, config: Config): Config {
  const numAhead = keys.number("nextn_predict_layers") ?? 0;
  const numLayers = (config.num_hidden_layers as number) - numAhead;
  return { ...config, num_hidden_layers: numLayers, num_nextn_predict_layers: numAhead };
}

/** One number per layer, or one for all. */
export function perLayer(keys: GgufKeys, key: string): number[] {
  const value = keys.value(key);
  const count = keys.size("block_count", MAX_COUNT);
  const numbers = Array.isArray(value) ? value : Array.from({ length: count }, () => value);
  if (numbers.length !== count || !numbers.every((n) => Number.isSafeInteger(n) && n >= 0)) {
    throw keys.refuse(key, `one whole number, or one for each of ${count} layers`);
  }
  return numbers;
}

export function layers<T>(keys: GgufKeys, of: (layer: number) => T): T[] {
  return Array.from({ length: keys.size("block_count", MAX_COUNT) }, (_, layer) => of(layer));
}
