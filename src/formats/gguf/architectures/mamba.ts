// Models with Mamba-2 layers, alone or beside attention.

import type { TensorSource } from "../../../core/tensor.js";
import {
  asConvolution,
  asLogarithm,
  asVector,
  type GgufArchitectures,
  type Naming,
  SHARED_EXPERTS,
  STANDARD,
  standard,
  withoutSuffix,
} from "../gguf-architecture.js";
import type { GgufKeys } from "../gguf-keys.js";
import {
  type Config,
  decoder,
  experts,
  graniteScales,
  groupedExperts,
  MAX_COUNT,
  perLayer,
  vocabulary,
  withoutNextn,
} from "../gguf-parts.js";
import { GRANITE_EXPERTS } from "./mixtures.js";

/** A Mamba-2 mixer's tensors under `mixer`. */
function mambaNames(mixer: string): Readonly<Record<string, string>> {
  const parts = { in: "in_proj", conv1d: "conv1d", dt: "dt_bias", a: "A_log", d: "D", norm: "norm", out: "out_proj" };
  return Object.fromEntries(Object.entries(parts).map(([part, own]) => [`ssm_${part}`, `${mixer}.${own}`]));
}

const MAMBA_RESTORE = {
  ssm_conv1d: asConvolution,
  ssm_dt: withoutSuffix,
  ssm_a: asLogarithm,
  ssm_d: asVector,
  ssm_norm: asVector,
};

interface MambaSizes {
  readonly inner: number;
  readonly heads: number;
  readonly groups: number;
  readonly state: number;
  readonly taps: number;
}

function mambaSizes(keys: GgufKeys): MambaSizes {
  return {
    inner: keys.size("ssm.inner_size"),
    heads: keys.size("ssm.time_step_rank"),
    groups: keys.size("ssm.group_count"),
    state: keys.size("ssm.state_size"),
    taps: keys.size("ssm.conv_kernel"),
  };
}

/** As Granite 4 and Falcon-H1 spell it. */
function mambaConfig(keys: GgufKeys, source: TensorSource): Config {
  const { inner, heads, groups, state, taps } = mambaSizes(keys);
  return {
    mamba_d_ssm: inner,
    mamba_expand: inner / keys.size("embedding_length"),
    mamba_n_heads: heads,
    mamba_d_head: inner / heads,
    mamba_n_groups: groups,
    mamba_d_state: state,
    mamba_d_conv: taps,
    mamba_conv_bias: source.has("blk.0.ssm_conv1d.bias"),
    mamba_proj_bias: source.has("blk.0.ssm_in.bias"),
  };
}

/** Layers of one half each: without key heads and feed-forward they are mixers. */
function nemotronH(keys: GgufKeys, source: TensorSource): Config {
  const kvHeads = perLayer(keys, "attention.head_count_kv");
  const sizes = perLayer(keys, "feed_forward_length");
  const isMoe = keys.architecture === "nemotron_h_moe";
  const own = { kvHeads: Math.max(...kvHeads), innerSize: Math.max(...sizes) };
  const config = withoutNextn(keys, decoder(keys, source, own));
  const { inner, heads, groups, state, taps } = mambaSizes(keys);
  const kind = (layer: number): string =>
    kvHeads[layer]! > 0 ? "full_attention" : sizes[layer] === 0 ? "linear_attention" : isMoe ? "moe" : "mlp";
  const numShared = keys.number("expert_shared_count") ?? 0;
  const shared = keys.number("expert_shared_feed_forward_length");
  if (isMoe && (numShared !== 1 || shared === null)) throw keys.refuse("expert_shared_count", "1");
  keys.value("rope.scaling.finetuned"); // none of its layers has a rope
  return {
    ...config,
    ...(isMoe ? { ...groupedExperts(keys), moe_shared_expert_intermediate_size: shared } : {}),
    architectures: ["NemotronHForCausalLM"],
    layers_block_type: Array.from({ length: config.num_hidden_layers as number }, (_, layer) => kind(layer)),
    layer_norm_epsilon: keys.number("attention.layer_norm_epsilon") ?? config.rms_norm_eps,
    mlp_hidden_act: "relu2",
    mamba_num_heads: heads,
    mamba_head_dim: inner / heads,
    n_groups: groups,
    ssm_state_size: state,
    conv_kernel: taps,
  };
}

