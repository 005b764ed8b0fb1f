// Hunyuan, dense: Llama that norms query and key heads after rotary. Its dynamic rope with an alpha is a larger base.

import { readCommon } from "../common-config.js";
import type { ConfigReader } from "../config-reader.js";
import { ConfigReader as Reader } from "../config-reader.js";
import { type DecoderConfig, llamaSettings, plainFamily } from "../decoder.js";

export const hunyuan = plainFamily("HunYuanDenseV1ForCausalLM", (c, architecture) => {
  const o = withAlpha(c);
  const plain: DecoderConfig = llamaSettings(o, readCommon(o, architecture, { eps: 1e-5 }));
  const bias = c.bool("attention_bias", false);
  return {
    ...plain,
    attention: {
      ...plain.attention,
      qkvBias: bias,
      outBias: bias,
      qkNorm: "head",
      qNorm: "query_layernorm",
      kNorm: "key_layernorm",
      isNormedAfterRotary: true,
    },
  };
});

/** rope "dynamic" with alpha: theta * alpha ** (D / (D - 2)), and nothing dynamic. */
function withAlpha(c: ConfigReader): ConfigReader {
  const field = c.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  const rope = c.raw[field] as Record<string, unknown> | null | undefined;
  if (rope === null || rope === undefined || !("alpha" in rope)) return c;
  const {
    alpha,
    rope_type,
    type,
    factor: _,
    beta_fast: _f,
    beta_slow: _s,
    mscale: _m,
    mscale_all_dim: _a,
    ...rest
  } = rope;
  if (alpha === null || (rope_type ?? type) !== "dynamic") {
    return new Reader({ ...c.raw, [field]: { ...rope, alpha: null } }, c.file);
  }
  const headDim = c.int("head_dim", c.int("hidden_size") / c.int("num_attention_heads"));
  const theta = Number(rest.rope_theta ?? c.raw.rope_theta ?? 10_000);
  const raised = theta * Number(alpha) ** (headDim / (headDim - 2));
  return new Reader({ ...c.raw, [field]: { ...rest, rope_theta: raised, rope_type: "default" } }, c.file);
}
