// Mistral: Llama with a sliding window on every layer, unless the config sets it to null.

import { readCommon } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import { type DecoderConfig, decoderSpec, llamaSettings, loadDecoder } from "../decoder.js";
import { layerWindows } from "../layer-windows.js";
import type { ModelFamily } from "../model.js";

export const mistral: ModelFamily<DecoderConfig> = {
  architectures: ["MistralForCausalLM"],

  parseConfig(raw, file) {
    const c = new ConfigReader({ sliding_window: 4096, ...raw }, file);
    const plain = llamaSettings(c, readCommon(c, "MistralForCausalLM"));
    return { ...plain, windows: layerWindows(c, plain, () => c.has("sliding_window")) };
  },
  specOf: decoderSpec,
  load: (config, context) => loadDecoder(config, context),
};
