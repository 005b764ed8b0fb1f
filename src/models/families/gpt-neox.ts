// GPT-NeoX (Pythia): LayerNorm, biases, a quarter of each head rotated; attention and feed-forward side by side, each with its norm.

import { layerNormStyle } from "../blocks/norm.js";
import { readCommon } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import { attentionBias, type DecoderConfig, decoderSpec, llamaSettings, loadDecoder } from "../decoder.js";
import type { ModelFamily } from "../model.js";

export const gptNeox: ModelFamily<DecoderConfig> = {
  architectures: ["GPTNeoXForCausalLM"],
  parseConfig(raw, file) {
    const rope = { rope_theta: raw.rotary_emb_base ?? 10_000, partial_rotary_factor: raw.rotary_pct ?? 0.25 };
    // Every head has its own key and value, whatever else is said.
    const c = new ConfigReader({ ...rope, ...raw, num_key_value_heads: raw.num_attention_heads, head_dim: null }, file);
    const absent = { eps: 1e-5, epsField: "layer_norm_eps", activation: "gelu" };
    const plain = llamaSettings(c, readCommon(c, "GPTNeoXForCausalLM", absent));
    return {
      ...plain,
      norm: layerNormStyle(plain.eps),
      isParallel: c.bool("use_parallel_residual", true),
      attention: {
        ...attentionBias(plain, c.bool("attention_bias", true)),
        qkv: ["query_key_value"],
        isByHead: true,
        out: "dense",
      },
      mlp: { ...plain.mlp, gateUp: null, up: "dense_h_to_4h", down: "dense_4h_to_h", hasBias: true },
      names: {
        ...plain.names,
        embedding: "embed_in",
        attention: "attention",
        finalNorm: "final_layer_norm",
        head: "embed_out.weight",
      },
    };
  },
  specOf: decoderSpec,
  load: (config, context) => loadDecoder(config, context),
};
