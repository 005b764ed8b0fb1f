// Turns a small Hugging Face folder into the GGUF file that a converter would make of it, for tests. The changes a converter
// makes (row order of llama's q and k, norms plus one, stacked experts, transposed matrices) are written here on their own,
// as loops over elements, and shared with nothing in src/.

import { toFloat32 } from "../../src/core/dequantize/dequantize.js";
import { quantizeQ4, quantizeQ8 } from "../../src/core/dequantize/quantize.js";
import { f32ToF16 } from "../../src/core/dequantize/small-floats.js";
import type { TensorSource } from "../../src/core/tensor.js";
import { ModelFolder } from "../../src/formats/hf/model-folder.js";
import { type GgufTensor, type GgufValue, writeGguf } from "./gguf-writer.js";

export type MatrixDtype = "f32" | "f16" | "q8_0" | "q4_0";

// biome-ignore lint/suspicious/noExplicitAny: config.json is whatever the folder says
type Raw = Record<string, any>;
interface Values {
  readonly shape: readonly number[];
  readonly values: Float32Array;
}

/** Hugging Face's names of a layer's tensors -> GGUF's. */
const LAYER: Readonly<Record<string, string>> = {
  "input_layernorm.weight": "attn_norm.weight",
  "self_attn.q_proj.weight": "attn_q.weight",
  "self_attn.k_proj.weight": "attn_k.weight",
  "self_attn.v_proj.weight": "attn_v.weight",
  "self_attn.q_proj.bias": "attn_q.bias",
  "self_attn.k_proj.bias": "attn_k.bias",
  "self_attn.v_proj.bias": "attn_v.bias",
  "self_attn.qkv_proj.weight": "attn_qkv.weight",
  "self_attn.o_proj.weight": "attn_output.weight",
  "self_attn.o_proj.bias": "attn_output.bias",
  "self_attn.q_norm.weight": "attn_q_norm.weight",
  "self_attn.k_norm.weight": "attn_k_norm.weight",
  "self_attn.sinks": "attn_sinks.weight",
  "post_attention_layernorm.weight": "ffn_norm.weight",
  "pre_feedforward_layernorm.weight": "ffn_norm.weight",
  "post_feedforward_layernorm.weight": "post_ffw_norm.weight",
  "mlp.gate_proj.weight": "ffn_gate.weight",
  "mlp.up_proj.weight": "ffn_up.weight",
  "mlp.down_proj.weight": "ffn_down.weight",
  "mlp.gate_up_proj.weight": "ffn_up.weight",
  "mlp.gate.weight": "ffn_gate_inp.weight",
  "mlp.router.weight": "ffn_gate_inp.weight",
  "mlp.router.bias": "ffn_gate_inp.bias",
  "block_sparse_moe.gate.weight": "ffn_gate_inp.weight",
  "mlp.shared_expert_gate.weight": "ffn_gate_inp_shexp.weight",
  "mlp.shared_expert.gate_proj.weight": "ffn_gate_shexp.weight",
  "mlp.shared_expert.up_proj.weight": "ffn_up_shexp.weight",
  "mlp.shared_expert.down_proj.weight": "ffn_down_shexp.weight",
  // deepseek
  "self_attn.q_a_proj.weight": "attn_q_a.weight",
  "self_attn.q_a_layernorm.weight": "attn_q_a_norm.weight",
  "self_attn.q_b_proj.weight": "attn_q_b.weight",
  "self_attn.kv_a_proj_with_mqa.weight": "attn_kv_a_mqa.weight",
  "self_attn.kv_a_layernorm.weight": "attn_kv_a_norm.weight",
  "mlp.gate.e_score_correction_bias": "exp_probs_b.bias",
  "mlp.shared_experts.gate_proj.weight": "ffn_gate_shexp.weight",
  "mlp.shared_experts.up_proj.weight": "ffn_up_shexp.weight",
  "mlp.shared_experts.down_proj.weight": "ffn_down_shexp.weight",
  "self_attn.query_layernorm.weight": "attn_q_norm.weight",
  "self_attn.key_layernorm.weight": "attn_k_norm.weight",
  "post_self_attn_layernorm.weight": "post_attention_norm.weight",
  "post_mlp_layernorm.weight": "post_ffw_norm.weight",
  // lfm2
  "operator_norm.weight": "attn_norm.weight",
  "ffn_norm.weight": "ffn_norm.weight",
  "self_attn.out_proj.weight": "attn_output.weight",
  "self_attn.q_layernorm.weight": "attn_q_norm.weight",
  "self_attn.k_layernorm.weight": "attn_k_norm.weight",
  "feed_forward.w1.weight": "ffn_gate.weight",
  "feed_forward.w3.weight": "ffn_up.weight",
  "feed_forward.w2.weight": "ffn_down.weight",
  "conv.conv.weight": "shortconv.conv.weight",
  "conv.in_proj.weight": "shortconv.in_proj.weight",
  "conv.out_proj.weight": "shortconv.out_proj.weight",
  // delta nets
  "linear_attn.in_proj_qkv.weight": "attn_qkv.weight",
  "linear_attn.in_proj_z.weight": "attn_gate.weight",
  "linear_attn.in_proj_a.weight": "ssm_alpha.weight",
  "linear_attn.in_proj_b.weight": "ssm_beta.weight",
  "linear_attn.in_proj_ba.weight": "ssm_ba.weight",
  "linear_attn.conv1d.weight": "ssm_conv1d.weight",
  "linear_attn.norm.weight": "ssm_norm.weight",
  "linear_attn.out_proj.weight": "ssm_out.weight",
  "linear_attn.A_log": "ssm_a",
  "linear_attn.dt_bias": "ssm_dt.bias",
  // gpt2
  "ln_1.weight": "attn_norm.weight",
  "ln_1.bias": "attn_norm.bias",
  "ln_2.weight": "ffn_norm.weight",
  "ln_2.bias": "ffn_norm.bias",
  "attn.c_attn.weight": "attn_qkv.weight",
  "attn.c_attn.bias": "attn_qkv.bias",
  "attn.c_proj.weight": "attn_output.weight",
  "attn.c_proj.bias": "attn_output.bias",
  "mlp.c_fc.weight": "ffn_up.weight",
  "mlp.c_fc.bias": "ffn_up.bias",
  "mlp.c_proj.weight": "ffn_down.weight",
  "mlp.c_proj.bias": "ffn_down.bias",
};

