// Qwen3-MoE: Qwen3 attention, and a mixture of experts as the feed-forward of most layers.

import { readCommon } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import { type DecoderConfig, decoderSpec, llamaSettings, loadDecoder } from "../decoder.js";
import { layerWindows } from "../layer-windows.js";
import type { ModelFamily } from "../model.js";
import { type QwenMoe, qwenFeedForward, readQwenMoe } from "./qwen-moe.js";

export interface QwenMoeConfig extends DecoderConfig {
  readonly moe: QwenMoe;
}

export const qwen3Moe: ModelFamily<QwenMoeConfig> = {
  architectures: ["Qwen3MoeForCausalLM"],

  parseConfig(raw, file) {
    const c = new ConfigReader(raw, file);
    const plain = llamaSettings(c, readCommon(c, "Qwen3MoeForCausalLM"));
    const bias = c.bool("attention_bias", false);
    const isSliding = c.bool("use_sliding_window", false) && c.has("sliding_window");
    return {
      ...plain,
      windows: layerWindows(c, plain, () => isSliding),
      attention: { ...plain.attention, qkvBias: bias, outBias: bias, qkNorm: "head" },
      moe: readQwenMoe(c, plain, { normalize: false }),
    };
  },
  specOf: decoderSpec,
  load: (config, context) => loadDecoder(config, context, { feedForward: (layer) => qwenFeedForward(config, layer) }),
};
