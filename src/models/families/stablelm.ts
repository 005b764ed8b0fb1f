// StableLM: LayerNorm, a quarter of each head rotated, norms of their own for every query and key head in the larger models.

import { layerNormStyle } from "../blocks/norm.js";
import { readCommon } from "../common-config.js";
import { llamaSettings, plainFamily } from "../decoder.js";

export const stablelm = plainFamily(
  "StableLmForCausalLM",
  (c, architecture) => {
    const plain = llamaSettings(c, readCommon(c, architecture, { eps: 1e-5, epsField: "layer_norm_eps" }));
    const isParallel = c.bool("use_parallel_residual", false);
    const norm = layerNormStyle(plain.eps);
    return {
      ...plain,
      norm,
      isParallel,
      mlpNorms: { before: isParallel ? null : "post_attention_layernorm", after: null },
      attention: {
        ...plain.attention,
        qkvBias: c.bool("use_qkv_bias", false),
        qkNorm: c.bool("qk_layernorm", false) ? "norms" : "none",
        qkNormStyle: { ...norm, hasBias: false },
        qNorm: "q_layernorm",
        kNorm: "k_layernorm",
      },
    };
  },
  { partial_rotary_factor: 0.25 },
);
