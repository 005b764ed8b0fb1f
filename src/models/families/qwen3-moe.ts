// Qwen3-MoE: Qwen3 attention, and a mixture of experts as the feed-forward of most layers.

import {
  loadExperts,
  loadRouter,
  type MixtureConfig,
  MixtureOfExperts,
  MixtureSpace,
  MLP_EXPERTS,
  readTopK,
  softmaxRouter,
} from "../blocks/mixture.js";
import { readCommon, specOf } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import { layerWindows } from "../layer-windows.js";
import { denseMlp, type FeedForwardMaker, type LlamaLikeConfig, llamaSettings, loadLlamaLike } from "../llama-like.js";
import type { ModelFamily } from "../model.js";

interface Qwen3MoeConfig extends LlamaLikeConfig {
  readonly mixture: MixtureConfig;
  readonly normalize: boolean;
  readonly isDense: readonly boolean[]; // [L]
}

export const qwen3Moe: ModelFamily<Qwen3MoeConfig> = {
  architectures: ["Qwen3MoeForCausalLM"],

  parseConfig(raw, file) {
    const c = new ConfigReader(raw, file);
    const plain = llamaSettings(c, readCommon(c, "Qwen3MoeForCausalLM"));
    const bias = c.bool("attention_bias", false);
    const isSliding = c.bool("use_sliding_window", false) && c.has("sliding_window");
    const numExperts = c.int(c.has("num_experts") ? "num_experts" : "num_local_experts");
    const denseLayers = c.has("mlp_only_layers") ? c.ints("mlp_only_layers") : [];
    const step = c.int("decoder_sparse_step", 1);
    return {
      ...plain,
      windows: layerWindows(c, plain, () => isSliding),
      attention: { ...plain.attention, qkvBias: bias, outBias: bias, qkNorm: "head" },
      mixture: {
        hiddenSize: plain.hiddenSize,
        numExperts,
        topK: readTopK(c, numExperts),
        expertSize: c.int("moe_intermediate_size"),
        activation: c.gatedActivation("hidden_act", "silu"),
      },
      normalize: c.bool("norm_topk_prob", false),
      isDense: plain.windows.map((_, layer) => denseLayers.includes(layer) || (layer + 1) % step !== 0),
    };
  },
  specOf: (config) => specOf(config, config.windows),
  load: (config, context) => loadLlamaLike(config, context, feedForward(config)),
};

function feedForward(config: Qwen3MoeConfig): FeedForwardMaker {
  const { mixture } = config;
  const router = softmaxRouter(mixture, config.normalize);
  const dense = denseMlp(config);
  let space: MixtureSpace | null = null;
  return (loader, name, layer) => {
    if (config.isDense[layer]) return dense(loader, name, layer);
    space ??= new MixtureSpace(loader, mixture.numExperts, mixture.hiddenSize);
    const weights = {
      router: loadRouter(loader, `${name}.${MLP_EXPERTS.router}`, mixture),
      routerBias: null,
      experts: loadExperts(loader, name, MLP_EXPERTS, mixture),
      shared: null,
    };
    return new MixtureOfExperts(loader, space, weights, router);
  };
}
