// Phi 1 to 2: LayerNorm, biases everywhere, half of each head rotated; attention and feed-forward side by side after one norm.

import { layerNormStyle } from "../blocks/norm.js";
import { readCommon } from "../common-config.js";
import { attentionBias, llamaSettings, plainFamily } from "../decoder.js";

export const phi = plainFamily(
  "PhiForCausalLM",
  (c, architecture) => {
    const absent = { eps: 1e-5, epsField: "layer_norm_eps", activation: "gelu_new" };
    const plain = llamaSettings(c, readCommon(c, architecture, absent));
    return {
      ...plain,
      norm: layerNormStyle(plain.eps),
      isParallel: true,
      mlpNorms: { before: null, after: null },
      attention: {
        ...attentionBias(plain, true),
        out: "dense",
        qkNorm: c.bool("qk_layernorm", false) ? "head" : "none",
        qNorm: "q_layernorm",
        kNorm: "k_layernorm",
      },
      mlp: { ...plain.mlp, gateUp: null, up: "fc1", down: "fc2", hasBias: true },
      hasHeadBias: true,
      names: { ...plain.names, finalNorm: "final_layernorm" },
    };
  },
  { partial_rotary_factor: 0.5 },
);
