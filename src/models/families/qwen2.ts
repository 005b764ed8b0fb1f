// Qwen2 and Qwen2.5: Llama with biases on q, k and v; where a window is used, the first layers stay without it.

import { readCommon } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import { type DecoderConfig, decoderSpec, llamaSettings, loadDecoder } from "../decoder.js";
import { layerWindows } from "../layer-windows.js";
import type { ModelFamily } from "../model.js";

export const qwen2: ModelFamily<DecoderConfig> = {
  architectures: ["Qwen2ForCausalLM"],

  parseConfig(raw, file) {
    const c = new ConfigReader(raw, file);
    const plain = llamaSettings(c, readCommon(c, "Qwen2ForCausalLM"));
    return {
      ...plain,
      windows: qwenWindows(c, plain),
      attention: { ...plain.attention, qkvBias: true },
    };
  },
  specOf: decoderSpec,
  load: (config, context) => loadDecoder(config, context),
};

/** Windows only when use_sliding_window says so, and only from layer max_window_layers on. */
export function qwenWindows(c: ConfigReader, config: DecoderConfig): readonly number[] {
  const isUsed = c.bool("use_sliding_window", false) && c.has("sliding_window");
  const first = c.count("max_window_layers", 28);
  return layerWindows(c, config, (layer) => isUsed && layer >= first);
}