const MODEL: Readonly<Record<string, string>> = {
  "model.embed_tokens.weight": "token_embd.weight",
  "model.norm.weight": "output_norm.weight",
  "lm_head.weight": "output.weight",
  "model.embedding_norm.weight": "token_embd_norm.weight",
  "transformer.wte.weight": "token_embd.weight",
  "transformer.wpe.weight": "position_embd.weight",
  "transformer.ln_f.weight": "output_norm.weight",
  "transformer.ln_f.bias": "output_norm.bias",
};

const ARCHITECTURE: Readonly<Record<string, string>> = {
  LlamaForCausalLM: "llama",
  MistralForCausalLM: "llama",
  MixtralForCausalLM: "llama",
  GraniteForCausalLM: "granite",
  SmolLM3ForCausalLM: "smollm3",
  Olmo2ForCausalLM: "olmo2",
  Qwen2ForCausalLM: "qwen2",
  Qwen3ForCausalLM: "qwen3",
  Qwen3MoeForCausalLM: "qwen3moe",
  Qwen2MoeForCausalLM: "qwen2moe",
  Qwen3NextForCausalLM: "qwen3next",
  Qwen3_5ForCausalLM: "qwen35",
  Qwen3_5MoeForCausalLM: "qwen35moe",
  Lfm2ForCausalLM: "lfm2",
  Glm4MoeForCausalLM: "glm4moe",
  OlmoeForCausalLM: "olmoe",
  Ministral3ForCausalLM: "mistral3",
  SeedOssForCausalLM: "seed_oss",
  Ernie4_5ForCausalLM: "ernie4_5",
  HunYuanDenseV1ForCausalLM: "hunyuan-dense",
  Glm4ForCausalLM: "glm4",
  Exaone4ForCausalLM: "exaone4",
  ArceeForCausalLM: "arcee",
  DeepseekV3ForCausalLM: "deepseek2",
  Gemma2ForCausalLM: "gemma2",
  Gemma3ForCausalLM: "gemma3",
  Phi3ForCausalLM: "phi3",
  GptOssForCausalLM: "gpt-oss",
  GPT2LMHeadModel: "gpt2",
};

/**
 * The GGUF file of a folder, with its matrices in `dtype` where their rows are whole blocks; `isDecoded` writes the values
 * they stand for as f32 instead.
 */
