// Latent attention and a mixture of experts: DeepSeek V2, V3 and R1, GLM-4.7-Flash (Glm4MoeLite), Mistral 4. Value heads may be narrower
// than key heads.

import type { RopeConfig } from "../../formats/rope-config.js";
import type { Block } from "../blocks/block.js";
import { LatentAttention, type LatentShape } from "../blocks/latent-attention.js";
import { readCommon } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import { type DecoderConfig, decoderSpec, type LayerContext, llamaSettings, loadDecoder } from "../decoder.js";
import { readLayerTypes } from "../layer-windows.js";
import type { ModelFamily } from "../model.js";
import { appendedLayer } from "../predictors/mtp.js";
import { layersFrom } from "../read-check.js";
import { yarnMscale } from "../rope.js";
import { type DeepseekMoe, deepseekFeedForward, readDeepseekMoe } from "./deepseek-moe.js";
import { takeQueryScale } from "./ministral3.js";

interface DeepseekConfig extends DecoderConfig {
  readonly latent: LatentShape;
  readonly latentBias: boolean;
  readonly moe: DeepseekMoe;
}

/** The latents' norms do not follow rms_norm_eps. */
const LATENT_EPS = 1e-6;

const DEEPSEEK_HEADS = { qRank: 1536, kvRank: 512, nope: 128, rope: 64, value: 128 };
const V3_EXPERTS = {
  numExperts: 256,
  topK: 8,
  expertSize: 2048,
  numShared: 1,
  numDense: 3,
  scale: 2.5,
  numGroups: 8,
  topkGroup: 4,
};

export const deepseekV3 = family("DeepseekV3ForCausalLM", (c) => {
  c.only("scoring_func", "sigmoid");
  c.only("topk_method", "noaux_tc");
  c.only("moe_layer_freq", 1);
  const config = readLatent(c, "DeepseekV3ForCausalLM", DEEPSEEK_HEADS);
  return { ...config, moe: readDeepseekMoe(c, config, V3_EXPERTS) };
});

export const deepseekV2 = family("DeepseekV2ForCausalLM", (c) => {
  c.only("scoring_func", "softmax");
  c.only("topk_method", "greedy", "group_limited_greedy");
  c.only("moe_layer_freq", 1);
  c.only("norm_topk_prob", false);
  const config = readLatent(c, "DeepseekV2ForCausalLM", DEEPSEEK_HEADS);
  const moe = readDeepseekMoe(c, config, { numExperts: 64, expertSize: 1407, numShared: 2 });
  const isGrouped = c.raw.topk_method === "group_limited_greedy";
  const groups = isGrouped ? { groupBest: 1 as const } : { numGroups: 1, topkGroup: 1 };
  return {
    ...config,
    isRopeInterleaved: true,
    mlp: { ...config.mlp, hasBias: c.bool("mlp_bias", false) },
    moe: { ...moe, bias: null, router: { ...moe.router, ...groups, score: "softmax", normalize: false } },
  };
});

export const glm4MoeLite = family("Glm4MoeLiteForCausalLM", (c) => {
  const absent = { qRank: 768, kvRank: 512, nope: 192, rope: 64, value: 256, eps: 1e-5 };
  const config = readLatent(c, "Glm4MoeLiteForCausalLM", absent);
  const moe = readDeepseekMoe(c, config, { numExperts: 64, topK: 4, expertSize: 1536, numShared: 1, scale: 1.8 });
  const rule = (layer: number): string => (layer === 0 ? "dense" : "sparse");
  const types = readLayerTypes(c, config.numLayers, ["dense", "sparse"], rule, "mlp_layer_types");
  return { ...config, moe: { ...moe, isDense: types.map((type) => type === "dense") } };
});

