// Nemotron (Minitron): LayerNorm with weights stored less one, part of each head rotated, a feed-forward without a gate.

import { layerNormStyle } from "../blocks/norm.js";
import { readCommon } from "../common-config.js";
import { attentionBias, llamaSettings, plainFamily } from "../decoder.js";

export const nemotron = plainFamily(
  "NemotronForCausalLM",
  (c, architecture) => {
    const absent = { eps: 1e-5, epsField: "norm_eps", activation: "relu2" };
    const plain = llamaSettings(c, readCommon(c, architecture, absent));
    return {
      ...plain,
      norm: { ...layerNormStyle(plain.eps), offset: 1 },
      attention: attentionBias(plain, c.bool("attention_bias", false)),
      mlp: { ...plain.mlp, gateUp: null, hasBias: c.bool("mlp_bias", false) },
    };
  },
  { partial_rotary_factor: 0.5 },
);
