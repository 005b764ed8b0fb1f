// Qwen3-Next and Qwen3.5: three of four layers are gated delta nets, the fourth is attention with an output gate; norm weights are
// stored less one. Qwen3-Next and Qwen3.5-MoE have mixtures with a shared expert as feed-forward.

import { type DeltaNetShape, deltaNetFloats, GatedDeltaNet } from "../blocks/gated-delta-net.js";
import { rmsStyle } from "../blocks/norm.js";
import { readCommon } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import { type DecoderConfig, decoderSpec, llamaSettings, loadDecoder, plainAttention } from "../decoder.js";
import { readLayerTypes } from "../layer-windows.js";
import type { LoadContext, Model, ModelFamily } from "../model.js";
import { appendedLayer, type MtpNames } from "../predictors/mtp.js";
import { layersFrom } from "../read-check.js";
import { type QwenMoe, qwenFeedForward, readQwenMoe } from "./qwen-moe.js";

interface HybridConfig extends DecoderConfig {
  readonly deltaNet: DeltaNetShape;
}

interface HybridMoeConfig extends HybridConfig {
  readonly moe: QwenMoe;
}

export const qwen35: ModelFamily<HybridConfig> = {
  architectures: ["Qwen3_5ForCausalLM"],
  parseConfig: (raw, file) => readHybrid(new ConfigReader({ ...DEFAULTS, ...raw }, file), "Qwen3_5ForCausalLM"),
  specOf: decoderSpec,
  load: (config, context) => load(config, context),
  ignoredTensors: ({ numLayers }) => [MTP, layersFrom(numLayers)],
};

export const qwen35Moe: ModelFamily<HybridMoeConfig> = {
  architectures: ["Qwen3_5MoeForCausalLM"],
  parseConfig(raw, file) {
    const c = new ConfigReader({ intermediate_size: 1, ...DEFAULTS, ...raw }, file);
    const config = readHybrid(c, "Qwen3_5MoeForCausalLM");
    const absent = { normalize: true, numExperts: 256, topK: 8, expertSize: 512, sharedSize: 512 };
    const { isDense, ...moe } = readQwenMoe(c, config, absent);
    c.only("norm_topk_prob", true);
    return { ...config, moe: { ...moe, isDense: isDense.map(() => false) } };
  },
  specOf: decoderSpec,
  load: (config, context) => load(config, context, config),
  ignoredTensors: ({ numLayers }) => [MTP, layersFrom(numLayers)],
};

export const qwen3Next: ModelFamily<HybridMoeConfig> = {
  architectures: ["Qwen3NextForCausalLM"],
  parseConfig(raw, file) {
    const c = new ConfigReader({ ...DEFAULTS, ...raw }, file);
    const config = readHybrid(c, "Qwen3NextForCausalLM");
    const absent = { normalize: true, numExperts: 512, topK: 10, expertSize: 512, sharedSize: 512 };
    return { ...config, moe: readQwenMoe(c, config, absent) };
  },
  specOf: decoderSpec,
  load: (config, context) => load(config, context, config),
  ignoredTensors: ({ numLayers }) => [MTP, layersFrom(numLayers)],
};

const DEFAULTS = { partial_rotary_factor: 0.25 };
/** Of the pairs that turn, where the config does not say. */
const DEFAULT_SECTIONS = [11, 11, 10];
/** Heads that predict several tokens ahead; those of GGUF files are a further layer. */
const MTP = /^mtp\./;
const MTP_NAMES: MtpNames = {
  layer: "mtp.layers.0",
  embeddingNorm: "mtp.pre_fc_norm_embedding",
  hiddenNorm: "mtp.pre_fc_norm_hidden",
  project: "mtp.fc",
  finalNorm: "mtp.norm",
  continuesNormed: true,
};

function readHybrid(c: ConfigReader, architecture: string): HybridConfig {
  const plain = llamaSettings(c, readCommon(c, architecture, { headDim: 256 }));
  const bias = c.bool("attention_bias", false);
  const interval = c.int("full_attention_interval", 4);
  const types = readLayerTypes(c, plain.numLayers, ["linear_attention", "full_attention"], (layer) =>
    (layer + 1) % interval !== 0 ? "linear_attention" : "full_attention",
  );
  const deltaNet = {
    hiddenSize: plain.hiddenSize,
    numKeyHeads: c.int("linear_num_key_heads", 16),
    numValueHeads: c.int("linear_num_value_heads", 32),
    keyDim: c.int("linear_key_head_dim", 128),
    valueDim: c.int("linear_value_head_dim", 128),
    kernel: c.int("linear_conv_kernel_dim", 4),
    eps: plain.eps,
  };
  c.only("hidden_act", "silu");
  c.check(
    deltaNet.numValueHeads % deltaNet.numKeyHeads === 0,
    "linear_num_value_heads",
    `a multiple of linear_num_key_heads (${deltaNet.numKeyHeads})`,
  );
  const ropes = plain.ropes.map((rope) =>
    rope.sections === undefined ? { ...rope, sections: DEFAULT_SECTIONS, areSectionsInterleaved: true } : rope,
  );
  return {
    ...plain,
    ropes,
    norm: rmsStyle(plain.eps, 1),
    attention: { ...plain.attention, qkvBias: bias, outBias: bias, qkNorm: "head", hasGate: true },
    stateFloats: types.map((type) => (type === "linear_attention" ? deltaNetFloats(deltaNet) : 0)),
    deltaNet,
    mtp: (root, numLayers) => [MTP_NAMES, appendedLayer(root, numLayers, true)],
  };
}

function load(config: HybridConfig, context: LoadContext, mixture?: HybridMoeConfig): Model {
  return loadDecoder(config, context, {
    attention: (layer) =>
      layer.state === null
        ? plainAttention(config, layer)
        : new GatedDeltaNet(layer.loader, `${layer.name}.linear_attn`, config.deltaNet, layer.state, layer.project),
    ...(mixture === undefined ? {} : { feedForward: (layer) => qwenFeedForward(mixture, layer) }),
  });
}
