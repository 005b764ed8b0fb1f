// Qwen3: Llama with a norm on each query and key head before rotary.

import { readCommon } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import { type DecoderConfig, decoderSpec, llamaSettings, loadDecoder } from "../decoder.js";
import type { ModelFamily } from "../model.js";
import { qwenWindows } from "./qwen2.js";

export const qwen3: ModelFamily<DecoderConfig> = {
  architectures: ["Qwen3ForCausalLM"],

  parseConfig(raw, file) {
    const c = new ConfigReader(raw, file);
    const plain = llamaSettings(c, readCommon(c, "Qwen3ForCausalLM", { headDim: 128 }));
    const bias = c.bool("attention_bias", false);
    return {
      ...plain,
      windows: qwenWindows(c, plain),
      attention: { ...plain.attention, qkvBias: bias, outBias: bias, qkNorm: "head" },
    };
  },
  specOf: decoderSpec,
  load: (config, context) => loadDecoder(config, context),
};
