// GLM-4: Llama with half of each head rotated, neighbours paired, gate and up in one matrix. The models of 2025 (Glm4) norm after
// attention and feed-forward too.

import { readCommon } from "../common-config.js";
import type { ConfigReader } from "../config-reader.js";
import { type DecoderConfig, llamaSettings, plainFamily } from "../decoder.js";

const DEFAULTS = { partial_rotary_factor: 0.5 };

export const glm = plainFamily("GlmForCausalLM", readGlm, DEFAULTS);

export const glm4 = plainFamily(
  "Glm4ForCausalLM",
  (c, architecture) => ({
    ...readGlm(c, architecture),
    attentionNorms: { before: "input_layernorm", after: "post_self_attn_layernorm" },
    mlpNorms: { before: "post_attention_layernorm", after: "post_mlp_layernorm" },
  }),
  DEFAULTS,
);

function readGlm(c: ConfigReader, architecture: string): DecoderConfig {
  const plain = llamaSettings(c, readCommon(c, architecture, { eps: 1.5625e-7, headDim: 128 }));
  return {
    ...plain,
    isRopeInterleaved: true,
    attention: { ...plain.attention, qkvBias: c.bool("attention_bias", true) },
    mlp: { ...plain.mlp, gateUp: ["gate_up_proj"] },
  };
}
