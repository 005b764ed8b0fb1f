// The tensors of a GGUF file under the names, and in the arrangement, that the same model has on Hugging Face.
//
// What a converter changed is undone here, lazily: the rows of llama's q and k (its rope pairs neighbours, Hugging Face's pairs
// halves), the one added to gemma's norms, the stacking of experts. Encodings stay: 4-bit weights stay 4-bit weights.

import { toFloat32 } from "../../core/dequantize/dequantize.js";
import { FormatError } from "../../core/errors.js";
import type { HostTensor, TensorSource } from "../../core/tensor.js";
import { entryOf, madeTensor, permuteRows, renamed, TensorTable } from "../tensor-views.js";
import { joinLatent } from "./gguf-latent.js";
import { asConvolution, asRow, groupedDeltaNet, type Restore, tiledDeltaNet, withoutSuffix } from "./gguf-recurrent.js";

/** Names of one architecture: of the whole model, and of a layer's parts. Suffixes (.weight, .bias) are kept. */
interface Naming {
  readonly model: Readonly<Record<string, string>>;
  readonly layer: Readonly<Record<string, string>>;
  readonly layerPrefix: string;
  /** Names of an expert's matrices, under the layer: `{e}` is the expert's number. */
  readonly experts: Readonly<Record<"gate" | "up" | "down", string>>;
  /** q and k rows lie in pairs of neighbours. */
  readonly isPermuted: boolean;
  /** Norm weights have one added. */
  readonly normsPlusOne: boolean;
  /** Parts that were rearranged in ways of the family's own. */
  readonly restore?: Readonly<Record<string, Restore>>;
}

