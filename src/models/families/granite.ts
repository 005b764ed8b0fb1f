// Granite 3: Llama with four fixed multipliers, on embeddings, attention scores, residual branches and logits.

import { readCommon } from "../common-config.js";
import type { ConfigReader } from "../config-reader.js";
import { attentionBias, type DecoderConfig, llamaSettings, plainFamily } from "../decoder.js";

export const granite = plainFamily("GraniteForCausalLM", (c, architecture) => {
  const config = readGranite(c, architecture);
  return { ...config, mlp: { ...config.mlp, hasBias: c.bool("mlp_bias", false) } };
});

export function readGranite(c: ConfigReader, architecture: string): DecoderConfig {
  const plain = llamaSettings(c, readCommon(c, architecture));
  return {
    ...plain,
    attention: attentionBias(plain, c.bool("attention_bias", false)),
    embeddingScale: c.number("embedding_multiplier", 1),
    attentionScale: c.number("attention_multiplier", 1),
    residualScale: c.number("residual_multiplier", 1),
    logitsScale: 1 / c.number("logits_scaling", 1),
  };
}
