// Phi-3, Phi-3.5 and Phi-4-mini: Llama whose checkpoints store q, k, v in one matrix and gate, up in another; part of each head may
// stay without rotation, and long contexts use longrope.

import { readCommon, specOf } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import { layerWindows } from "../layer-windows.js";
import { type LlamaLikeConfig, llamaSettings, loadLlamaLike } from "../llama-like.js";
import type { ModelFamily } from "../model.js";

export const phi3: ModelFamily<LlamaLikeConfig> = {
  architectures: ["Phi3ForCausalLM"],

  parseConfig(raw, file) {
    const c = new ConfigReader(raw, file);
    c.only("attention_bias", false);
    const plain = llamaSettings(c, readCommon(c, "Phi3ForCausalLM", { eps: 1e-5 }));
    return {
      ...plain,
      windows: layerWindows(c, plain, () => c.has("sliding_window")),
      attention: { ...plain.attention, isFused: true },
      isMlpFused: true,
    };
  },
  specOf: (config) => specOf(config, config.windows),
  load: (config, context) => loadLlamaLike(config, context),
};
