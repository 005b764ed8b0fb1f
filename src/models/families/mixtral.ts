// Mixtral: Mistral with a mixture of experts as every layer's feed-forward; the weights of the chosen ones sum to one.

import type { Block } from "../blocks/block.js";
import {
  loadExperts,
  loadRouter,
  type MixtureConfig,
  MixtureOfExperts,
  readTopK,
  softmaxRouter,
  W_EXPERTS,
} from "../blocks/mixture.js";
import { readCommon } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import { type DecoderConfig, decoderSpec, type LayerContext, llamaSettings, loadDecoder } from "../decoder.js";
import { layerWindows } from "../layer-windows.js";
import type { ModelFamily } from "../model.js";

interface MixtralConfig extends DecoderConfig {
  readonly mixture: MixtureConfig;
}

export const mixtral: ModelFamily<MixtralConfig> = {
  architectures: ["MixtralForCausalLM"],

  parseConfig(raw, file) {
    const c = new ConfigReader({ rope_theta: 1e6, ...raw }, file);
    const plain = llamaSettings(c, readCommon(c, "MixtralForCausalLM", { eps: 1e-5 }));
    const numExperts = c.int("num_local_experts", 8);
    return {
      ...plain,
      windows: layerWindows(c, plain, () => c.has("sliding_window")),
      mixture: {
        hiddenSize: plain.hiddenSize,
        numExperts,
        topK: readTopK(c, numExperts, 2),
        expertSize: plain.innerSize,
        activation: c.gatedActivation("hidden_act", "silu"),
      },
    };
  },
  specOf: decoderSpec,
  load: (config, context) => loadDecoder(config, context, { feedForward: (layer) => experts(config, layer) }),
};

function experts({ mixture }: MixtralConfig, { loader, name, project }: LayerContext): Block {
  const weights = {
    router: loadRouter(loader, `${name}.${W_EXPERTS.router}`, mixture),
    experts: loadExperts(loader, name, W_EXPERTS, mixture),
    shared: null,
  };
  return new MixtureOfExperts(loader, mixture.hiddenSize, weights, softmaxRouter(mixture, true), project);
}
