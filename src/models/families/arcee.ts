// Arcee (AFM): Llama with a feed-forward without a gate, relu squared.

import { readCommon } from "../common-config.js";
import { attentionBias, llamaSettings, plainFamily } from "../decoder.js";

export const arcee = plainFamily("ArceeForCausalLM", (c, architecture) => {
  const plain = llamaSettings(c, readCommon(c, architecture, { eps: 1e-5, activation: "relu2" }));
  return {
    ...plain,
    attention: attentionBias(plain, c.bool("attention_bias", false)),
    mlp: { ...plain.mlp, gateUp: null, hasBias: c.bool("mlp_bias", false) },
  };
});
