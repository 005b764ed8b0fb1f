// A random model as one GGUF file, version 3.

import { bytesOf } from "../../src/core/tensor.js";
import { f32, text, typed, u32, u64 } from "../../test/support/gguf-writer.js";
import type { MatrixType } from "../lab/random-matrix.js";
import { FileWriter } from "./file-writer.js";
import type { RandomWeights } from "./random-weights.js";
import { NORM_EPS, type Shape, type TensorSpec, tensorsOf } from "./shapes.js";
import type { Vocabulary } from "./vocabulary.js";

const ALIGNMENT = 32;
const GGML_TYPE: Record<MatrixType, number> = { f32: 0, f16: 1, q4_0: 2, q8_0: 8, bf16: 30 };
const FILE_TYPE: Record<MatrixType, number> = { f32: 0, f16: 1, q4_0: 2, q8_0: 7, bf16: 32 };
const FLOAT = 6;
const NORMAL_TOKEN = 1;
const CONTROL_TOKEN = 3;

export function writeGgufModel(
  file: string,
  name: string,
  shape: Shape,
  type: MatrixType,
  weights: RandomWeights,
  vocabulary: Vocabulary,
): number {
  const tensors = tensorsOf(shape);
  const writer = new FileWriter(file);
  const metadata = metadataOf(name, shape, type, vocabulary);
  writer.put(Buffer.concat([Buffer.from("GGUF"), u32(3), u64(tensors.length), u64(metadata.length)]));
  for (const [key, value] of metadata) writer.put(Buffer.concat([text(key), value]));
  let offset = 0;
  for (const tensor of tensors) {
    const { gguf, rows, cols } = tensor;
    const dims = rows === 0 ? [cols] : [cols, rows];
    const stored = storedType(tensor, type);
    writer.put(Buffer.concat([text(gguf), u32(dims.length), ...dims.map(u64), u32(GGML_TYPE[stored]), u64(offset)]));
    offset += Math.ceil(bytesOf(stored, Math.max(1, rows) * cols) / ALIGNMENT) * ALIGNMENT;
  }
  for (const [index, tensor] of tensors.entries()) {
    writer.pad(ALIGNMENT);
    weights.rows(tensor, index, storedType(tensor, type), writer.put, interleaved(tensor));
  }
  writer.pad(ALIGNMENT);
  return writer.close();
}

/** Norms are f32. A q4_0 file keeps its embedding, which is also the head, at 8 bits, as quantisers do in their own ways. */
function storedType({ gguf, rows }: TensorSpec, type: MatrixType): MatrixType {
  if (rows === 0) return "f32";
  return type === "q4_0" && gguf === "token_embd.weight" ? "q8_0" : type;
}

/** GGUF's llama stores rotary pairs side by side: row 2i + j of a head is row j * half + i of the Hugging Face layout. */
function interleaved({ rows, rotaryHeads }: TensorSpec): (row: number) => number {
  if (rotaryHeads === 0) return (row) => row;
  const dim = rows / rotaryHeads;
  return (row) => {
    const inHead = row % dim;
    return row - inHead + (inHead % 2) * (dim / 2) + (inHead >> 1);
  };
}

export function metadataOf(name: string, shape: Shape, type: MatrixType, vocabulary: Vocabulary): [string, Buffer][] {
  const { hidden, layers, heads, kvHeads, ffn, vocab, context, ropeTheta } = shape;
  const { tokens, merges, special, bosId, eosId, chatTemplate } = vocabulary;
  const float = (value: number) => Buffer.concat([u32(FLOAT), f32(value)]);
  return [
    ["general.architecture", typed("llama")],
    ["general.name", typed(name)],
    ["general.alignment", typed(ALIGNMENT)],
    ["general.file_type", typed(FILE_TYPE[type])],
    ["general.quantization_version", typed(2)],
    ["llama.vocab_size", typed(vocab)],
    ["llama.context_length", typed(context)],
    ["llama.embedding_length", typed(hidden)],
    ["llama.block_count", typed(layers)],
    ["llama.feed_forward_length", typed(ffn)],
    ["llama.attention.head_count", typed(heads)],
    ["llama.attention.head_count_kv", typed(kvHeads)],
    ["llama.rope.dimension_count", typed(hidden / heads)],
    ["llama.rope.freq_base", float(ropeTheta)],
    ["llama.attention.layer_norm_rms_epsilon", float(NORM_EPS)],
    ["tokenizer.ggml.model", typed("gpt2")],
    ["tokenizer.ggml.pre", typed("smollm")],
    ["tokenizer.ggml.tokens", typed(tokens)],
    ["tokenizer.ggml.token_type", typed(tokens.map((_, id) => (id < special.length ? CONTROL_TOKEN : NORMAL_TOKEN)))],
    ["tokenizer.ggml.merges", typed(merges)],
    ["tokenizer.ggml.bos_token_id", typed(bosId)],
    ["tokenizer.ggml.eos_token_id", typed(eosId)],
    ["tokenizer.ggml.padding_token_id", typed(eosId)],
    ["tokenizer.ggml.add_bos_token", typed(false)],
    ["tokenizer.chat_template", typed(chatTemplate)],
  ];
}
