// Granite 3: Llama with four fixed multipliers, on embeddings, attention scores, residual branches and logits.

import { readCommon } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import { type DecoderConfig, decoderSpec, llamaSettings, loadDecoder } from "../decoder.js";
import type { ModelFamily } from "../model.js";

export const granite: ModelFamily<DecoderConfig> = {
  architectures: ["GraniteForCausalLM"],

  parseConfig(raw, file) {
    const c = new ConfigReader(raw, file);
    const plain = llamaSettings(c, readCommon(c, "GraniteForCausalLM"));
    const bias = c.bool("attention_bias", false);
    return {
      ...plain,
      attention: { ...plain.attention, qkvBias: bias, outBias: bias },
      mlp: { ...plain.mlp, hasBias: c.bool("mlp_bias", false) },
      embeddingScale: c.number("embedding_multiplier", 1),
      attentionScale: c.number("attention_multiplier", 1),
      residualScale: c.number("residual_multiplier", 1),
      logitsScale: 1 / c.number("logits_scaling", 1),
    };
  },
  specOf: decoderSpec,
  load: (config, context) => loadDecoder(config, context),
};
