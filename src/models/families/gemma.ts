// Gemma 1, 2 and 3. Other than Llama:
//   - each half of a layer is normed before and (not in 1) after:  x += postNorm(f(preNorm(x)));  norm weights are stored less one
//   - embeddings are scaled by sqrt(hidden), attention scores by query_pre_attn_scalar ** -0.5, the gate is gelu
//   - most layers see a sliding window: every other one (2), five of six (3)
//   - Gemma 2 caps attention scores and logits; Gemma 3 norms query and key heads, and its window layers have a rope of their own;
//     EmbeddingGemma is Gemma 3 with tokens that see the text after them too

import { ALL_AHEAD } from "../../core/attention-plan.js";
import { rmsStyle } from "../blocks/norm.js";
import { readCommon } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import { attentionBias, type DecoderConfig, decoderSpec, llamaSettings, loadDecoder, plainFamily } from "../decoder.js";
import { layerWindows } from "../layer-windows.js";
import type { ModelFamily } from "../model.js";
import { readHeadRope } from "../rope.js";

export const gemma = plainFamily("GemmaForCausalLM", (c, architecture) => {
  // Older configs say "gelu" and mean the approximation by tanh.
  const activation = c.raw.hidden_activation ?? "gelu_pytorch_tanh";
  const own = new ConfigReader({ ...c.raw, hidden_activation: activation }, c.file);
  c.only("use_bidirectional_attention", false);
  const plain = llamaSettings(own, readCommon(own, architecture, { isTied: true, headDim: 256 }));
  return {
    ...plain,
    norm: rmsStyle(plain.eps, 1),
    attention: attentionBias(plain, c.bool("attention_bias", false)),
    embeddingScale: Math.sqrt(plain.hiddenSize),
  };
});

export const gemma2: ModelFamily<DecoderConfig> = {
  architectures: ["Gemma2ForCausalLM"],
  parseConfig(raw, file) {
    const defaults = { attn_logit_softcapping: 50, final_logit_softcapping: 30 };
    const c = new ConfigReader({ ...GEMMA_DEFAULTS, ...defaults, ...raw }, file);
    c.only("use_bidirectional_attention", false);
    const common = readGemma(c, "Gemma2ForCausalLM");
    return {
      ...common,
      windows: layerWindows(c, common, (layer) => layer % 2 === 0),
    };
  },
  specOf: decoderSpec,
  load: (config, context) => loadDecoder(config, context),
};

export const gemma3: ModelFamily<DecoderConfig> = {
  architectures: ["Gemma3ForCausalLM", "Gemma3TextModel"],
  parseConfig(raw, file) {
    const defaults = { ...GEMMA3_SIZES, rope_theta: 1e6, rope_local_base_freq: 1e4, sliding_window_pattern: 6 };
    const c = new ConfigReader({ ...GEMMA_DEFAULTS, ...defaults, ...raw }, file);
    const isBidirectional = c.bool("use_bidirectional_attention", false);
    const common = readGemma(c, isBidirectional ? "Gemma3TextModel" : "Gemma3ForCausalLM");
    const period = c.int("sliding_window_pattern");
    const isLocal = (layer: number): boolean => (layer + 1) % period !== 0;
    // A window that is too wide to matter still marks the layer as local, with the local rope.
    const marks = layerWindows(c, { ...common, maxContext: Number.POSITIVE_INFINITY }, isLocal);
    // EmbeddingGemma states the width of both sides together.
    const halved = (window: number): number => (window > 0 ? Math.floor(window / 2) + 1 : 0);
    const windows = layerWindows(c, common, isLocal);
    return {
      ...common,
      isTied: common.isTied || isBidirectional, // which has no head
      isBidirectional,
      windows: isBidirectional ? marks.map(halved) : windows,
      // A picture's tokens see all of it, however small the window.
      ...(isBidirectional ? {} : { mostAhead: windows.map(() => ALL_AHEAD) }),
      ropes: [readHeadRope(c, common.headDim, "full_attention"), readHeadRope(c, common.headDim, "sliding_attention")],
      ropeOf: marks.map((window) => (window > 0 ? 1 : 0)),
      attention: { ...common.attention, qkNorm: "head" },
    };
  },
  specOf: decoderSpec,
  load: (config, context) => loadDecoder(config, context),
  // What EmbeddingGemma's GGUF files put after pooling.
  ignoredTensors: () => [/^dense_[23]\.weight$/],
};

/** The text_config of larger checkpoints leaves out what the smallest of them has alike. */
const GEMMA3_SIZES = {
  vocab_size: 262_208,
  num_attention_heads: 8,
  num_key_value_heads: 4,
  max_position_embeddings: 131_072,
};
const GEMMA_DEFAULTS = { hidden_activation: "gelu_pytorch_tanh", sliding_window: 4096 };

function readGemma(c: ConfigReader, architecture: string): DecoderConfig {
  const plain = llamaSettings(c, readCommon(c, architecture, { isTied: true, headDim: 256 }));
  const bias = c.bool("attention_bias", false);
  return {
    ...plain,
    norm: rmsStyle(plain.eps, 1),
    attentionNorms: { before: "input_layernorm", after: "post_attention_layernorm" },
    mlpNorms: { before: "pre_feedforward_layernorm", after: "post_feedforward_layernorm" },
    attention: { ...plain.attention, qkvBias: bias, outBias: bias },
    attentionScale: 1 / Math.sqrt(c.number("query_pre_attn_scalar", 256)),
    attentionSoftcap: c.number("attn_logit_softcapping", 0),
    embeddingScale: Math.sqrt(plain.hiddenSize),
    finalSoftcap: c.number("final_logit_softcapping", 0),
  };
}
