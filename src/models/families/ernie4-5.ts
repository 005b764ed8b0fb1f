// ERNIE 4.5, dense: Llama whose rotary embedding pairs neighbours; one switch for all biases.

import { readCommon } from "../common-config.js";
import type { ConfigReader } from "../config-reader.js";
import { attentionBias, type DecoderConfig, llamaSettings, plainFamily } from "../decoder.js";

export const ernie45 = plainFamily("Ernie4_5ForCausalLM", (c, architecture) => readErnie(c, architecture, 128), {
  rope_theta: 500_000,
});

/** What the dense models and the mixtures share. */
export function readErnie(c: ConfigReader, architecture: string, headDim?: number): DecoderConfig {
  const absent = { eps: 1e-5, isTied: true, ...(headDim === undefined ? {} : { headDim }) };
  const plain = llamaSettings(c, readCommon(c, architecture, absent));
  const bias = c.bool("use_bias", false);
  return {
    ...plain,
    isRopeInterleaved: true,
    attention: attentionBias(plain, bias),
    mlp: { ...plain.mlp, hasBias: bias },
  };
}
