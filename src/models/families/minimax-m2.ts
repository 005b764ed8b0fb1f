// MiniMax M2: Llama with q and k normed over all heads at once, part of each head rotated, and experts chosen by biased sigmoids.

import type { Block } from "../blocks/block.js";
import {
  loadExperts,
  loadRouter,
  type MixtureConfig,
  MixtureOfExperts,
  readMixture,
  W_EXPERTS,
} from "../blocks/mixture.js";
import { readCommon } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import { type DecoderConfig, decoderSpec, type LayerContext, llamaSettings, loadDecoder } from "../decoder.js";
import type { ModelFamily } from "../model.js";
import { layersFrom } from "../read-check.js";

interface MinimaxConfig extends DecoderConfig {
  readonly mixture: MixtureConfig;
}

export const minimaxM2: ModelFamily<MinimaxConfig> = {
  architectures: ["MiniMaxM2ForCausalLM"],
  parseConfig(raw, file) {
    const headDim = Number(raw.head_dim ?? 128);
    // Configs of the newer spelling say in rope_parameters how much of a head is rotated; the makers' own say it in rotary_dim.
    const isOwn = typeof raw.rotary_dim === "number" && raw.rope_parameters === undefined;
    const share = isOwn ? { partial_rotary_factor: (raw.rotary_dim as number) / headDim } : {};
    const c = new ConfigReader({ rope_theta: 5e6, ...share, ...raw }, file);
    c.only("scoring_func", "sigmoid");
    const plain = llamaSettings(c, readCommon(c, "MiniMaxM2ForCausalLM", { headDim: 128 }));
    return {
      ...plain,
      attention: { ...plain.attention, qkNorm: c.bool("use_qk_norm", true) ? "all" : "none" },
      mixture: readMixture(c, plain, c.int("num_local_experts", 256), 8),
    };
  },
  specOf: decoderSpec,
  load: (config, context) => loadDecoder(config, context, { feedForward: (layer) => experts(config, layer) }),
  // Heads that predict several tokens ahead: configs name them (`num_mtp_modules`), published checkpoints have none.
  ignoredTensors: ({ numLayers }) => [/^model\.mtp/, layersFrom(numLayers)],
};

function experts({ mixture }: MinimaxConfig, { loader, name, project }: LayerContext): Block {
  const { numExperts, topK } = mixture;
  const weights = {
    router: loadRouter(loader, `${name}.${W_EXPERTS.router}`, mixture),
    experts: loadExperts(loader, name, W_EXPERTS, mixture),
    shared: null,
  };
  const bias = loader.vector(`${name}.block_sparse_moe.e_score_correction_bias`, numExperts);
  const router = {
    numExperts,
    topK,
    score: "sigmoid",
    normalize: true,
    scale: 1,
    bias,
    numGroups: 1,
    topkGroup: 1,
  } as const;
  return new MixtureOfExperts(loader, mixture.hiddenSize, weights, router, project);
}
