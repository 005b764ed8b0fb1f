// Granite 3: Llama with four fixed multipliers, on embeddings, attention scores, residual branches and logits.

import { readCommon, specOf } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import { type LlamaLikeConfig, llamaSettings, loadLlamaLike } from "../llama-like.js";
import type { ModelFamily } from "../model.js";

export const granite: ModelFamily<LlamaLikeConfig> = {
  architectures: ["GraniteForCausalLM"],

  parseConfig(raw, file) {
    const c = new ConfigReader(raw, file);
    const plain = llamaSettings(c, readCommon(c, "GraniteForCausalLM"));
    const bias = c.bool("attention_bias", false);
    return {
      ...plain,
      attention: { ...plain.attention, qkvBias: bias, outBias: bias },
      mlpBias: c.bool("mlp_bias", false),
      embeddingScale: c.number("embedding_multiplier", 1),
      attentionScale: c.number("attention_multiplier", 1),
      residualScale: c.number("residual_multiplier", 1),
      logitsScale: 1 / c.number("logits_scaling", 1),
    };
  },
  specOf: (config) => specOf(config, config.windows),
  load: (config, context) => loadLlamaLike(config, context),
};
