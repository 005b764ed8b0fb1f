// Mistral: Llama with a sliding window on every layer, unless the config sets it to null.

import { readCommon, specOf } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import { layerWindows } from "../layer-windows.js";
import { type LlamaLikeConfig, llamaSettings, loadLlamaLike } from "../llama-like.js";
import type { ModelFamily } from "../model.js";

export const mistral: ModelFamily<LlamaLikeConfig> = {
  architectures: ["MistralForCausalLM"],

  parseConfig(raw, file) {
    const c = new ConfigReader({ sliding_window: 4096, ...raw }, file);
    const plain = llamaSettings(c, readCommon(c, "MistralForCausalLM"));
    return { ...plain, windows: layerWindows(c, plain, () => c.has("sliding_window")) };
  },
  specOf: (config) => specOf(config, config.windows),
  load: (config, context) => loadLlamaLike(config, context),
};
