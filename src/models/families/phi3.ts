// Phi-3, Phi-3.5 and Phi-4-mini: Llama whose checkpoints store q, k, v in one matrix and gate, up in another; part of each head may
// stay without rotation, and long contexts use longrope.

import { readCommon } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import { type DecoderConfig, decoderSpec, llamaSettings, loadDecoder } from "../decoder.js";
import { layerWindows } from "../layer-windows.js";
import type { ModelFamily } from "../model.js";

export const phi3: ModelFamily<DecoderConfig> = {
  architectures: ["Phi3ForCausalLM"],

  parseConfig(raw, file) {
    const c = new ConfigReader(raw, file);
    c.only("attention_bias", false);
    const plain = llamaSettings(c, readCommon(c, "Phi3ForCausalLM", { eps: 1e-5 }));
    return {
      ...plain,
      windows: layerWindows(c, plain, () => c.has("sliding_window")),
      attention: { ...plain.attention, qkv: ["qkv_proj"] },
      mlp: { ...plain.mlp, gateUp: ["gate_up_proj"] },
    };
  },
  specOf: decoderSpec,
  load: (config, context) => loadDecoder(config, context),
};
