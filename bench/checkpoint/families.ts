// Shapes of models that are no plain Llama, with the config and the tensors that their folders have: a few layers each, since all are alike.

import { NORM_EPS, type Shape, type TensorSpec, tensorsOf } from "./shapes.js";

export interface FolderModel {
  readonly vocab: number;
  /** What config.json says beside the types and the special tokens. */
  readonly config: Readonly<Record<string, unknown>>;
  readonly tensors: readonly TensorSpec[];
}

const HIDDEN = 2048;
const LAYERS = 8;
const VOCAB = 128256;

type Add = (name: string, rows: number, cols: number) => void;
/** A tensor whose name does not end with "weight", or whose shape is no matrix. */
type AddAny = (tensor: Pick<TensorSpec, "hf" | "rows" | "cols" | "shape">) => void;

const COMMON = {
  hidden_size: HIDDEN,
  num_hidden_layers: LAYERS,
  vocab_size: VOCAB,
  max_position_embeddings: 32768,
  rms_norm_eps: NORM_EPS,
  hidden_act: "silu",
  tie_word_embeddings: true,
};

/** Embedding, `layer` of each layer under its prefix, and the last norm. */
function layersOf(hidden: number, layer: (add: Add, l: number, addAny: AddAny) => void): TensorSpec[] {
  const tensors: TensorSpec[] = [];
  const addAnyAs =
    (prefix: string): AddAny =>
    (tensor) =>
      tensors.push({ gguf: "", rotaryHeads: 0, ...tensor, hf: `model.${prefix}${tensor.hf}` });
  const addAs =
    (prefix: string): Add =>
    (name, rows, cols) =>
      addAnyAs(prefix)({ hf: `${name}.weight`, rows, cols });
  addAs("")("embed_tokens", VOCAB, hidden);
  for (let l = 0; l < LAYERS; l++) layer(addAs(`layers.${l}.`), l, addAnyAs(`layers.${l}.`));
  addAs("")("norm", 0, hidden);
  return tensors;
}

function addFeedForward(add: Add, prefix: string, inner: number, hidden = HIDDEN): void {
  add(`${prefix}gate_proj`, inner, hidden);
  add(`${prefix}up_proj`, inner, hidden);
  add(`${prefix}down_proj`, hidden, inner);
}

/** Layers of Qwen3-30B-A3B. */
function moe(): FolderModel {
  const [heads, kvHeads, dim, experts, inner] = [32, 4, 128, 128, 768];
  return {
    vocab: VOCAB,
    config: {
      ...COMMON,
      architectures: ["Qwen3MoeForCausalLM"],
      model_type: "qwen3_moe",
      num_attention_heads: heads,
      num_key_value_heads: kvHeads,
      head_dim: dim,
      intermediate_size: 6144,
      moe_intermediate_size: inner,
      num_experts: experts,
      num_experts_per_tok: 8,
      norm_topk_prob: true,
      decoder_sparse_step: 1,
      mlp_only_layers: [],
      rope_theta: 1e6,
    },
    tensors: layersOf(HIDDEN, (add) => {
      add("input_layernorm", 0, HIDDEN);
      add("self_attn.q_proj", heads * dim, HIDDEN);
      add("self_attn.k_proj", kvHeads * dim, HIDDEN);
      add("self_attn.v_proj", kvHeads * dim, HIDDEN);
      add("self_attn.o_proj", HIDDEN, heads * dim);
      add("self_attn.q_norm", 0, dim);
      add("self_attn.k_norm", 0, dim);
      add("post_attention_layernorm", 0, HIDDEN);
      add("mlp.gate", experts, HIDDEN);
      for (let e = 0; e < experts; e++) addFeedForward(add, `mlp.experts.${e}.`, inner);
    }),
  };
}

/** Layers of DeepSeek-V2-Lite: latent attention, the first feed-forward dense. */
function mla(): FolderModel {
  const [heads, nope, rope, value, rank, experts, inner] = [16, 128, 64, 128, 512, 64, 1408];
  return {
    vocab: VOCAB,
    config: {
      ...COMMON,
      architectures: ["DeepseekV2ForCausalLM"],
      model_type: "deepseek_v2",
      num_attention_heads: heads,
      num_key_value_heads: heads,
      q_lora_rank: null,
      kv_lora_rank: rank,
      qk_nope_head_dim: nope,
      qk_rope_head_dim: rope,
      v_head_dim: value,
      intermediate_size: 10944,
      moe_intermediate_size: inner,
      n_routed_experts: experts,
      n_shared_experts: 2,
      num_experts_per_tok: 6,
      first_k_dense_replace: 1,
      moe_layer_freq: 1,
      topk_method: "greedy",
      scoring_func: "softmax",
      n_group: 1,
      topk_group: 1,
      norm_topk_prob: false,
      routed_scaling_factor: 1,
      rope_theta: 1e4,
    },
    tensors: layersOf(HIDDEN, (add, l) => {
      add("input_layernorm", 0, HIDDEN);
      add("self_attn.q_proj", heads * (nope + rope), HIDDEN);
      add("self_attn.kv_a_proj_with_mqa", rank + rope, HIDDEN);
      add("self_attn.kv_a_layernorm", 0, rank);
      add("self_attn.kv_b_proj", heads * (nope + value), rank);
      add("self_attn.o_proj", HIDDEN, heads * value);
      add("post_attention_layernorm", 0, HIDDEN);
      if (l === 0) {
        addFeedForward(add, "mlp.", 10944);
        return;
      }
      add("mlp.gate", experts, HIDDEN);
      addFeedForward(add, "mlp.shared_experts.", 2 * inner);
      for (let e = 0; e < experts; e++) addFeedForward(add, `mlp.experts.${e}.`, inner);
    }),
  };
}

