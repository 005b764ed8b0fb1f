// BitNet: Llama with further norms before the last matrix of attention and of the feed-forward. Weights are read as they are: a
// checkpoint whose ternary weights are packed says so in its quantization_config.

import { readCommon } from "../common-config.js";
import { attentionBias, llamaSettings, plainFamily } from "../decoder.js";

export const bitnet = plainFamily(
  "BitNetForCausalLM",
  (c, architecture) => {
    const plain = llamaSettings(c, readCommon(c, architecture, { eps: 1e-5, activation: "relu2" }));
    return {
      ...plain,
      attention: { ...attentionBias(plain, c.bool("attention_bias", false)), outNorm: "attn_sub_norm" },
      mlp: { ...plain.mlp, innerNorm: "ffn_sub_norm" },
    };
  },
  { rope_theta: 500_000 },
);
