// Llama 1 to 3 and everything saved in its shape: the plain pre-norm decoder.

import { readCommon } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import { type DecoderConfig, decoderSpec, llamaSettings, loadDecoder } from "../decoder.js";
import type { ModelFamily } from "../model.js";

export const llama: ModelFamily<DecoderConfig> = {
  architectures: ["LlamaForCausalLM"],

  parseConfig(raw, file) {
    const c = new ConfigReader(raw, file);
    const plain = llamaSettings(c, readCommon(c, "LlamaForCausalLM"));
    const bias = c.bool("attention_bias", false);
    return {
      ...plain,
      attention: { ...plain.attention, qkvBias: bias, outBias: bias },
      mlp: { ...plain.mlp, hasBias: c.bool("mlp_bias", false) },
    };
  },
  specOf: decoderSpec,
  load: (config, context) => loadDecoder(config, context),
};
