// OLMo 2. Other than Llama: norms come after attention and feed-forward, not before them, and q and k are normed over all heads at
// once:  x += norm(attention(x));  x += norm(mlp(x)).

import { readCommon } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import { type DecoderConfig, decoderSpec, llamaSettings, loadDecoder } from "../decoder.js";
import type { ModelFamily } from "../model.js";

/** Norms come after what they norm. */
export const OLMO_NORMS = {
  attentionNorms: { before: null, after: "post_attention_layernorm" },
  mlpNorms: { before: null, after: "post_feedforward_layernorm" },
};

export const olmo2: ModelFamily<DecoderConfig> = {
  architectures: ["Olmo2ForCausalLM"],

  parseConfig(raw, file) {
    const c = new ConfigReader(raw, file);
    const plain = llamaSettings(c, readCommon(c, "Olmo2ForCausalLM", { eps: 1e-5 }));
    const bias = c.bool("attention_bias", false);
    return {
      ...plain,
      ...OLMO_NORMS,
      attention: { ...plain.attention, qkvBias: bias, outBias: bias, qkNorm: "all" },
    };
  },
  specOf: decoderSpec,
  load: (config, context) => loadDecoder(config, context),
};
