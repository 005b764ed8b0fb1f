// gpt-oss. Other than Llama: every other layer sees a sliding window, each head has a sink in its softmax, projections have biases,
// and the feed-forward is a mixture of experts with a gate of its own kind, its weights a softmax over the chosen experts alone.

import type { Block } from "../blocks/block.js";
import { loadGptOssExperts } from "../blocks/gpt-oss-experts.js";
import { chosenSoftmaxRouter, loadRouter, type MixtureConfig, MixtureOfExperts, readTopK } from "../blocks/mixture.js";
import { readCommon } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import { type DecoderConfig, decoderSpec, type LayerContext, llamaSettings, loadDecoder } from "../decoder.js";
import { layerWindows } from "../layer-windows.js";
import type { ModelFamily } from "../model.js";
import { withAbsentRope } from "../rope.js";

interface GptOssConfig extends DecoderConfig {
  readonly mixture: MixtureConfig;
}

export const gptOss: ModelFamily<GptOssConfig> = {
  architectures: ["GptOssForCausalLM"],

  parseConfig(raw, file) {
    const settings = { rope_theta: 150_000, sliding_window: 128, ...withoutMxfp4(raw) };
    const c = new ConfigReader(withAbsentRope(settings, DEFAULT_ROPE), file);
    c.only("swiglu_limit", 7);
    const plain = llamaSettings(c, readCommon(c, "GptOssForCausalLM", { eps: 1e-5, headDim: 64 }));
    const bias = c.bool("attention_bias", true);
    const numExperts = c.int("num_local_experts");
    return {
      ...plain,
      windows: layerWindows(c, plain, (layer) => layer % 2 === 0),
      attention: { ...plain.attention, qkvBias: bias, outBias: bias },
      hasSinks: true,
      mixture: {
        hiddenSize: plain.hiddenSize,
        numExperts,
        topK: readTopK(c, numExperts),
        expertSize: plain.innerSize,
        activation: "oss",
      },
    };
  },
  specOf: decoderSpec,
  load: (config, context) => loadDecoder(config, context, { feedForward: (layer) => experts(config, layer) }),
};

function experts({ mixture }: GptOssConfig, { loader, name, project }: LayerContext): Block {
  const weights = {
    router: loadRouter(loader, `${name}.mlp.router`, mixture, true),
    experts: loadGptOssExperts(loader, `${name}.mlp.experts`, mixture),
    shared: null,
  };
  return new MixtureOfExperts(loader, mixture.hiddenSize, weights, chosenSoftmaxRouter(mixture), project);
}

const DEFAULT_ROPE = { rope_type: "yarn", factor: 32, truncate: false, original_max_position_embeddings: 4096 };

/** The family's own 4-bit experts are read as they are; any other quantisation is refused later. */
function withoutMxfp4(raw: Record<string, unknown>): Record<string, unknown> {
  const { quantization_config: quantization, ...rest } = raw;
  const method = (quantization as { quant_method?: unknown } | null | undefined)?.quant_method;
  return method === "mxfp4" ? rest : raw;
}
