// Qwen3-MoE: Qwen3 attention, and a mixture of experts as the feed-forward of most layers.

import type { Block } from "../blocks/block.js";
import {
  loadExperts,
  loadRouter,
  type MixtureConfig,
  MixtureOfExperts,
  MLP_EXPERTS,
  readTopK,
  softmaxRouter,
} from "../blocks/mixture.js";
import { readCommon } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import {
  type DecoderConfig,
  decoderSpec,
  denseMlp,
  type LayerContext,
  llamaSettings,
  loadDecoder,
} from "../decoder.js";
import { layerWindows } from "../layer-windows.js";
import type { ModelFamily } from "../model.js";

interface Qwen3MoeConfig extends DecoderConfig {
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
  specOf: decoderSpec,
  load: (config, context) => loadDecoder(config, context, { feedForward: (layer) => feedForward(config, layer) }),
};

function feedForward(config: Qwen3MoeConfig, context: LayerContext): Block {
  if (config.isDense[context.layer]) return denseMlp(config, context);
  const { loader, name, project } = context;
  const { mixture } = config;
  const weights = {
    router: loadRouter(loader, `${name}.${MLP_EXPERTS.router}`, mixture),
    experts: loadExperts(loader, name, MLP_EXPERTS, mixture),
    shared: null,
  };
  return new MixtureOfExperts(loader, config.hiddenSize, weights, softmaxRouter(mixture, config.normalize), project);
}
