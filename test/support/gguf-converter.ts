// Turns a small Hugging Face folder into the GGUF file that a converter would make of it, for tests. The changes a converter
// makes (row order of llama's q and k, norms plus one, stacked experts, transposed matrices) are written here on their own,
// as loops over elements, and shared with nothing in src/.

import { toFloat32 } from "../../src/core/dequantize/dequantize.js";
import { quantizeQ4, quantizeQ8 } from "../../src/core/dequantize/quantize.js";
import { f32ToF16 } from "../../src/core/dequantize/small-floats.js";
import type { TensorSource } from "../../src/core/tensor.js";
import { ModelFolder } from "../../src/formats/hf/model-folder.js";
import { convertEncoder, ENCODER_ARCHITECTURE, encoderValues } from "./gguf-encoders.js";
import { metadataOf, type Raw } from "./gguf-metadata.js";
import { ARCHITECTURE, ggufName, LAYER, MODEL } from "./gguf-names.js";
import { type GgufTensor, type GgufValue, writeGguf } from "./gguf-writer.js";

export type MatrixDtype = "f32" | "f16" | "q8_0" | "q4_0";

/** Architectures whose q and k rows lie in pairs of neighbours. */
export const PERMUTED: readonly string[] = [
  "llama",
  "granite",
  "granitemoe",
  "granitehybrid",
  "nemotron_h_moe",
  "smollm3",
  "mistral3",
  "arcee",
];

interface Values {
  readonly shape: readonly number[];
  readonly values: Float32Array;
}

/**
 * The GGUF file of a folder, with its matrices in `dtype` where their rows are whole blocks; `isDecoded` writes the values
 * they stand for as f32 instead. `verdict`: the rows of two tokens as a reranker's head, in place of the whole one. `more`, `keys`: what else is in the file.
 */
export function convertToGguf(
  folder: string,
  dtype: MatrixDtype,
  isDecoded = false,
  verdict?: readonly [yes: number, no: number],
  more: readonly GgufTensor[] = [],
  keys: Readonly<Record<string, GgufValue>> = {},
): Buffer {
  const model = new ModelFolder(folder);
  const raw: Raw = model.config;
  const architecture = { ...ARCHITECTURE, ...ENCODER_ARCHITECTURE }[raw.architectures[0] as string]!;
  const source = model.openTensors();
  const tensors: GgufTensor[] = [];
  const isEncoder = architecture === "bert" || architecture === "modern-bert";
  const metadata: Record<string, GgufValue> = isEncoder
    ? encoderValues(architecture, raw)
    : { ...metadataOf(architecture, raw), ...xieluValues(raw, source) };
  const convert = isEncoder ? convertEncoder : convertTensors;
  for (const [name, tensor] of convert(architecture, raw, source)) {
    if (verdict !== undefined && name === "output.weight") {
      const row = (id: number) => [...tensor.values.subarray(id * tensor.shape[1]!, (id + 1) * tensor.shape[1]!)];
      const values = Float32Array.from([...row(verdict[0]), ...row(verdict[1])]);
      tensors.push(encode("cls.output.weight", { shape: [2, tensor.shape[1]!], values }, dtype));
      continue;
    }
    const encoded = encode(name, tensor, dtype);
    tensors.push(isDecoded ? decode(encoded) : encoded);
  }
  if (verdict !== undefined) {
    metadata[`${architecture}.pooling_type`] = 4;
    metadata[`${architecture}.classifier.output_labels`] = ["yes", "no"];
  }
  source.close();
  return writeGguf({ ...metadata, ...keys }, [...tensors, ...more]);
}

