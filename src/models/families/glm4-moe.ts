// GLM-4.5 and 4.6: GLM attention whose rotary embedding pairs halves, and DeepSeek's mixture.

import { readCommon } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import { type DecoderConfig, decoderSpec, llamaSettings, loadDecoder } from "../decoder.js";
import type { ModelFamily } from "../model.js";
import { appendedLayer } from "../predictors/mtp.js";
import { layersFrom } from "../read-check.js";
import { type DeepseekMoe, deepseekFeedForward, readDeepseekMoe } from "./deepseek-moe.js";

interface Glm4MoeConfig extends DecoderConfig {
  readonly moe: DeepseekMoe;
}

export const glm4Moe: ModelFamily<Glm4MoeConfig> = {
  architectures: ["Glm4MoeForCausalLM"],
  parseConfig(raw, file) {
    const c = new ConfigReader({ partial_rotary_factor: 0.5, ...raw }, file);
    const plain = llamaSettings(c, readCommon(c, "Glm4MoeForCausalLM", { eps: 1e-5 }));
    const absent = { numExperts: 128, topK: 8, expertSize: 1408, numShared: 1, numDense: 1 };
    return {
      ...plain,
      attention: {
        ...plain.attention,
        qkvBias: c.bool("attention_bias", false),
        qkNorm: c.bool("use_qk_norm", false) ? "head" : "none",
      },
      moe: readDeepseekMoe(c, plain, absent),
      mtp: (root, numLayers) => [appendedLayer(root, numLayers)],
    };
  },
  specOf: decoderSpec,
  load: (config, context) =>
    loadDecoder(config, context, { feedForward: (layer) => deepseekFeedForward(config, layer) }),
  ignoredTensors: ({ numLayers }) => [layersFrom(numLayers)],
};
