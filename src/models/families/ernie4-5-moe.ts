// ERNIE 4.5, mixtures: softmax scores with a bias for the choice, beside experts that every token shares.

import { readTopK } from "../blocks/mixture.js";
import { ConfigReader } from "../config-reader.js";
import { type DecoderConfig, decoderSpec, denseMlp, loadDecoder } from "../decoder.js";
import type { ModelFamily } from "../model.js";
import type { MtpNames } from "../predictors/mtp.js";
import { layersFrom } from "../read-check.js";
import { type DeepseekMoe, deepseekFeedForward } from "./deepseek-moe.js";
import { readErnie } from "./ernie4-5.js";

interface ErnieMoeConfig extends DecoderConfig {
  readonly moe: DeepseekMoe;
}

export const ernie45Moe: ModelFamily<ErnieMoeConfig> = {
  architectures: ["Ernie4_5_MoeForCausalLM"],
  parseConfig(raw, file) {
    const c = new ConfigReader({ rope_theta: 500_000, num_experts_per_tok: raw.moe_k ?? 6, ...raw }, file);
    const plain = readErnie(c, "Ernie4_5_MoeForCausalLM");
    const { hiddenSize, numLayers } = plain;
    const numExperts = c.int("moe_num_experts", 64);
    const topK = readTopK(c, numExperts);
    const expertSize = c.int("moe_intermediate_size", 1536);
    const first = c.count("moe_layer_start_index", 1);
    const stated = c.number("moe_layer_end_index", -1);
    const last = stated === -1 ? numLayers - 1 : stated;
    const step = c.int("moe_layer_interval", 1);
    return {
      ...plain,
      hasHeadBias: c.bool("use_bias", false),
      mtp: mtpNames,
      moe: {
        mixture: { hiddenSize, numExperts, topK, expertSize, activation: c.gatedActivation("hidden_act", "silu") },
        router: { numExperts, topK, score: "softmax", normalize: true, scale: 1, numGroups: 1, topkGroup: 1 },
        bias: { name: "mlp.moe_statics.e_score_correction_bias", rows: 1 },
        sharedSize: expertSize * c.count("moe_num_shared_experts", 2),
        isDense: plain.windows.map((_, layer) => (layer + 1) % step !== 0 || layer < first || layer > last),
      },
    };
  },
  specOf: decoderSpec,
  load: (config, context) =>
    loadDecoder(config, context, {
      feedForward: (layer) => deepseekFeedForward(config, layer),
      headFeedForward: (layer) => denseMlp(config, layer),
    }),
  // Heads that predict several tokens ahead.
  ignoredTensors: ({ numLayers }) => [/^model\.mtp_/, layersFrom(numLayers)],
};

/** Its layer is dense, and nothing is normed before the vocabulary. */
function mtpNames(root: string): readonly MtpNames[] {
  return [
    {
      layer: `${root}mtp_block.0`,
      embeddingNorm: `${root}mtp_emb_norm.0`,
      hiddenNorm: `${root}mtp_hidden_norm.0`,
      project: `${root}mtp_linear_proj.0`,
      finalNorm: null,
      continuesNormed: false,
    },
  ];
}
