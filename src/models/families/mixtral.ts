// Mixtral: Mistral with a mixture of experts as every layer's feed-forward; the weights of the chosen ones sum to one.

import {
  loadExperts,
  loadRouter,
  type MixtureConfig,
  type MixtureNames,
  MixtureOfExperts,
  MixtureSpace,
  readTopK,
  softmaxRouter,
} from "../blocks/mixture.js";
import { readCommon, specOf } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import { layerWindows } from "../layer-windows.js";
import { type FeedForwardMaker, type LlamaLikeConfig, llamaSettings, loadLlamaLike } from "../llama-like.js";
import type { ModelFamily } from "../model.js";

interface MixtralConfig extends LlamaLikeConfig {
  readonly mixture: MixtureConfig;
}

const NAMES: MixtureNames = {
  router: "block_sparse_moe.gate.weight",
  experts: "block_sparse_moe.experts",
  gate: "w1",
  up: "w3",
  down: "w2",
};

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
  specOf: (config) => specOf(config, config.windows),
  load: (config, context) => loadLlamaLike(config, context, experts(config)),
};

function experts({ mixture }: MixtralConfig): FeedForwardMaker {
  const router = softmaxRouter(mixture, true);
  let space: MixtureSpace | null = null;
  return (loader, layer) => {
    space ??= new MixtureSpace(loader, mixture.numExperts, mixture.hiddenSize);
    const weights = {
      router: loadRouter(loader, `${layer}.${NAMES.router}`, mixture),
      routerBias: null,
      experts: loadExperts(loader, layer, NAMES, mixture),
      shared: null,
    };
    return new MixtureOfExperts(loader, space, weights, router);
  };
}