/** Layers of Gemma 2 2B: heads of 256, two norms more a layer. */
function wide(): FolderModel {
  const [hidden, heads, kvHeads, dim] = [2304, 8, 4, 256];
  return {
    vocab: VOCAB,
    config: {
      ...COMMON,
      hidden_size: hidden,
      architectures: ["Gemma2ForCausalLM"],
      model_type: "gemma2",
      num_attention_heads: heads,
      num_key_value_heads: kvHeads,
      head_dim: dim,
      intermediate_size: 9216,
      hidden_activation: "gelu_pytorch_tanh",
      query_pre_attn_scalar: 256,
      attn_logit_softcapping: 50,
      final_logit_softcapping: 30,
      sliding_window: 4096,
      rope_theta: 1e4,
    },
    tensors: layersOf(hidden, (add) => {
      add("input_layernorm", 0, hidden);
      add("self_attn.q_proj", heads * dim, hidden);
      add("self_attn.k_proj", kvHeads * dim, hidden);
      add("self_attn.v_proj", kvHeads * dim, hidden);
      add("self_attn.o_proj", hidden, heads * dim);
      add("post_attention_layernorm", 0, hidden);
      add("pre_feedforward_layernorm", 0, hidden);
      addFeedForward(add, "mlp.", 9216, hidden);
      add("post_feedforward_layernorm", 0, hidden);
    }),
  };
}

/** Layers of Qwen3.5 2B: three gated delta nets, then full attention with an output gate over heads of 256. */
function hybrid(): FolderModel {
  const [heads, kvHeads, dim, inner, taps] = [16, 2, 256, 6144, 4];
  const [keyHeads, valueHeads, linearDim] = [16, 32, 128];
  const [keys, values] = [keyHeads * linearDim, valueHeads * linearDim];
  return {
    vocab: VOCAB,
    config: {
      ...COMMON,
      architectures: ["Qwen3_5ForCausalLM"],
      model_type: "qwen3_5_text",
      num_attention_heads: heads,
      num_key_value_heads: kvHeads,
      head_dim: dim,
      intermediate_size: inner,
      full_attention_interval: 4,
      linear_num_key_heads: keyHeads,
      linear_num_value_heads: valueHeads,
      linear_key_head_dim: linearDim,
      linear_value_head_dim: linearDim,
      linear_conv_kernel_dim: taps,
      partial_rotary_factor: 0.25,
      rope_theta: 1e7,
    },
    tensors: layersOf(HIDDEN, (add, l, addAny) => {
      add("input_layernorm", 0, HIDDEN);
      if (l % 4 === 3) {
        add("self_attn.q_proj", 2 * heads * dim, HIDDEN);
        add("self_attn.k_proj", kvHeads * dim, HIDDEN);
        add("self_attn.v_proj", kvHeads * dim, HIDDEN);
        add("self_attn.o_proj", HIDDEN, heads * dim);
        add("self_attn.q_norm", 0, dim);
        add("self_attn.k_norm", 0, dim);
      } else {
        add("linear_attn.in_proj_qkv", 2 * keys + values, HIDDEN);
        add("linear_attn.in_proj_z", values, HIDDEN);
        add("linear_attn.in_proj_b", valueHeads, HIDDEN);
        add("linear_attn.in_proj_a", valueHeads, HIDDEN);
        addAny({
          hf: "linear_attn.conv1d.weight",
          rows: 2 * keys + values,
          cols: taps,
          shape: [2 * keys + values, 1, taps],
        });
        addAny({ hf: "linear_attn.A_log", rows: 0, cols: valueHeads });
        addAny({ hf: "linear_attn.dt_bias", rows: 0, cols: valueHeads });
        add("linear_attn.norm", 0, linearDim);
        add("linear_attn.out_proj", HIDDEN, values);
      }
      add("post_attention_layernorm", 0, HIDDEN);
      addFeedForward(add, "mlp.", inner);
    }),
  };
}

export const FAMILIES: Readonly<Record<string, FolderModel>> = {
  moe: moe(),
  mla: mla(),
  wide: wide(),
  hybrid: hybrid(),
};

export function llamaModel(shape: Shape): FolderModel {
  return {
    vocab: shape.vocab,
    config: {
      architectures: ["LlamaForCausalLM"],
      model_type: "llama",
      hidden_size: shape.hidden,
      intermediate_size: shape.ffn,
      num_hidden_layers: shape.layers,
      num_attention_heads: shape.heads,
      num_key_value_heads: shape.kvHeads,
      vocab_size: shape.vocab,
      max_position_embeddings: shape.context,
      rms_norm_eps: NORM_EPS,
      rope_theta: shape.ropeTheta,
      hidden_act: "silu",
      tie_word_embeddings: true,
    },
    tensors: tensorsOf(shape),
  };
}
