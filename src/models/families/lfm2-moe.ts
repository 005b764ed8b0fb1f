// LFM2-MoE: LFM2 whose later layers have a mixture of experts, chosen by sigmoids with a bias.

import type { Block } from "../blocks/block.js";
import { loadExperts, loadRouter, type MixtureConfig, MixtureOfExperts, readTopK } from "../blocks/mixture.js";
import { ConfigReader } from "../config-reader.js";
import { decoderSpec, denseMlp, type LayerContext, loadDecoder } from "../decoder.js";
import type { ModelFamily } from "../model.js";
import { type Lfm2Config, lfm2Mixer, readLfm2 } from "./lfm2.js";

interface Lfm2MoeConfig extends Lfm2Config {
  readonly mixture: MixtureConfig;
  readonly numDense: number;
  readonly hasExpertBias: boolean;
  readonly normalize: boolean;
  readonly expertScale: number;
}

const NAMES = { router: "feed_forward.gate", experts: "feed_forward.experts", gate: "w1", up: "w3", down: "w2" };

export const lfm2Moe: ModelFamily<Lfm2MoeConfig> = {
  architectures: ["Lfm2MoeForCausalLM"],
  parseConfig(raw, file) {
    const c = new ConfigReader(raw, file);
    const config = readLfm2(c, "Lfm2MoeForCausalLM");
    const numExperts = c.int("num_experts", 32);
    return {
      ...config,
      mixture: {
        hiddenSize: config.hiddenSize,
        numExperts,
        topK: readTopK(c, numExperts, 4),
        expertSize: c.int("moe_intermediate_size", 1792),
        activation: "silu",
      },
      numDense: c.count("num_dense_layers", 2),
      hasExpertBias: c.bool("use_expert_bias", true),
      normalize: c.bool("norm_topk_prob", true),
      expertScale: c.number("routed_scaling_factor", 1),
    };
  },
  specOf: decoderSpec,
  load: (config, context) =>
    loadDecoder(config, context, {
      attention: (layer) => lfm2Mixer(config, layer),
      feedForward: (layer) => (layer.layer < config.numDense ? denseMlp(config, layer) : experts(config, layer)),
    }),
};

function experts(config: Lfm2MoeConfig, { loader, name, project }: LayerContext): Block {
  const { mixture, normalize, expertScale: scale } = config;
  const { numExperts, topK } = mixture;
  const weights = {
    router: loadRouter(loader, `${name}.${NAMES.router}`, mixture),
    experts: loadExperts(loader, name, NAMES, mixture),
    shared: null,
  };
  const bias = config.hasExpertBias ? loader.vector(`${name}.feed_forward.expert_bias`, numExperts) : null;
  const router = { numExperts, topK, score: "sigmoid", normalize, scale, bias, numGroups: 1, topkGroup: 1 } as const;
  return new MixtureOfExperts(loader, mixture.hiddenSize, weights, router, project);
}