export function convertToGguf(folder: string, dtype: MatrixDtype, isDecoded = false): Buffer {
  const model = new ModelFolder(folder);
  const raw: Raw = model.config;
  const architecture = ARCHITECTURE[raw.architectures[0]]!;
  const source = model.openTensors();
  const tensors: GgufTensor[] = [];
  for (const [name, tensor] of convertTensors(architecture, raw, source)) {
    const encoded = encode(name, tensor, dtype);
    tensors.push(isDecoded ? decode(encoded) : encoded);
  }
  source.close();
  return writeGguf(metadataOf(architecture, raw), tensors);
}

function metadataOf(architecture: string, raw: Raw): Record<string, GgufValue> {
  const rope = raw.rope_parameters?.full_attention ?? raw.rope_parameters ?? {};
  const values: Record<string, GgufValue | null | undefined> = {
    context_length: raw.max_position_embeddings ?? raw.n_positions,
    embedding_length: raw.hidden_size ?? raw.n_embd,
    block_count: raw.num_hidden_layers ?? raw.n_layer,
    feed_forward_length: raw.intermediate_size ?? raw.n_inner ?? 4 * raw.n_embd,
    vocab_size: raw.vocab_size,
    expert_count: raw.num_local_experts ?? raw.num_experts ?? raw.n_routed_experts,
    expert_shared_count: raw.n_shared_experts,
    expert_group_count: raw.n_group,
    expert_group_used_count: raw.topk_group,
    expert_weights_scale: raw.routed_scaling_factor,
    expert_weights_norm: raw.n_routed_experts ? raw.norm_topk_prob : null,
    expert_gating_func: raw.n_routed_experts ? 2 : null,
    leading_dense_block_count: raw.first_k_dense_replace,
    "attention.q_lora_rank": raw.q_lora_rank,
    "attention.kv_lora_rank": raw.kv_lora_rank,
    "attention.key_length_mla": raw.kv_lora_rank && raw.qk_nope_head_dim + raw.qk_rope_head_dim,
    "attention.value_length_mla": raw.v_head_dim,
    expert_shared_feed_forward_length: raw.shared_expert_intermediate_size,
    full_attention_interval: raw.linear_num_key_heads && 4,
    "shortconv.l_cache": raw.conv_L_cache,
    "ssm.conv_kernel": raw.linear_conv_kernel_dim,
    "ssm.state_size": raw.linear_key_head_dim,
    "ssm.group_count": raw.linear_num_key_heads,
    "ssm.time_step_rank": raw.linear_num_value_heads,
    "ssm.inner_size": raw.linear_num_value_heads && raw.linear_num_value_heads * raw.linear_value_head_dim,
    expert_used_count: raw.num_experts_per_tok,
    expert_feed_forward_length:
      raw.moe_intermediate_size ?? (architecture === "gpt-oss" ? raw.intermediate_size : null),
    attn_logit_softcapping: raw.attn_logit_softcapping,
    final_logit_softcapping: raw.final_logit_softcapping,
    embedding_scale: raw.embedding_multiplier,
    residual_scale: raw.residual_multiplier,
    logit_scale: raw.logits_scaling,
    "attention.scale": raw.attention_multiplier,
    "attention.head_count": raw.num_attention_heads ?? raw.n_head,
    "attention.head_count_kv": raw.conv_L_cache
      ? raw.layer_types.map((type: string) => (type === "conv" ? 0 : raw.num_key_value_heads))
      : raw.kv_lora_rank
        ? 1
        : raw.num_key_value_heads,
    "attention.key_length": raw.kv_lora_rank ? raw.kv_lora_rank + raw.qk_rope_head_dim : raw.head_dim,
    "attention.value_length": raw.kv_lora_rank ?? raw.head_dim,
    "attention.layer_norm_rms_epsilon": raw.rms_norm_eps ?? raw.norm_eps,
    "attention.layer_norm_epsilon": raw.layer_norm_epsilon,
    "attention.sliding_window": architecture === "phi3" ? (raw.sliding_window ?? 0) : raw.sliding_window,
    "attention.sliding_window_pattern":
      architecture === "exaone4"
        ? raw.layer_types.map((type: string) => type === "sliding_attention")
        : raw._sliding_window_pattern,
    "attention.temperature_scale": rope.llama_4_scaling_beta,
    "rope.scaling.yarn_log_multiplier": rope.llama_4_scaling_beta && rope.mscale_all_dim,
    "rope.freq_base": rope.rope_theta,
    "rope.dimension_count":
      raw.num_attention_heads &&
      (raw.qk_rope_head_dim ?? raw.head_dim ?? raw.hidden_size / raw.num_attention_heads) *
        (rope.partial_rotary_factor ?? 1),
    "rope.scaling.type": rope.rope_type === "yarn" ? "yarn" : null,
    "rope.scaling.factor": rope.rope_type === "yarn" ? rope.factor : null,
    "rope.scaling.original_context_length":
      rope.rope_type === "yarn" ? rope.original_max_position_embeddings : raw.original_max_position_embeddings,
  };
  const metadata: Record<string, GgufValue> = {
    "general.architecture": architecture,
    "tokenizer.ggml.bos_token_id": raw.bos_token_id,
    "tokenizer.ggml.eos_token_id": raw.eos_token_id,
  };
  for (const [key, value] of Object.entries(values)) {
    if (value !== null && value !== undefined) metadata[`${architecture}.${key}`] = value;
  }
  return metadata;
}