/** Queries and keys may be permuted: without a rope that changes nothing. */
const NEMOTRON_H: Naming = {
  ...STANDARD,
  model: { token_embd: "backbone.embeddings", output_norm: "backbone.norm_f", output: "lm_head" },
  layerPrefix: "backbone.layers",
  layer: {
    ...mambaNames("mixer"),
    attn_norm: "norm",
    attn_q: "mixer.q_proj",
    attn_k: "mixer.k_proj",
    attn_v: "mixer.v_proj",
    attn_output: "mixer.o_proj",
    ffn_up: "mixer.up_proj",
    ffn_down: "mixer.down_proj",
    ffn_gate_inp: "mixer.gate",
    exp_probs_b: "mixer.gate.e_score_correction_bias",
    ffn_up_shexp: SHARED_EXPERTS.ffn_up_shexp.replace("mlp", "mixer"),
    ffn_down_shexp: SHARED_EXPERTS.ffn_down_shexp.replace("mlp", "mixer"),
  },
  experts: { gate: "", up: "mixer.experts.{e}.up_proj", down: "mixer.experts.{e}.down_proj" },
  restore: { ...MAMBA_RESTORE, exp_probs_b: withoutSuffix },
};

export const MAMBA: GgufArchitectures = {
  mamba2: {
    config: (keys, source) => {
      const { inner, heads, groups, state, taps } = mambaSizes(keys);
      const hidden = keys.size("embedding_length");
      return {
        architectures: ["Mamba2ForCausalLM"],
        hidden_size: hidden,
        expand: inner / hidden,
        num_heads: heads,
        head_dim: inner / heads,
        n_groups: groups,
        state_size: state,
        conv_kernel: taps,
        use_conv_bias: source.has("blk.0.ssm_conv1d.bias"),
        use_bias: source.has("blk.0.ssm_in.bias"),
        layer_norm_epsilon: keys.number("attention.layer_norm_rms_epsilon") ?? 1e-5,
        num_hidden_layers: keys.size("block_count", MAX_COUNT),
        max_position_embeddings: keys.size("context_length"),
        ...vocabulary(keys, source),
      };
    },
    naming: {
      ...STANDARD,
      model: NEMOTRON_H.model,
      layerPrefix: "backbone.layers",
      layer: { ...mambaNames("mixer"), attn_norm: "norm" },
      restore: MAMBA_RESTORE,
    },
  },
  granitehybrid: {
    config: (keys, source) => {
      const kvHeads = perLayer(keys, "attention.head_count_kv");
      const isMoe = (keys.number("expert_count") ?? 0) > 0;
      if (!isMoe) keys.number("expert_used_count");
      const dense = source.has("blk.0.ffn_up.weight") ? source.get("blk.0.ffn_up.weight").shape[0] : 0;
      return {
        ...decoder(keys, source, { kvHeads: Math.max(...kvHeads) }),
        ...mambaConfig(keys, source),
        ...graniteScales(keys),
        ...(isMoe ? experts(keys) : { num_local_experts: 0 }),
        architectures: ["GraniteMoeHybridForCausalLM"],
        layer_types: kvHeads.map((heads) => (heads === 0 ? "linear_attention" : "full_attention")),
        shared_intermediate_size: keys.number("expert_shared_feed_forward_length") || dense,
      };
    },
    naming: {
      ...standard({
        ...mambaNames("mamba"),
        ...GRANITE_EXPERTS.layer,
        ffn_gate: "shared_mlp.gate_proj",
        ffn_up: "shared_mlp.up_proj",
        ffn_down: "shared_mlp.down_proj",
      }),
      experts: GRANITE_EXPERTS.experts,
      isPermuted: true,
      restore: MAMBA_RESTORE,
    },
  },
  // Its many multipliers are in the weights of a file.
  "falcon-h1": {
    config: (keys, source) => ({
      ...decoder(keys, source),
      ...mambaConfig(keys, source),
      architectures: ["FalconH1ForCausalLM"],
      mamba_rms_norm: source.has("blk.0.ssm_norm.weight"),
      mamba_norm_before_gate: false,
    }),
    naming: standard(
      {
        ...mambaNames("mamba"),
        ffn_norm: "pre_ff_layernorm",
        ffn_gate: "feed_forward.gate_proj",
        ffn_up: "feed_forward.up_proj",
        ffn_down: "feed_forward.down_proj",
      },
      { model: { ...STANDARD.model, output_norm: "model.final_layernorm" }, restore: MAMBA_RESTORE },
    ),
  },
  nemotron_h: { config: nemotronH, naming: NEMOTRON_H },
  nemotron_h_moe: { config: nemotronH, naming: NEMOTRON_H },
};
