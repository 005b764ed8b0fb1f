// Seed-OSS: Llama with biases on q, k and v.

import { readCommon } from "../common-config.js";
import { llamaSettings, plainFamily } from "../decoder.js";

export const seedOss = plainFamily("SeedOssForCausalLM", (c, architecture) => {
  const plain = llamaSettings(c, readCommon(c, architecture, { headDim: 128 }));
  return {
    ...plain,
    attention: {
      ...plain.attention,
      qkvBias: c.bool("attention_bias", true),
      outBias: c.bool("attention_out_bias", false),
    },
    mlp: { ...plain.mlp, hasBias: c.bool("mlp_bias", false) },
  };
});