function* convertTensors(architecture: string, raw: Raw, source: TensorSource): Generator<[string, Values]> {
  const isPermuted = PERMUTED.includes(architecture);
  const isGemma = architecture.startsWith("gemma");
  const isPlusOne =
    ["gemma", "gemma2", "gemma3", "gemma-embedding", "nemotron"].includes(architecture) ||
    raw.linear_num_key_heads !== undefined;
  const stacks = new Map<string, Values[]>();
  for (const name of source.names()) {
    const tensor = source.get(name);
    let values: Values = { shape: tensor.shape, values: toFloat32(tensor) };
    const ofModel = ggufName(MODEL, name) ?? ggufName(MODEL, `model.${name}`); // base models have no prefix
    if (ofModel !== undefined) {
      yield [ofModel, isPlusOne && name.endsWith("norm.weight") ? plusOne(values) : values];
      continue;
    }
    const stream = /^model\.(altup_\w+)\.(\d+)\.weight$/.exec(name);
    if (stream !== null) {
      const key = `${stream[1]!.replace("unembed", "unembd").replace("projections", "proj")}.weight`;
      if (!stacks.has(key)) stacks.set(key, []);
      stacks.get(key)![Number(stream[2])] = values;
      continue;
    }
    const [, layer, part] =
      /^(?:(?:model\.)?layers|backbone\.layers|gpt_neox\.layers|transformer\.h)\.(\d+)\.(.*)$/.exec(name)!;
    if (part!.startsWith("mlp.act_fn.")) continue; // in the metadata
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
    if (/input_linear|experts\.(gate_up|down)_proj$/.test(part!) && architecture !== "gpt-oss") {
      yield* convertStacks(`blk.${layer}`, architecture, part!, values);
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
    let own = ggufName(LAYER, part!)!;
    if (/^(mamba|mixer)\./.test(part!)) values = convertMamba(part!, values);
    if (part === "attention.query_key_value.weight" || part === "attention.query_key_value.bias")
      values = convertByHead(values, raw.num_attention_heads);
    if (part === "block_sparse_moe.output_linear.weight") own = "ffn_down_exps.weight";
    if (part!.startsWith("linear_attn.")) values = convertDeltaNet(architecture, part!, raw, values);
    if (part === "conv.conv.weight") values = { ...values, shape: [values.shape[0]!, values.shape[2]!] };
    if (part === "mlp.shared_expert_gate.weight") values = { ...values, shape: [values.shape[1]!] };
    // Where there is a norm after attention as well, ffn_norm is the one before the feed-forward.
    const isHybrid = raw.linear_num_key_heads !== undefined;
    const hasPostNorm =
      (isGemma && architecture !== "gemma") ||
      isHybrid ||
      ["olmo2", "gpt-oss", "exaone4", "seed_oss", "glm4moe"].includes(architecture);
    if (hasPostNorm && part === "post_attention_layernorm.weight") own = "post_attention_norm.weight";
    if (isPlusOne && part!.endsWith("norm.weight") && part !== "linear_attn.norm.weight") values = plusOne(values);
    if (isPermuted && own.startsWith("attn_q.")) values = permute(values, raw.num_attention_heads);
    if (isPermuted && own.startsWith("attn_k.")) values = permute(values, raw.num_key_value_heads);
    if (architecture === "gpt2" && values.shape.length === 2) values = transpose(values);
    yield [`blk.${layer}.${own}`, values];
  }
  for (const [name, experts] of stacks) yield [name, stack(experts)];
  if (raw.rope_parameters?.rope_type === "llama3") yield ["rope_freqs.weight", llama3Factors(raw)];
  if (architecture === "gemma4") yield ["rope_freqs.weight", proportionalFactors(raw)];
}

/** Apertus: numbers of each layer's activation, in the metadata. */
function xieluValues(raw: Raw, source: TensorSource): Record<string, GgufValue> {
  if (raw.hidden_act !== "xielu") return {};
  const layers = Array.from({ length: raw.num_hidden_layers }, (_, layer) => layer);
  const numberOf = (layer: number, part: string) =>
    toFloat32(source.get(`model.layers.${layer}.mlp.act_fn.${part}`))[0]!;
  const parts = ["alpha_p", "alpha_n", "beta", "eps"];
  return Object.fromEntries(parts.map((part) => [`xielu.${part}`, layers.map((layer) => numberOf(layer, part))]));
}

/** Stacks of gate and up in one: Granite's [E, 2*inner, hidden], Llama 4's [E, hidden, 2*inner]; Mistral 4's stay together. */
function* convertStacks(
  block: string,
  architecture: string,
  part: string,
  values: Values,
): Generator<[string, Values]> {
  const isStack = values.shape.length === 3;
  const whole = architecture === "llama4" ? transposeEach(values) : values;
  const suffix = isStack ? "exps" : "shexp";
  if (part.endsWith("down_proj")) {
    yield [`${block}.ffn_down_exps.weight`, whole];
  } else if (architecture === "mistral4" || architecture === "gemma4") {
    yield [`${block}.ffn_gate_up_exps.weight`, whole];
  } else {
    const [gate, up] = halves(whole);
    yield [`${block}.ffn_gate_${suffix}.weight`, gate];
    yield [`${block}.ffn_up_${suffix}.weight`, up];
  }
}

/** [..., rows, cols] -> the first and the last half of the rows. */
function halves({ shape, values }: Values): [Values, Values] {
  const rows = shape.at(-2)!;
  const size = rows * shape.at(-1)!;
  const halfShape = [...shape.slice(0, -2), rows / 2, shape.at(-1)!];
  const take = (first: number): Values => ({
    shape: halfShape,
    values: values.filter((_, i) => Math.floor((i % size) / (size / 2)) === first),
  });
  return [take(0), take(1)];
}

function transposeEach({ shape, values }: Values): Values {
  const [count, rows, cols] = shape as [number, number, number];
  const each = Array.from({ length: count }, (_, e) =>
    transpose({ shape: [rows, cols], values: values.slice(e * rows * cols, (e + 1) * rows * cols) }),
  );
  return stack(each);
}

/** Mamba-2 mixers: -exp(A), numbers of heads as columns, the norm by groups (here one). */
function convertMamba(part: string, { shape, values }: Values): Values {
  if (part.endsWith("A_log")) return { shape: [shape[0]!, 1], values: values.map((a) => -Math.exp(a)) };
  if (part.endsWith(".D")) return { shape: [shape[0]!, 1], values };
  if (part.endsWith("norm.weight")) return { shape: [1, shape[0]!], values };
  if (part.endsWith("conv1d.weight")) return { shape: [shape[0]!, shape[2]!], values };
  return { shape, values };
}

/** Rows [q, k, v] of each head -> q of all heads, k of all, v of all. */
export function convertByHead({ shape, values }: Values, heads: number): Values {
  const cols = shape[1] ?? 1;
  const headDim = shape[0]! / heads / 3;
  const out = new Float32Array(values.length);
  for (let head = 0; head < heads; head++)
    for (let j = 0; j < 3; j++)
      for (let i = 0; i < headDim * cols; i++)
        out[(j * heads + head) * headDim * cols + i] = values[(head * 3 + j) * headDim * cols + i]!;
  return { shape, values: out };
}

/** Frequencies of Gemma 4's full layers that turn have the divisor 1, the others one that stops them. */
function proportionalFactors(raw: Raw): Values {
  const count = raw.per_layer_config["1"].head_dim / 2;
  const turned = count * raw.rope_parameters.full_attention.partial_rotary_factor;
  return { shape: [count], values: new Float32Array(count).map((_, i) => (i < turned ? 1 : 1e30)) };
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
export function permute({ shape, values }: Values, heads: number): Values {
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
  const headDim = raw.head_dim ?? raw.hidden_size / raw.num_attention_heads;
  const values = new Float32Array(headDim / 2).map((_, i) => {
    const wavelength = 2 * Math.PI * rope_theta ** ((2 * i) / headDim);
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