const STANDARD: Naming = {
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

/** Gemma and OLMo 2 norm after attention and feed-forward; their ffn_norm, where there is one, comes before the latter. */
const POST_NORMS = {
  post_attention_norm: "post_attention_layernorm",
  ffn_norm: "pre_feedforward_layernorm",
  post_ffw_norm: "post_feedforward_layernorm",
};

const SHARED_EXPERT = {
  ffn_gate_inp_shexp: "mlp.shared_expert_gate",
  ffn_gate_shexp: "mlp.shared_expert.gate_proj",
  ffn_up_shexp: "mlp.shared_expert.up_proj",
  ffn_down_shexp: "mlp.shared_expert.down_proj",
};

/** DeepSeek's, and whose are made alike. */
const SHARED_EXPERTS = {
  exp_probs_b: "mlp.gate.e_score_correction_bias",
  ffn_gate_shexp: "mlp.shared_experts.gate_proj",
  ffn_up_shexp: "mlp.shared_experts.up_proj",
  ffn_down_shexp: "mlp.shared_experts.down_proj",
};

const HYBRID: Naming = {
  ...STANDARD,
  layer: {
    ...STANDARD.layer,
    ...SHARED_EXPERT,
    post_attention_norm: "post_attention_layernorm",
    attn_qkv: "linear_attn.in_proj_qkv",
    attn_gate: "linear_attn.in_proj_z",
    ssm_conv1d: "linear_attn.conv1d",
    ssm_norm: "linear_attn.norm",
    ssm_out: "linear_attn.out_proj",
    ssm_alpha: "linear_attn.in_proj_a",
    ssm_beta: "linear_attn.in_proj_b",
    ssm_ba: "linear_attn",
    ssm_a: "linear_attn.A_log",
    ssm_dt: "linear_attn.dt_bias",
  },
  normsPlusOne: true,
};

const LLAMA: Naming = { ...STANDARD, isPermuted: true };
const GEMMA: Naming = { ...STANDARD, layer: { ...STANDARD.layer, ...POST_NORMS }, normsPlusOne: true };

const NAMINGS: Readonly<Record<string, Naming>> = {
  llama: LLAMA,
  mixtral: {
    ...LLAMA,
    layer: { ...LLAMA.layer, ffn_gate_inp: "block_sparse_moe.gate" },
    experts: {
      gate: "block_sparse_moe.experts.{e}.w1",
      up: "block_sparse_moe.experts.{e}.w3",
      down: "block_sparse_moe.experts.{e}.w2",
    },
  },
  granite: LLAMA,
  smollm3: LLAMA,
  mistral3: LLAMA,
  arcee: LLAMA,
  ernie4_5: STANDARD,
  seed_oss: { ...STANDARD, layer: { ...STANDARD.layer, post_attention_norm: "post_attention_layernorm" } },
  "hunyuan-dense": {
    ...STANDARD,
    layer: { ...STANDARD.layer, attn_q_norm: "self_attn.query_layernorm", attn_k_norm: "self_attn.key_layernorm" },
  },
  exaone4: { ...STANDARD, layer: { ...STANDARD.layer, ...POST_NORMS } },
  // GLM's ffn_up holds gate and up.
  glm4: {
    ...STANDARD,
    layer: {
      ...STANDARD.layer,
      post_attention_norm: "post_self_attn_layernorm",
      post_ffw_norm: "post_mlp_layernorm",
      ffn_up: "mlp.gate_up_proj",
    },
  },
  qwen2: STANDARD,
  qwen3: STANDARD,
  qwen3moe: STANDARD,
  qwen2moe: { ...STANDARD, layer: { ...STANDARD.layer, ...SHARED_EXPERT }, restore: { ffn_gate_inp_shexp: asRow } },
  olmoe: STANDARD,
  glm4moe: {
    ...STANDARD,
    layer: { ...STANDARD.layer, ...SHARED_EXPERTS, post_attention_norm: "post_attention_layernorm" },
    restore: { exp_probs_b: withoutSuffix },
  },
  deepseek2: {
    ...STANDARD,
    layer: {
      ...STANDARD.layer,
      ...SHARED_EXPERTS,
      attn_q_a: "self_attn.q_a_proj",
      attn_q_a_norm: "self_attn.q_a_layernorm",
      attn_q_b: "self_attn.q_b_proj",
      attn_kv_a_mqa: "self_attn.kv_a_proj_with_mqa",
      attn_kv_a_norm: "self_attn.kv_a_layernorm",
      attn_kv_b: "self_attn.kv_b_proj",
    },
    restore: { exp_probs_b: withoutSuffix },
  },
  qwen3next: { ...HYBRID, restore: groupedDeltaNet },
  qwen35: { ...HYBRID, restore: tiledDeltaNet },
  qwen35moe: { ...HYBRID, restore: tiledDeltaNet },
  lfm2: {
    ...STANDARD,
    model: { token_embd: "model.embed_tokens", token_embd_norm: "model.embedding_norm", output: "lm_head" },
    layer: {
      ...STANDARD.layer,
      attn_norm: "operator_norm",
      attn_output: "self_attn.out_proj",
      attn_q_norm: "self_attn.q_layernorm",
      attn_k_norm: "self_attn.k_layernorm",
      ffn_norm: "ffn_norm",
      ffn_gate: "feed_forward.w1",
      ffn_up: "feed_forward.w3",
      ffn_down: "feed_forward.w2",
      "shortconv.conv": "conv.conv",
      "shortconv.in_proj": "conv.in_proj",
      "shortconv.out_proj": "conv.out_proj",
    },
    restore: { "shortconv.conv": asConvolution },
  },
  gemma2: GEMMA,
  gemma3: GEMMA,
  olmo2: { ...STANDARD, layer: { ...STANDARD.layer, ...POST_NORMS } },
  // Phi's ffn_up holds gate and up.
  phi3: { ...STANDARD, layer: { ...STANDARD.layer, ffn_up: "mlp.gate_up_proj" } },
  "gpt-oss": {
    ...STANDARD,
    layer: { ...STANDARD.layer, ffn_gate_inp: "mlp.router", post_attention_norm: "post_attention_layernorm" },
  },
  gpt2: {
    ...STANDARD,
    model: {
      token_embd: "transformer.wte",
      position_embd: "transformer.wpe",
      output_norm: "transformer.ln_f",
      output: "lm_head",
    },
    layerPrefix: "transformer.h",
    layer: {
      attn_norm: "ln_1",
      attn_qkv: "attn.c_attn",
      attn_output: "attn.c_proj",
      ffn_norm: "ln_2",
      ffn_up: "mlp.c_fc",
      ffn_down: "mlp.c_proj",
    },
  },
};

/** Read into the configuration (gguf-rope.ts), or computed by the engine itself. */
const NOT_WEIGHTS = /^(rope_freqs|rope_factors_long|rope_factors_short|blk\.\d+\.attn_rot_embd)\.weight$/;

/** Heads that predict several tokens ahead. */
const NEXTN = /^blk\.\d+\.nextn\./;

/** The matrix that makes keys and values of a latent, in two parts. */
const LATENT_KEYS = /^blk\.(\d+)\.attn_k_b\.weight$/;
const LATENT_VALUES = /^blk\.\d+\.attn_v_b\.weight$/;

/** `config` is what ggufConfig made of the same file. */
export function ggufTensors(architecture: string, config: Record<string, unknown>, source: TensorSource): TensorSource {
  const isMixtral = architecture === "llama" && config.num_local_experts !== undefined;
  const naming = NAMINGS[isMixtral ? "mixtral" : architecture]!;
  const table = new TensorTable(source.path, () => source.close());
  for (const name of source.names()) {
    if (NOT_WEIGHTS.test(name) || NEXTN.test(name) || LATENT_VALUES.test(name)) continue;
    const latent = LATENT_KEYS.exec(name);
    if (latent !== null) {
      const values = source.get(`blk.${latent[1]}.attn_v_b.weight`);
      table.add(joinLatent(source.get(name), values, `${naming.layerPrefix}.${latent[1]}.self_attn.kv_b_proj.weight`));
      continue;
    }
    for (const tensor of rename(source.get(name), naming, config)) table.add(tensor);
  }
  return table;
}

function rename(tensor: HostTensor, naming: Naming, config: Record<string, unknown>): HostTensor[] {
  const match = /^(?:blk\.(\d+)\.)?((?:shortconv\.)?\w+?)(_exps|\.\d+)?(?:\.(weight|bias))?$/.exec(tensor.name);
  const [, layer, part = "", expert, suffix] = match ?? [];
  // Only the decay rates of recurrent layers have no suffix.
  if (suffix === undefined && part !== "ssm_a") throw unknown(tensor);
  if (layer === undefined) {
    const own = Object.hasOwn(naming.model, part) ? naming.model[part]! : null;
    if (own === null || expert !== undefined) throw unknown(tensor);
    return [restored(tensor, `${own}.${suffix}`, part, naming, config)];
  }
  const prefix = `${naming.layerPrefix}.${layer}`;
  if (expert === undefined) {
    if (!Object.hasOwn(naming.layer, part)) throw unknown(tensor);
    const own = `${prefix}.${naming.layer[part]}`;
    const restore = naming.restore?.[part];
    if (restore !== undefined) return restore(tensor, suffix === undefined ? own : `${own}.${suffix}`, config);
    // The sinks are a bare parameter on Hugging Face, without a suffix.
    return [restored(tensor, part === "attn_sinks" ? own : `${own}.${suffix}`, part, naming, config)];
  }
  const matrix = part.replace("ffn_", "");
  if (!Object.hasOwn(naming.experts, matrix) || config.num_local_experts === undefined) throw unknown(tensor);
  const nameOf = (e: number) =>
    `${prefix}.${naming.experts[matrix as "gate" | "up" | "down"].replace("{e}", String(e))}.${suffix}`;
  // Older files hold each expert by itself: ffn_gate.0.weight.
  if (expert !== "_exps") return [renamed(tensor, nameOf(Number(expert.slice(1))))];
  return Array.from({ length: tensor.shape[0]! }, (_, e) => entryOf(tensor, nameOf(e), e));
}

/** The tensor as Hugging Face has it. */
function restored(tensor: HostTensor, name: string, part: string, naming: Naming, config: Record<string, unknown>) {
  if (naming.isPermuted && (part === "attn_q" || part === "attn_k")) {
    const heads = (part === "attn_q" ? config.num_attention_heads : config.num_key_value_heads) as number;
    const headDim = tensor.shape[0]! / heads;
    if (!Number.isInteger(headDim / 2)) {
      const found = `[${tensor.shape.join(", ")}]`;
      throw new FormatError("tensor_mismatch", {
        file: tensor.file?.path ?? "",
        tensor: tensor.name,
        expected: `rows of ${heads} heads`,
        found,
      });
    }
    return permuteRows(tensor, name, (row) => pairedRow(row, headDim));
  }
  if (naming.normsPlusOne && part.endsWith("norm") && part !== "ssm_norm") {
    return madeTensor(name, "f32", tensor.shape, () => new Uint8Array(toFloat32(tensor).map((w) => w - 1).buffer));
  }
  return renamed(tensor, name);
}

/** Where a row of Hugging Face's order (first halves of all pairs, then second halves) lies when pairs are neighbours. */
function pairedRow(row: number, headDim: number): number {
  const inHead = row % headDim;
  const half = headDim / 2;
  return row - inHead + (inHead < half ? 2 * inHead : 2 * (inHead - half) + 1);
}

function unknown(tensor: HostTensor): FormatError {
  return new FormatError("unsupported_model_option", {
    file: tensor.file?.path ?? "",
    param: "tensor",
    value: tensor.name.slice(0, 100),
    known: "the tensors of this architecture",
  });
}
