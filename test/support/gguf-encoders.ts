// What a converter makes of encoders: names, the chopped position table, the pooler left out.

import { toFloat32 } from "../../src/core/dequantize/dequantize.js";
import type { TensorSource } from "../../src/core/tensor.js";
import type { Raw } from "./gguf-metadata.js";
import type { GgufValue } from "./gguf-writer.js";

interface Values {
  readonly shape: readonly number[];
  readonly values: Float32Array;
}

export const ENCODER_ARCHITECTURE: Readonly<Record<string, string>> = {
  BertModel: "bert",
  BertForSequenceClassification: "bert",
  DistilBertModel: "bert",
  RobertaForSequenceClassification: "bert",
  XLMRobertaModel: "bert",
  XLMRobertaForSequenceClassification: "bert",
  ModernBertModel: "modern-bert",
  ModernBertForSequenceClassification: "modern-bert",
  Gemma3TextModel: "gemma-embedding",
};

const BERT: Readonly<Record<string, string>> = {
  "embeddings.word_embeddings": "token_embd",
  "embeddings.token_type_embeddings": "token_types",
  "embeddings.position_embeddings": "position_embd",
  "embeddings.LayerNorm": "token_embd_norm",
  "attention.self.query": "attn_q",
  "attention.self.key": "attn_k",
  "attention.self.value": "attn_v",
  "attention.output.dense": "attn_output",
  "attention.output.LayerNorm": "attn_output_norm",
  "intermediate.dense": "ffn_up",
  "output.dense": "ffn_down",
  "output.LayerNorm": "layer_output_norm",
  "classifier.dense": "cls",
  "classifier.out_proj": "cls.output",
  classifier: "cls.output",
  // distilbert
  "attention.q_lin": "attn_q",
  "attention.k_lin": "attn_k",
  "attention.v_lin": "attn_v",
  "attention.out_lin": "attn_output",
  sa_layer_norm: "attn_output_norm",
  "ffn.lin1": "ffn_up",
  "ffn.lin2": "ffn_down",
  output_layer_norm: "layer_output_norm",
};

const MODERN_BERT: Readonly<Record<string, string>> = {
  "embeddings.tok_embeddings": "token_embd",
  "embeddings.norm": "token_embd_norm",
  final_norm: "output_norm",
  attn_norm: "attn_norm",
  "attn.Wqkv": "attn_qkv",
  "attn.Wo": "attn_output",
  mlp_norm: "ffn_norm",
  "mlp.Wi": "ffn_up",
  "mlp.Wo": "ffn_down",
  "head.dense": "cls",
  "head.norm": "cls.norm",
  classifier: "cls.output",
};

export function* convertEncoder(architecture: string, raw: Raw, source: TensorSource): Generator<[string, Values]> {
  const names = architecture === "bert" ? BERT : MODERN_BERT;
  for (const name of source.names()) {
    const tensor = source.get(name);
    const own = name.replace(/^(bert|roberta|model)\./, "");
    if (/^(pooler\.dense|embeddings\.position_ids)/.test(own)) continue;
    const [, layer, part, suffix] =
      /^(?:(?:encoder\.layer|transformer\.layer|layers)\.(\d+)\.)?(.*)\.(weight|bias)$/.exec(own)!;
    let values: Values = { shape: tensor.shape, values: toFloat32(tensor) };
    if (part === "embeddings.position_embeddings" && /roberta/i.test(raw.architectures[0])) {
      const [rows, cols] = tensor.shape as [number, number];
      const first = raw.pad_token_id + 1;
      values = { shape: [rows - first, cols], values: values.values.subarray(first * cols) };
    }
    yield [`${layer === undefined ? "" : `blk.${layer}.`}${names[part!]}.${suffix}`, values];
  }
}

export function encoderValues(architecture: string, raw: Raw): Record<string, GgufValue> {
  const isRoberta = /roberta/i.test(raw.architectures[0]);
  const first = isRoberta ? raw.pad_token_id + 1 : 0;
  const own: Record<string, GgufValue> = {
    context_length: raw.max_position_embeddings - first,
    embedding_length: raw.hidden_size ?? raw.dim,
    block_count: raw.num_hidden_layers ?? raw.n_layers,
    feed_forward_length: raw.intermediate_size ?? raw.hidden_dim,
    "attention.head_count": raw.num_attention_heads ?? raw.n_heads,
    "attention.layer_norm_epsilon": raw.layer_norm_eps ?? raw.norm_eps ?? 1e-12,
    "attention.causal": false,
    pooling_type: 1,
    ...(architecture === "modern-bert"
      ? {
          "attention.sliding_window": raw.local_attention,
          "attention.sliding_window_pattern": raw.global_attn_every_n_layers,
          "rope.freq_base": raw.rope_parameters.full_attention.rope_theta,
          "rope.freq_base_swa": raw.rope_parameters.sliding_attention.rope_theta,
          "rope.scaling.type": "none",
          hidden_activation: raw.hidden_activation,
        }
      : {}),
  };
  const metadata: Record<string, GgufValue> = { "general.architecture": architecture };
  for (const [key, value] of Object.entries(own)) metadata[`${architecture}.${key}`] = value;
  return metadata;
}
