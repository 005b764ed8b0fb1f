// Llama 1 to 3 and everything saved in its shape: the plain pre-norm decoder.

import { readCommon, specOf } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import { type LlamaLikeConfig, llamaSettings, loadLlamaLike } from "../llama-like.js";
import type { ModelFamily } from "../model.js";

export const llama: ModelFamily<LlamaLikeConfig> = {
  architectures: ["LlamaForCausalLM"],

  parseConfig(raw, file) {
    const c = new ConfigReader(raw, file);
    const plain = llamaSettings(c, readCommon(c, "LlamaForCausalLM"));
    const bias = c.bool("attention_bias", false);
    return {
      ...plain,
      attention: { ...plain.attention, qkvBias: bias, outBias: bias },
      mlpBias: c.bool("mlp_bias", false),
    };
  },
  specOf: (config) => specOf(config, config.windows),
  load: (config, context) => loadLlamaLike(config, context),
};