export const mistral4 = family("Mistral4ForCausalLM", (whole) => {
  const { reader, queryScale } = takeQueryScale(whole, DEFAULT_ROPE);
  // The share of a head that is rotated: here heads say it themselves.
  const { partial_rotary_factor: _, ...rope } = reader.raw.rope_parameters as Record<string, unknown>;
  const c = new ConfigReader({ ...reader.raw, rope_parameters: rope, partial_rotary_factor: null }, reader.file);
  const absent = { qRank: 1024, kvRank: 256, nope: 64, rope: 64, value: 128 };
  const config = readLatent(c, "Mistral4ForCausalLM", absent);
  const moe = readDeepseekMoe(c, config, { numExperts: 128, topK: 4, expertSize: 2048, numShared: 1 });
  return {
    ...config,
    queryScales: config.windows.map(() => queryScale),
    moe: { ...moe, bias: null, router: { ...moe.router, score: "softmax" } },
  };
});

const DEFAULT_ROPE = {
  rope_type: "yarn",
  rope_theta: 1e4,
  factor: 128,
  original_max_position_embeddings: 8192,
  mscale: 1,
  mscale_all_dim: 1,
  llama_4_scaling_beta: 0.1,
};

function family(architecture: string, parse: (c: ConfigReader) => DeepseekConfig): ModelFamily<DeepseekConfig> {
  return {
    architectures: [architecture],
    parseConfig: (raw, file) => parse(new ConfigReader(raw, file)),
    specOf: decoderSpec,
    load: (config, context) =>
      loadDecoder(config, context, {
        attention: (layer) => attention(config, layer),
        feedForward: (layer) => deepseekFeedForward(config, layer),
      }),
    // The heads that predict several tokens ahead are stored as further layers.
    ignoredTensors: ({ numLayers }) => [layersFrom(numLayers)],
  };
}

interface LatentDefaults {
  readonly qRank?: number;
  readonly kvRank?: number;
  readonly nope?: number;
  readonly rope?: number;
  readonly value?: number;
  readonly eps?: number;
}

function readLatent(whole: ConfigReader, architecture: string, absent: LatentDefaults): Omit<DeepseekConfig, "moe"> {
  const { raw, file } = whole;
  const nopeDim = whole.int("qk_nope_head_dim", absent.nope);
  const ropeDim = whole.int("qk_rope_head_dim", absent.rope);
  // Every head has its own key and value once they leave the latent, whatever num_key_value_heads says.
  const shaped = { ...raw, head_dim: nopeDim + ropeDim, num_key_value_heads: raw.num_attention_heads };
  const c = new ConfigReader(shaped, file);
  const common = readCommon(c, architecture, {
    ropeDim,
    ...(absent.eps === undefined ? {} : { eps: absent.eps }),
  });
  const plain = llamaSettings(c, common, ropeDim);
  const { hiddenSize, numHeads } = plain;
  const valueDim = c.int("v_head_dim", absent.value);
  // null says that there is no query latent; a field that is not there is the family's default.
  const qRank = "q_lora_rank" in raw ? c.count("q_lora_rank", 0) : (absent.qRank ?? 0);
  return {
    ...plain,
    valueDim,
    latent: { hiddenSize, numHeads, qRank, kvRank: c.int("kv_lora_rank", absent.kvRank), nopeDim, ropeDim, valueDim },
    isRopeInterleaved: c.bool("rope_interleave", true),
    attentionScale: (1 / Math.sqrt(plain.headDim)) * yarnSharpening(plain.ropes[0]!),
    latentBias: c.bool("attention_bias", false),
    mtp: (root, numLayers) => [appendedLayer(root, numLayers)],
  };
}

/** With mscale_all_dim, scores grow with the square of yarn's factor. */
function yarnSharpening(rope: RopeConfig): number {
  return rope.type === "yarn" && rope.mscaleAllDim ? yarnMscale(rope.factor, rope.mscaleAllDim) ** 2 : 1;
}

function attention(config: DeepseekConfig, { loader, name, layer, place, rotary, project }: LayerContext): Block {
  return new LatentAttention(loader, `${name}.self_attn`, config.latent, {
    place: place!,
    rotary: rotary!,
    eps: LATENT_EPS,
    params: { numHeads: config.numHeads, scale: config.attentionScale, softcap: 0, sinks: null },
    hasBias: config.latentBias,
    queryScale: config.queryScales[layer]!,
    project,
  });
}
