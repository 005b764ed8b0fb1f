// A random model as a Hugging Face folder: config, tokenizer and one safetensors file.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { bytesOf } from "../../src/core/tensor.js";
import { elementsOf } from "../../src/formats/tensor-views.js";
import type { FolderModel } from "./families.js";
import { FileWriter } from "./file-writer.js";
import { FP8_SCALE, type RandomWeights, type RowType } from "./random-weights.js";
import type { TensorSpec } from "./shapes.js";
import type { Vocabulary } from "./vocabulary.js";

/** fp8: the layers' matrices in e4m3 with a scale for each block of 128 x 128, the rest in bf16. */
export type FolderType = "f32" | "f16" | "bf16" | "fp8";
const TORCH_NAME: Record<FolderType, string> = { f32: "float32", f16: "float16", bf16: "bfloat16", fp8: "bfloat16" };
const FP8_BLOCK = 128;
const FP8_CONFIG = { quant_method: "fp8", activation_scheme: "dynamic", weight_block_size: [FP8_BLOCK, FP8_BLOCK] };

export function writeModelFolder(
  folder: string,
  model: FolderModel,
  type: FolderType,
  weights: RandomWeights,
  vocabulary: Vocabulary,
): number {
  mkdirSync(folder, { recursive: true });
  const put = (file: string, value: unknown) => writeFileSync(join(folder, file), `${JSON.stringify(value)}\n`);
  put("config.json", configOf(model, type, vocabulary));
  put("tokenizer.json", tokenizerOf(vocabulary));
  const eos = vocabulary.special[vocabulary.eosId];
  put("tokenizer_config.json", { eos_token: eos, pad_token: eos, chat_template: vocabulary.chatTemplate });
  return writeTensors(join(folder, "model.safetensors"), model, type, weights);
}

function writeTensors(file: string, { tensors }: FolderModel, type: FolderType, weights: RandomWeights): number {
  const header: Record<string, unknown> = { __metadata__: { format: "pt" } };
  let offset = 0;
  const declare = (name: string, dtype: RowType, shape: readonly number[]) => {
    const end = offset + bytesOf(dtype, elementsOf(shape));
    header[name] = { dtype: dtype.toUpperCase(), shape, data_offsets: [offset, end] };
    offset = end;
  };
  for (const tensor of tensors) {
    const { hf, rows, cols, shape = rows === 0 ? [cols] : [rows, cols] } = tensor;
    declare(hf, rowType(tensor, type), shape);
    if (rowType(tensor, type) === "f8_e4m3") declare(`${hf}_scale_inv`, "f32", scaleShape(tensor));
  }
  // Spaces after the header align the data, as the format allows.
  const json = JSON.stringify(header);
  const text = Buffer.from(json.padEnd(Math.ceil(json.length / 64) * 64 - 8));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  const writer = new FileWriter(file);
  writer.put(length);
  writer.put(text);
  for (const [index, tensor] of tensors.entries()) {
    const rows = rowType(tensor, type);
    weights.rows(tensor, index, rows, writer.put, (row) => row);
    if (rows !== "f8_e4m3") continue;
    writer.put(new Uint8Array(new Float32Array(elementsOf(scaleShape(tensor))).fill(FP8_SCALE).buffer));
  }
  return writer.close();
}

function rowType({ hf, rows, shape }: TensorSpec, type: FolderType): RowType {
  if (type !== "fp8") return type;
  return rows > 0 && shape === undefined && hf.includes(".layers.") ? "f8_e4m3" : "bf16";
}

function scaleShape({ rows, cols }: TensorSpec): number[] {
  return [Math.ceil(rows / FP8_BLOCK), Math.ceil(cols / FP8_BLOCK)];
}

function configOf({ config }: FolderModel, type: FolderType, { bosId, eosId }: Vocabulary): unknown {
  return {
    ...config,
    bos_token_id: bosId,
    eos_token_id: eosId,
    torch_dtype: TORCH_NAME[type],
    ...(type === "fp8" ? { quantization_config: FP8_CONFIG } : {}),
  };
}

function tokenizerOf({ tokens, merges, special }: Vocabulary): unknown {
  const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: true };
  return {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: special.map((content, id) => ({ id, content, ...flags })),
    normalizer: null,
    pre_tokenizer: {
      type: "Sequence",
      pretokenizers: [
        { type: "Digits", individual_digits: true },
        { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true },
      ],
    },
    post_processor: null,
    decoder: { type: "ByteLevel", add_prefix_space: true, trim_offsets: true, use_regex: true },
    model: {
      type: "BPE",
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: false,
      vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
      merges,
    },
  };
}
