// DeepSeek-V3 and R1. Other than Llama: latent attention, whose value heads are narrower than its key heads; from some layer on a
// mixture of experts chosen from the best groups by biased sigmoid scores, beside experts that every token shares.

import type { RouterSpec } from "../../device/device.js";
import type { RopeConfig } from "../../formats/rope-config.js";
import { type FeedForward, GatedMlp, MlpSpace } from "../blocks/gated-mlp.js";
import { LatentAttention, type LatentShape, LatentSpace } from "../blocks/latent-attention.js";
import {
  loadExperts,
  loadRouter,
  type MixtureConfig,
  MixtureOfExperts,
  MixtureSpace,
  MLP_EXPERTS,
  readTopK,
} from "../blocks/mixture.js";
import { Rotaries } from "../blocks/rotaries.js";
import { type CommonConfig, readCommon, specOf } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import { Decoder, type DecoderParts } from "../decoder.js";
import type { Loader } from "../loader.js";
import type { LoadContext, Model, ModelFamily } from "../model.js";
import { readHeadRope, yarnMscale } from "../rope.js";

interface DeepseekConfig extends CommonConfig {
  readonly latent: LatentShape;
  readonly rope: RopeConfig;
  readonly isRopeInterleaved: boolean;
  readonly attentionScale: number;
  readonly attentionBias: boolean;
  readonly mixture: MixtureConfig;
  readonly router: Omit<RouterSpec, "bias">;
  /** Inner size of the experts that every token shares; 0: none. */
  readonly sharedSize: number;
  readonly numDenseLayers: number;
}

/** The latents' norms do not follow rms_norm_eps. */
const LATENT_EPS = 1e-6;
const ADD = { accumulate: true } as const;

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
    const common = readCommon(c, "DeepseekV3ForCausalLM");
    const { hiddenSize, numHeads } = common;
    const rope = readHeadRope(c, ropeDim);
    const numExperts = c.int("n_routed_experts");
    const topK = readTopK(c, numExperts);
    const expertSize = c.int("moe_intermediate_size");
    return {
      ...common,
      latent: {
        hiddenSize,
        numHeads,
        qRank: c.count("q_lora_rank", 0),
        kvRank: c.int("kv_lora_rank"),
        nopeDim,
        ropeDim,
        valueDim: c.int("v_head_dim"),
      },
      rope,
      isRopeInterleaved: c.bool("rope_interleave", true),
      attentionScale: common.headDim ** -0.5 * yarnSharpening(rope),
      attentionBias: c.bool("attention_bias", false),
      mixture: { hiddenSize, numExperts, topK, expertSize, activation: c.gatedActivation("hidden_act", "silu") },
      router: readRouter(c, numExperts, topK),
      sharedSize: expertSize * c.count("n_shared_experts", 0),
      numDenseLayers: c.count("first_k_dense_replace", 0),
    };
  },
  specOf: (config) => ({ ...specOf(config, [0]), valueDim: config.latent.valueDim }),
  load,
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

function load(config: DeepseekConfig, context: LoadContext): Model {
  const { latent } = config;
  let space: LatentSpace | null = null;
  const parts: DecoderParts = {
    spec: deepseekV3.specOf(config),
    embeddingScale: 1,
    logitsScale: 1,
    rotaries: (loader) =>
      new Rotaries(loader, [config.rope], {
        headDim: latent.ropeDim,
        maxContext: config.maxContext,
        isInterleaved: config.isRopeInterleaved,
      }),
    attention: (loader, name, layer, rotaries) => {
      space ??= new LatentSpace(loader, latent);
      return new LatentAttention(loader, name, space, latent, {
        layer,
        rotary: rotaries.tables[0]!,
        eps: LATENT_EPS,
        params: { numHeads: config.numHeads, scale: config.attentionScale, softcap: 0, sinks: null },
        hasBias: config.attentionBias,
        project: ADD,
      });
    },
    feedForward: feedForward(config),
  };
  return new Decoder(config, parts, context);
}

/** The first layers are dense, the others mixtures with shared experts. */
function feedForward(config: DeepseekConfig): DecoderParts["feedForward"] {
  const { hiddenSize, innerSize, sharedSize, activation, mixture } = config;
  const dense = (loader: Loader, name: string, size: number, space: MlpSpace): FeedForward =>
    new GatedMlp(loader, name, space, {
      hiddenSize,
      innerSize: size,
      activation,
      hasBias: false,
      isFused: false,
      project: ADD,
    });
  let denseSpace: MlpSpace | null = null;
  let sharedSpace: MlpSpace | null = null;
  let space: MixtureSpace | null = null;
  return (loader, name, layer) => {
    if (layer < config.numDenseLayers) {
      denseSpace ??= new MlpSpace(loader, innerSize);
      return dense(loader, `${name}.mlp`, innerSize, denseSpace);
    }
    space ??= new MixtureSpace(loader, mixture.numExperts, hiddenSize);
    if (sharedSize > 0) sharedSpace ??= new MlpSpace(loader, sharedSize);
    const weights = {
      router: loadRouter(loader, `${name}.${MLP_EXPERTS.router}`, mixture),
      routerBias: null,
      experts: loadExperts(loader, name, MLP_EXPERTS, mixture),
      shared: sharedSpace === null ? null : dense(loader, `${name}.mlp.shared_experts`, sharedSize, sharedSpace),
    };
    const bias = loader.vector(`${name}.mlp.gate.e_score_correction_bias`, mixture.numExperts);
    return new MixtureOfExperts(loader, space, weights, { ...config.router, bias });
  };
}
