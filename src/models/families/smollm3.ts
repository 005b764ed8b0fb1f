// SmolLM3: Llama in which some layers, every fourth unless the config lists them, have no rotary embedding.

import { readCommon } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import { type DecoderConfig, decoderSpec, llamaSettings, loadDecoder } from "../decoder.js";
import { layerWindows } from "../layer-windows.js";
import type { ModelFamily } from "../model.js";

export const smollm3: ModelFamily<DecoderConfig> = {
  architectures: ["SmolLM3ForCausalLM"],

  parseConfig(raw, file) {
    const c = new ConfigReader({ rope_theta: 2e6, ...raw }, file);
    const plain = llamaSettings(c, readCommon(c, "SmolLM3ForCausalLM", { isTied: true }));
    const bias = c.bool("attention_bias", false);
    const isSliding = c.bool("use_sliding_window", false) && c.has("sliding_window");
    const hasRope = ropeLayers(c, plain.numLayers);
    return {
      ...plain,
      ropeOf: hasRope.map((has) => (has ? 0 : null)),
      windows: layerWindows(c, plain, (layer) => isSliding && !hasRope[layer]),
      attention: { ...plain.attention, qkvBias: bias, outBias: bias },
      mlp: { ...plain.mlp, hasBias: c.bool("mlp_bias", false) },
    };
  },
  specOf: decoderSpec,
  load: (config, context) => loadDecoder(config, context),
};

/** `no_rope_layers` has a 1 for each layer with rotary embedding, whatever its name suggests. */
function ropeLayers(c: ConfigReader, numLayers: number): readonly boolean[] {
  if (!c.has("no_rope_layers")) {
    const interval = c.int("no_rope_layer_interval", 4);
    return Array.from({ length: numLayers }, (_, layer) => (layer + 1) % interval !== 0);
  }
  const flags = c.ints("no_rope_layers");
  c.check(flags.length === numLayers, "no_rope_layers", `a list of ${numLayers} numbers`);
  return flags.map((flag) => flag !== 0);
}
