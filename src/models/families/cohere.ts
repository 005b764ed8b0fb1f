// Command R (Cohere) and Command A (Cohere2): attention and feed-forward side by side after one LayerNorm without bias, neighbours
// paired by the rotary embedding, logits scaled. Cohere2 has windows in three of four layers and no rotary embedding in the others.

import { layerNormStyle } from "../blocks/norm.js";
import { readCommon } from "../common-config.js";
import type { ConfigReader } from "../config-reader.js";
import { attentionBias, type DecoderConfig, llamaSettings, plainFamily } from "../decoder.js";
import { layerWindows } from "../layer-windows.js";

export const cohere = plainFamily(
  "CohereForCausalLM",
  (c, architecture) => {
    const config = readCohere(c, architecture);
    const qkNorm = c.bool("use_qk_norm", false) ? "each" : "none";
    return { ...config, attention: { ...config.attention, qkNorm } };
  },
  { rope_theta: 500_000 },
);

export const cohere2 = plainFamily(
  "Cohere2ForCausalLM",
  (c, architecture) => {
    const config = readCohere(c, architecture);
    const period = c.int("sliding_window_pattern", 4);
    const isSliding = (layer: number): boolean => (layer + 1) % period !== 0;
    const marks = layerWindows(c, { ...config, maxContext: Number.POSITIVE_INFINITY }, isSliding);
    return {
      ...config,
      windows: layerWindows(c, config, isSliding),
      ropeOf: marks.map((window) => (window > 0 ? 0 : null)),
    };
  },
  { sliding_window: 4096 },
);

function readCohere(c: ConfigReader, architecture: string): DecoderConfig {
  const plain = llamaSettings(c, readCommon(c, architecture, { eps: 1e-5, epsField: "layer_norm_eps", isTied: true }));
  return {
    ...plain,
    norm: { ...layerNormStyle(plain.eps), hasBias: false },
    isParallel: true,
    mlpNorms: { before: null, after: null },
    isRopeInterleaved: true,
    attention: attentionBias(plain, c.bool("attention_bias", false)),
    logitsScale: c.number("logit_scale", 0.0625),
  };
}