function* convertTensors(architecture: string, raw: Raw, source: TensorSource): Generator<[string, Values]> {
  const isPermuted = ["llama", "granite", "smollm3", "mistral3", "arcee"].includes(architecture);
  const isGemma = architecture.startsWith("gemma");
  const stacks = new Map<string, Values[]>();
  for (const name of source.names()) {
    const tensor = source.get(name);
    let values: Values = { shape: tensor.shape, values: toFloat32(tensor) };
    if (MODEL[name] !== undefined) {
      const isPlusOne = isGemma || raw.linear_num_key_heads !== undefined;
      yield [MODEL[name], isPlusOne && name.endsWith("norm.weight") ? plusOne(values) : values];
      continue;
    }
    const [, layer, part] = /^(?:model\.layers|transformer\.h)\.(\d+)\.(.*)$/.exec(name)!;
    const expert = /experts\.(\d+)\.(\w+)\.weight$/.exec(part!);
    if (expert !== null) {
      const matrix = { gate_proj: "gate", up_proj: "up", down_proj: "down", w1: "gate", w3: "up", w2: "down" }[
        expert[2]!
      ];
      const key = `blk.${layer}.ffn_${matrix}_exps.weight`;
      if (!stacks.has(key)) stacks.set(key, []);
      stacks.get(key)![Number(expert[1])] = values;
      continue;
    }
    if (part!.startsWith("mlp.experts.")) {
      yield* convertGptOssExperts(`blk.${layer}`, part!, values);
      continue;
    }
    if (part === "linear_attn.in_proj_qkvz.weight") {
      yield* convertQkvz(`blk.${layer}`, raw, values);
      continue;
    }
    if (part === "self_attn.kv_b_proj.weight") {
      yield* convertLatent(`blk.${layer}`, raw, values);
      continue;
    }
    let own = LAYER[part!]!;
    if (part!.startsWith("linear_attn.")) values = convertDeltaNet(architecture, part!, raw, values);
    if (part === "conv.conv.weight") values = { ...values, shape: [values.shape[0]!, values.shape[2]!] };
    if (part === "mlp.shared_expert_gate.weight") values = { ...values, shape: [values.shape[1]!] };
    // Where there is a norm after attention as well, ffn_norm is the one before the feed-forward.
    const isHybrid = raw.linear_num_key_heads !== undefined;
    const hasPostNorm =
      isGemma || isHybrid || ["olmo2", "gpt-oss", "exaone4", "seed_oss", "glm4moe"].includes(architecture);
    if (hasPostNorm && part === "post_attention_layernorm.weight") own = "post_attention_norm.weight";
    const isPlusOne = isGemma || (isHybrid && part !== "linear_attn.norm.weight");
    if (isPlusOne && part!.endsWith("norm.weight")) values = plusOne(values);
    if (isPermuted && own.startsWith("attn_q.")) values = permute(values, raw.num_attention_heads);
    if (isPermuted && own.startsWith("attn_k.")) values = permute(values, raw.num_key_value_heads);
    if (architecture === "gpt2" && values.shape.length === 2) values = transpose(values);
    yield [`blk.${layer}.${own}`, values];
  }
  for (const [name, experts] of stacks) yield [name, stack(experts)];
  if (raw.rope_parameters?.rope_type === "llama3") yield ["rope_freqs.weight", llama3Factors(raw)];
}

