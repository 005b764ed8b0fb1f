// OLMoE: Llama with q and k normed over all heads at once, and a mixture of experts by softmax in every layer.

import type { Block } from "../blocks/block.js";
import {
  loadExperts,
  loadRouter,
  type MixtureConfig,
  MixtureOfExperts,
  MLP_EXPERTS,
  readMixture,
  softmaxRouter,
} from "../blocks/mixture.js";
import { readCommon } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import {
  attentionBias,
  type DecoderConfig,
  decoderSpec,
  type LayerContext,
  llamaSettings,
  loadDecoder,
} from "../decoder.js";
import type { ModelFamily } from "../model.js";

interface OlmoeConfig extends DecoderConfig {
  readonly mixture: MixtureConfig;
  readonly normalize: boolean;
}

export const olmoe: ModelFamily<OlmoeConfig> = {
  architectures: ["OlmoeForCausalLM"],
  parseConfig(raw, file) {
    const c = new ConfigReader(raw, file);
    c.check(!c.has("clip_qkv"), "clip_qkv", "null");
    const plain = llamaSettings(c, readCommon(c, "OlmoeForCausalLM", { eps: 1e-5 }));
    return {
      ...plain,
      attention: { ...attentionBias(plain, c.bool("attention_bias", false)), qkNorm: "all" },
      normalize: c.bool("norm_topk_prob", false),
      mixture: readMixture(c, plain, c.int("num_experts", 64), 8),
    };
  },
  specOf: decoderSpec,
  load: (config, context) => loadDecoder(config, context, { feedForward: (layer) => experts(config, layer) }),
};

function experts({ mixture, normalize }: OlmoeConfig, { loader, name, project }: LayerContext): Block {
  const weights = {
    router: loadRouter(loader, `${name}.${MLP_EXPERTS.router}`, mixture),
    experts: loadExperts(loader, name, MLP_EXPERTS, mixture),
    shared: null,
  };
  return new MixtureOfExperts(loader, mixture.hiddenSize, weights, softmaxRouter(mixture, normalize), project);
}
