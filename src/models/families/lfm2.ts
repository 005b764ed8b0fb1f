// LFM2: most layers are gated short convolutions, the others attention with normed query and key heads.

import type { Block } from "../blocks/block.js";
import { ShortConv, type ShortConvShape, shortConvFloats } from "../blocks/short-conv.js";
import { readCommon } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import {
  type DecoderConfig,
  decoderSpec,
  type LayerContext,
  llamaSettings,
  loadDecoder,
  plainAttention,
} from "../decoder.js";
import { readLayerTypes } from "../layer-windows.js";
import type { ModelFamily } from "../model.js";

export interface Lfm2Config extends DecoderConfig {
  readonly conv: ShortConvShape;
}

export const lfm2: ModelFamily<Lfm2Config> = {
  architectures: ["Lfm2ForCausalLM"],
  parseConfig(raw, file) {
    const c = new ConfigReader(raw, file);
    const config = readLfm2(c, "Lfm2ForCausalLM");
    return { ...config, innerSize: adjustedSize(c, config.innerSize) };
  },
  specOf: decoderSpec,
  load: (config, context) => loadDecoder(config, context, { attention: (layer) => lfm2Mixer(config, layer) }),
};

/** What LFM2 and its mixture share. */
export function readLfm2(c: ConfigReader, architecture: string): Lfm2Config {
  const sizes = { intermediate_size: c.raw.block_ff_dim ?? c.raw.intermediate_size };
  const tied = { tie_word_embeddings: c.raw.tie_embedding ?? c.raw.tie_word_embeddings ?? true };
  const own = { rope_theta: 1e6, hidden_act: "silu", rms_norm_eps: c.number("norm_eps", 1e-5), ...sizes, ...tied };
  const o = new ConfigReader({ ...c.raw, ...own, rope_theta: c.raw.rope_theta ?? 1e6 }, c.file);
  const plain = llamaSettings(o, readCommon(o, architecture, { isTied: true }));
  const attended = c.has("full_attn_idxs") ? c.ints("full_attn_idxs") : plain.windows.map((_, layer) => layer);
  const types = readLayerTypes(c, plain.numLayers, ["conv", "full_attention"], (layer) =>
    attended.includes(layer) ? "full_attention" : "conv",
  );
  const conv = { hiddenSize: plain.hiddenSize, kernel: c.int("conv_L_cache", 3), hasBias: c.bool("conv_bias", false) };
  return {
    ...plain,
    attentionNorms: { before: "operator_norm", after: null },
    mlpNorms: { before: "ffn_norm", after: null },
    attention: { ...plain.attention, out: "out_proj", qkNorm: "head", qNorm: "q_layernorm", kNorm: "k_layernorm" },
    mlp: { ...plain.mlp, gateUp: ["w1", "w3"], down: "w2" },
    names: { ...plain.names, mlp: "feed_forward", finalNorm: "embedding_norm" },
    stateFloats: types.map((type) => (type === "conv" ? shortConvFloats(conv) : 0)),
    conv,
  };
}

export function lfm2Mixer(config: Lfm2Config, context: LayerContext): Block {
  const { loader, name, state, project } = context;
  if (state === null) return plainAttention(config, context);
  return new ShortConv(loader, `${name}.conv`, config.conv, state, project);
}

/** Two thirds of the stated size, times a factor, rounded up to a multiple. */
function adjustedSize(c: ConfigReader, size: number): number {
  if (!c.bool("block_auto_adjust_ff_dim", true)) return size;
  const multiple = c.int("block_multiple_of", 256);
  const scaled = Math.trunc(c.number("block_ffn_dim_multiplier", 1) * Math.trunc((2 * size) / 3));
  return multiple * Math.ceil(scaled / multiple);
}