/** Qwen3-Next keeps [q, k, v, z] of each key head together; files have all q, k, v, and all z apart. */
function* convertQkvz(block: string, raw: Raw, { shape, values }: Values): Generator<[string, Values]> {
  const cols = shape[1]!;
  const K = raw.linear_num_key_heads;
  const keyDim = raw.linear_key_head_dim;
  const vDim = (raw.linear_num_value_heads / K) * raw.linear_value_head_dim;
  const perHead = 2 * keyDim + 2 * vDim;
  const rowsOf = (first: number, count: number): Float32Array[] => {
    const rows: Float32Array[] = [];
    for (let k = 0; k < K; k++)
      for (let i = 0; i < count; i++) {
        const row = k * perHead + first + i;
        rows.push(values.subarray(row * cols, (row + 1) * cols));
      }
    return rows;
  };
  const join = (rows: Float32Array[]): Values => {
    const out = new Float32Array(rows.length * cols);
    rows.forEach((row, i) => {
      out.set(row, i * cols);
    });
    return { shape: [rows.length, cols], values: out };
  };
  yield [
    `${block}.attn_qkv.weight`,
    join([...rowsOf(0, keyDim), ...rowsOf(keyDim, keyDim), ...rowsOf(2 * keyDim, vDim)]),
  ];
  yield [`${block}.attn_gate.weight`, join(rowsOf(2 * keyDim + vDim, vDim))];
}

/** [heads * (keys + values), latent] -> keys [heads, latent, keys], values [heads, values, latent] */
function* convertLatent(block: string, raw: Raw, { values }: Values): Generator<[string, Values]> {
  const H = raw.num_attention_heads;
  const [nope, v, latent] = [raw.qk_nope_head_dim, raw.v_head_dim, raw.kv_lora_rank];
  const keys = new Float32Array(H * latent * nope);
  const rest = new Float32Array(H * v * latent);
  for (let head = 0; head < H; head++)
    for (let row = 0; row < nope + v; row++)
      for (let c = 0; c < latent; c++) {
        const value = values[(head * (nope + v) + row) * latent + c]!;
        if (row < nope) keys[(head * latent + c) * nope + row] = value;
        else rest[(head * v + row - nope) * latent + c] = value;
      }
  yield [`${block}.attn_k_b.weight`, { shape: [H, latent, nope], values: keys }];
  yield [`${block}.attn_v_b.weight`, { shape: [H, v, latent], values: rest }];
}

function convertDeltaNet(architecture: string, part: string, raw: Raw, given: Values): Values {
  let { shape, values } = given;
  if (part.endsWith("A_log")) values = values.map((a) => -Math.exp(a));
  if (part.endsWith("conv1d.weight")) shape = [shape[0]!, shape[2]!];
  if (architecture === "qwen3next") return { shape, values };
  // Value heads in turn: of every key head the first, then of every key head the second, ...
  const K = raw.linear_num_key_heads;
  const perKey = raw.linear_num_value_heads / K;
  const headDim = raw.linear_value_head_dim;
  const place = (head: number): number => (head % perKey) * K + Math.floor(head / perKey);
  const out = values.slice();
  const cols = shape[1] ?? 1;
  if (part.endsWith("out_proj.weight")) {
    for (let i = 0; i < values.length; i++) {
      const col = i % cols;
      out[i - col + place(Math.floor(col / headDim)) * headDim + (col % headDim)] = values[i]!;
    }
    return { shape, values: out };
  }
  const isPerHead = /in_proj_[ab]|A_log|dt_bias/.test(part);
  const hasKeys = /in_proj_qkv|conv1d/.test(part);
  if (part.endsWith("linear_attn.norm.weight")) return { shape, values };
  const size = isPerHead ? 1 : headDim;
  const first = hasKeys ? 2 * K * raw.linear_key_head_dim : 0;
  for (let row = first; row < shape[0]!; row++) {
    const head = Math.floor((row - first) / size);
    const to = first + place(head) * size + ((row - first) % size);
    out.set(values.subarray(row * cols, (row + 1) * cols), to * cols);
  }
  return { shape, values: out };
}

