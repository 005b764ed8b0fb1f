// DeepSeek-V3 and R1. Other than Llama: latent attention, whose value heads are narrower than its key heads; from some layer on a
// mixture of experts chosen from the best groups by biased sigmoid scores, beside experts that every token shares.

import type { RouterSpec } from "../../device/device.js";
import type { RopeConfig } from "../../formats/rope-config.js";
import { ADD, type Block } from "../blocks/block.js";
import { LatentAttention, type LatentShape } from "../blocks/latent-attention.js";
import {
  loadExperts,
  loadRouter,
  type MixtureConfig,
  MixtureOfExperts,
  MLP_EXPERTS,
  readTopK,
} from "../blocks/mixture.js";
import { loadMlp } from "../blocks/mlp.js";
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
import type { ModelFamily } from "../model.js";
import { layersFrom } from "../read-check.js";
import { yarnMscale } from "../rope.js";

interface DeepseekConfig extends DecoderConfig {
  readonly latent: LatentShape;
  readonly attentionBias: boolean;
  readonly mixture: MixtureConfig;
  readonly router: Omit<RouterSpec, "bias">;
  /** Inner size of the experts that every token shares; 0: none. */
  readonly sharedSize: number;
  readonly numDenseLayers: number;
}

/** The latents' norms do not follow rms_norm_eps. */
const LATENT_EPS = 1e-6;

export const deepseekV3: ModelFamily<DeepseekConfig> = {
  architectures: ["DeepseekV3ForCausalLM"],
  parseConfig(raw, file) {
    const own = new ConfigReader(raw, file);
    own.only("scoring_func", "sigmoid");
    own.only("topk_method", "noaux_tc");
    own.only("moe_layer_freq", 1);
    const nopeDim = own.int("qk_nope_head_dim");
    const ropeDim = own.int("qk_rope_head_dim");
    // Every head has its own key and value once they leave the latent, whatever num_key_value_heads says.
    const shaped = { ...raw, head_dim: nopeDim + ropeDim, num_key_value_heads: raw.num_attention_heads };
    const c = new ConfigReader(shaped, file);
    const plain = llamaSettings(c, readCommon(c, "DeepseekV3ForCausalLM"), ropeDim);
    const { hiddenSize, numHeads } = plain;
    const valueDim = c.int("v_head_dim");
    const numExperts = c.int("n_routed_experts");
    const topK = readTopK(c, numExperts);
    const expertSize = c.int("moe_intermediate_size");
    return {
      ...plain,
      valueDim,
      latent: {
        hiddenSize,
        numHeads,
        qRank: c.count("q_lora_rank", 0),
        kvRank: c.int("kv_lora_rank"),
        nopeDim,
        ropeDim,
        valueDim,
      },
      isRopeInterleaved: c.bool("rope_interleave", true),
      attentionScale: plain.headDim ** -0.5 * yarnSharpening(plain.ropes[0]!),
      attentionBias: c.bool("attention_bias", false),
      mixture: { hiddenSize, numExperts, topK, expertSize, activation: c.gatedActivation("hidden_act", "silu") },
      router: readRouter(c, numExperts, topK),
      sharedSize: expertSize * c.count("n_shared_experts", 0),
      numDenseLayers: c.count("first_k_dense_replace", 0),
    };
  },
  specOf: decoderSpec,
  load: (config, context) =>
    loadDecoder(config, context, {
      attention: (layer) => attention(config, layer),
      feedForward: (layer) => feedForward(config, layer),
    }),
  // The heads that predict several tokens ahead are stored as further layers.
  ignoredTensors: ({ numLayers }) => [layersFrom(numLayers)],
};

/** With mscale_all_dim, scores grow with the square of yarn's factor. */
function yarnSharpening(rope: RopeConfig): number {
  return rope.type === "yarn" && rope.mscaleAllDim ? yarnMscale(rope.factor, rope.mscaleAllDim) ** 2 : 1;
}

function readRouter(c: ConfigReader, numExperts: number, topK: number): Omit<RouterSpec, "bias"> {
  const numGroups = c.int("n_group", 1);
  const topkGroup = c.int("topk_group", 1);
  const size = numExperts / numGroups;
  c.check(Number.isInteger(size), "n_group", `a divisor of n_routed_experts (${numExperts})`);
  c.check(topkGroup <= numGroups && topkGroup * size >= topK, "topk_group", `groups that hold ${topK} experts`);
  return {
    numExperts,
    topK,
    score: "sigmoid",
    normalize: c.bool("norm_topk_prob", true),
    scale: c.number("routed_scaling_factor", 1),
    numGroups,
    topkGroup,
  };
}

function attention(config: DeepseekConfig, { loader, name, place, rotary, project }: LayerContext): Block {
  return new LatentAttention(loader, `${name}.self_attn`, config.latent, {
    place: place!,
    rotary: rotary!,
    eps: LATENT_EPS,
    params: { numHeads: config.numHeads, scale: config.attentionScale, softcap: 0, sinks: null },
    hasBias: config.attentionBias,
    project,
  });
}

/** The first layers are dense, the others mixtures with shared experts. */
function feedForward(config: DeepseekConfig, context: LayerContext): Block {
  if (context.layer < config.numDenseLayers) return denseMlp(config, context);
  const { loader, name, project } = context;
  const { hiddenSize, sharedSize, mixture } = config;
  const sharedShape = { ...config, innerSize: sharedSize };
  const weights = {
    router: loadRouter(loader, `${name}.${MLP_EXPERTS.router}`, mixture),
    experts: loadExperts(loader, name, MLP_EXPERTS, mixture),
    shared: sharedSize === 0 ? null : loadMlp(loader, `${name}.mlp.shared_experts`, sharedShape, config.mlp, ADD),
  };
  const bias = loader.vector(`${name}.mlp.gate.e_score_correction_bias`, mixture.numExperts);
  return new MixtureOfExperts(loader, hiddenSize, weights, { ...config.router, bias }, project);
}
