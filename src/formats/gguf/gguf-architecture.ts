// One GGUF architecture: what its metadata amounts to as a config.json, and what its tensors are called on Hugging Face.

import { toFloat32 } from "../../core/dequantize/dequantize.js";
import type { HostTensor, TensorSource } from "../../core/tensor.js";
import { elementsOf, madeTensor, renamed, reshaped, sliceOuter } from "../tensor-views.js";
import type { GgufKeys } from "./gguf-keys.js";

export type Config = Record<string, unknown>;

export interface GgufArchitecture {
  readonly config: (keys: GgufKeys, source: TensorSource) => Config;
  readonly naming: Naming | ((config: Config) => Naming);
}

export type GgufArchitectures = Readonly<Record<string, GgufArchitecture>>;

/** The tensors that a tensor of the file is: `name` is what it is called on Hugging Face, with its suffix. */
export type Restore = (tensor: HostTensor, name: string, config: Config) => HostTensor[];

/** Names of the whole model's parts, and of a layer's. Suffixes (.weight, .bias) are kept. */
export interface Naming {
  readonly model: Readonly<Record<string, string>>;
  readonly layer: Readonly<Record<string, string>>;
  readonly layerPrefix: string;
  /** Names of an expert's matrices, under the layer: `{e}` is the expert's number. */
  readonly experts: Readonly<Record<"gate" | "up" | "down", string>>;
  /** q and k rows lie in pairs of neighbours. */
  readonly isPermuted: boolean;
  /** Norm weights have one added. */
  readonly normsPlusOne: boolean;
  /** Parts of a layer whose `.scale` is a parameter of the model's own, not a factor of the matrix, and its name. */
  readonly scales?: Readonly<Record<string, string>>;
  /** Parts that were rearranged in ways of the family's own. */
  readonly restore?: Readonly<Record<string, Restore>>;
  /** Tensors that the file states in its metadata. */
  readonly stated?: (config: Config) => HostTensor[];
}

export const STANDARD: Naming = {
  model: { token_embd: "model.embed_tokens", output_norm: "model.norm", output: "lm_head" },
  layerPrefix: "model.layers",
  layer: {
    attn_norm: "input_layernorm",
    attn_q: "self_attn.q_proj",
    attn_k: "self_attn.k_proj",
    attn_v: "self_attn.v_proj",
    attn_qkv: "self_attn.qkv_proj",
    attn_output: "self_attn.o_proj",
    attn_q_norm: "self_attn.q_norm",
    attn_k_norm: "self_attn.k_norm",
    attn_sinks: "self_attn.sinks",
    ffn_norm: "post_attention_layernorm",
    ffn_gate: "mlp.gate_proj",
    ffn_up: "mlp.up_proj",
    ffn_down: "mlp.down_proj",
    ffn_gate_inp: "mlp.gate",
  },
  experts: {
    gate: "mlp.experts.{e}.gate_proj",
    up: "mlp.experts.{e}.up_proj",
    down: "mlp.experts.{e}.down_proj",
  },
  isPermuted: false,
  normsPlusOne: false,
};

/** STANDARD with other names for some parts of a layer. */
export function standard(layer: Readonly<Record<string, string>>, more: Partial<Naming> = {}): Naming {
  return { ...STANDARD, ...more, layer: { ...STANDARD.layer, ...layer } };
}

export const LLAMA: Naming = { ...STANDARD, isPermuted: true };

/** Gemma and OLMo 2 norm after attention and feed-forward; their ffn_norm, where there is one, comes before the latter. */
export const POST_NORMS = {
  post_attention_norm: "post_attention_layernorm",
  ffn_norm: "pre_feedforward_layernorm",
  post_ffw_norm: "post_feedforward_layernorm",
};

export const SHARED_EXPERT = {
  ffn_gate_inp_shexp: "mlp.shared_expert_gate",
  ffn_gate_shexp: "mlp.shared_expert.gate_proj",
  ffn_up_shexp: "mlp.shared_expert.up_proj",
  ffn_down_shexp: "mlp.shared_expert.down_proj",
};

/** DeepSeek's, and whose are made alike. */
export const SHARED_EXPERTS = {
  exp_probs_b: "mlp.gate.e_score_correction_bias",
  ffn_gate_shexp: "mlp.shared_experts.gate_proj",
  ffn_up_shexp: "mlp.shared_experts.up_proj",
  ffn_down_shexp: "mlp.shared_experts.down_proj",
};

/** Mixtral's, and whose are made alike. */
export const W_EXPERTS: Naming["experts"] = {
  gate: "block_sparse_moe.experts.{e}.w1",
  up: "block_sparse_moe.experts.{e}.w3",
  down: "block_sparse_moe.experts.{e}.w2",
};

/** What is a bare parameter on Hugging Face. */
export const withoutSuffix: Restore = (tensor, name) => [renamed(tensor, name.replace(/\.(bias|weight)$/, ""))];

/** [n] -> [1, n] */
export const asRow: Restore = (tensor, name) => [reshaped(tensor, name, [1, tensor.shape.at(-1)!])];

/** Of any shape -> [n] */
export const asVector: Restore = (tensor, name) => [reshaped(tensor, name, [elementsOf(tensor.shape)])];

/** [channels, taps] -> [channels, 1, taps]; the bias as it is. */
export const asConvolution: Restore = (tensor, name) => {
  const [channels, taps] = tensor.shape;
  return [reshaped(tensor, name, taps === undefined ? [channels!] : [channels!, 1, taps])];
};

/** -exp(A) -> A, of whatever shape. */
export const asLogarithm: Restore = (tensor, name) => [
  madeTensor(
    name,
    "f32",
    [elementsOf(tensor.shape)],
    () => new Uint8Array(toFloat32(tensor).map((a) => Math.log(-a)).buffer),
  ),
];

/** One matrix of all rows -> q, k and v by themselves. */
export const splitQkv: Restore = (tensor, name, config) => {
  const headDim = config.head_dim as number;
  const q = (config.num_attention_heads as number) * headDim;
  const kv = (config.num_key_value_heads as number) * headDim;
  const part = (own: string, from: number, count: number) =>
    sliceOuter(tensor, name.replace("qkv_proj", own), from, count);
  return [part("q_proj", 0, q), part("k_proj", q, kv), part("v_proj", q + kv, kv)];
};