/** gate_up_proj [E, hidden, 2*inner] has gate and up in alternating columns; all matrices are [inputs, outputs]. */
function* convertGptOssExperts(block: string, part: string, { shape, values }: Values): Generator<[string, Values]> {
  const [matrix, suffix] = part.endsWith("_bias") ? [part.slice(12, -5), "bias"] : [part.slice(12), "weight"];
  const [numExperts, inputs, outputs] =
    suffix === "bias" ? [shape[0]!, 1, shape[1]!] : (shape as [number, number, number]);
  const takes: [string, number, number][] =
    matrix === "down_proj"
      ? [["down", 0, 1]]
      : [
          ["gate", 0, 2],
          ["up", 1, 2],
        ]; // [name, first column, step]
  for (const [name, first, step] of takes) {
    const rows = outputs / step;
    const out = new Float32Array(numExperts * rows * inputs);
    for (let e = 0; e < numExperts; e++)
      for (let row = 0; row < rows; row++)
        for (let col = 0; col < inputs; col++)
          out[(e * rows + row) * inputs + col] = values[(e * inputs + col) * outputs + first + row * step]!;
    const outShape = suffix === "bias" ? [numExperts, rows] : [numExperts, rows, inputs];
    yield [`${block}.ffn_${name}_exps.${suffix}`, { shape: outShape, values: out }];
  }
}

/** Heads [2, D/2] become [D/2, 2]: the two members of a rope pair next to each other. */
function permute({ shape, values }: Values, heads: number): Values {
  const rows = shape[0]!;
  const cols = shape[1] ?? 1;
  const half = rows / heads / 2;
  const out = new Float32Array(values.length);
  for (let head = 0; head < heads; head++)
    for (let member = 0; member < 2; member++)
      for (let pair = 0; pair < half; pair++)
        for (let col = 0; col < cols; col++)
          out[((head * half + pair) * 2 + member) * cols + col] =
            values[((head * 2 + member) * half + pair) * cols + col]!;
  return { shape, values: out };
}

function transpose({ shape, values }: Values): Values {
  const [rows, cols] = shape as [number, number];
  return { shape: [cols, rows], values: values.map((_, i) => values[(i % rows) * cols + Math.floor(i / rows)]!) };
}

function plusOne({ shape, values }: Values): Values {
  return { shape, values: values.map((w) => w + 1) };
}

function stack(parts: readonly Values[]): Values {
  const values = new Float32Array(parts.length * parts[0]!.values.length);
  parts.forEach((part, i) => {
    values.set(part.values, i * part.values.length);
  });
  return { shape: [parts.length, ...parts[0]!.shape], values };
}

/** What each frequency is divided by in llama 3's scaling. */
function llama3Factors(raw: Raw): Values {
  const { rope_theta, factor, low_freq_factor, high_freq_factor, original_max_position_embeddings } =
    raw.rope_parameters;
  const values = new Float32Array(raw.head_dim / 2).map((_, i) => {
    const wavelength = 2 * Math.PI * rope_theta ** ((2 * i) / raw.head_dim);
    const turns = original_max_position_embeddings / wavelength;
    if (turns > high_freq_factor) return 1;
    if (turns < low_freq_factor) return factor;
    const smooth = (turns - low_freq_factor) / (high_freq_factor - low_freq_factor);
    return 1 / ((1 - smooth) / factor + smooth);
  });
  return { shape: [values.length], values };
}

function encode(name: string, { shape, values }: Values, dtype: MatrixDtype): GgufTensor {
  const cols = shape.at(-1)!;
  const isMatrix = shape.length >= 2 && !name.includes("ffn_gate_inp") && !name.endsWith(".bias");
  if (isMatrix && dtype === "f16") {
    return { name, dtype, shape, bytes: new Uint8Array(Uint16Array.from(values, f32ToF16).buffer) };
  }
  if (isMatrix && cols % 32 === 0 && (dtype === "q8_0" || dtype === "q4_0")) {
    const quantize = dtype === "q8_0" ? quantizeQ8 : quantizeQ4;
    return { name, dtype, shape, bytes: quantize(values, values.length / cols, cols) };
  }
  return { name, dtype: "f32", shape, bytes: new Uint8Array(values.buffer, values.byteOffset, values.byteLength) };
}

function decode(tensor: GgufTensor): GgufTensor {
  const values = toFloat32({ ...tensor, file: null, byteLength: tensor.bytes.length, bytes: () => tensor.bytes });
  return { ...tensor, dtype: "f32", bytes: new Uint8Array(values.buffer) };
}
