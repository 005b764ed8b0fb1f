// Qwen1.5-MoE and Qwen2-MoE: Qwen2 attention, a mixture of experts beside a gated expert that every token shares.

import { readCommon } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import { decoderSpec, llamaSettings, loadDecoder } from "../decoder.js";
import type { ModelFamily } from "../model.js";
import { qwenFeedForward, readQwenMoe } from "./qwen-moe.js";
import { qwenWindows } from "./qwen2.js";
import type { QwenMoeConfig } from "./qwen3-moe.js";

export const qwen2Moe: ModelFamily<QwenMoeConfig> = {
  architectures: ["Qwen2MoeForCausalLM"],

  parseConfig(raw, file) {
    const c = new ConfigReader(raw, file);
    const plain = llamaSettings(c, readCommon(c, "Qwen2MoeForCausalLM"));
    return {
      ...plain,
      windows: qwenWindows(c, plain),
      attention: { ...plain.attention, qkvBias: c.bool("qkv_bias", true) },
      moe: readQwenMoe(c, plain, { normalize: false, sharedSize: 5632, expertSize: 1408, numExperts: 60, topK: 4 }),
    };
  },
  specOf: decoderSpec,
  load: (config, context) => loadDecoder(config, context, { feedForward: (layer) => qwenFeedForward(config, layer) }),
};
