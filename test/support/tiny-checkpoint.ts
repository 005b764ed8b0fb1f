// Writes small random Llama checkpoints for tests, with a tokenizer of bytes and a chat template. Weights are seeded.

import { cpSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { uniformAt } from "../../src/core/random.js";

export interface TinyShape {
  readonly hidden?: number;
  readonly layers?: number;
  readonly heads?: number;
  readonly kvHeads?: number;
  readonly ffn?: number;
  readonly context?: number;
  readonly seed?: number;
  readonly dtype?: "F32" | "F16" | "BF16";
}

/** For answers that must not end while a test looks at them: to fill this context takes a fast machine the better part of a minute. */
export const ENDLESS = { context: 131_072, tokens: 131_000, numPages: 16_500 } as const;

const VOCAB = 260; // 256 bytes, then <bos>, <eos>, <|user|>, <|assistant|>
const SPECIAL = ["<bos>", "<eos>", "<|user|>", "<|assistant|>"];

/** Makes the folder and returns its path. */
export function writeTinyCheckpoint(shape: TinyShape = {}): string {
  const { hidden = 48, layers = 2, heads = 6, kvHeads = 2, ffn = 96, context = 512, seed = 1, dtype = "F32" } = shape;
  const headDim = hidden / heads;
  const folder = mkdtempSync(join(tmpdir(), "pagoda-tiny-"));
  const config = {
    architectures: ["LlamaForCausalLM"],
    model_type: "llama",
    hidden_size: hidden,
    intermediate_size: ffn,
    num_hidden_layers: layers,
    num_attention_heads: heads,
    num_key_value_heads: kvHeads,
    head_dim: headDim,
    vocab_size: VOCAB,
    max_position_embeddings: context,
    rms_norm_eps: 1e-5,
    rope_theta: 10000,
    hidden_act: "silu",
    tie_word_embeddings: false,
    bos_token_id: 256,
    eos_token_id: 257,
  };
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  writeFileSync(join(folder, "tokenizer.json"), JSON.stringify(byteTokenizer()));
  const chat_template =
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";
  writeFileSync(
    join(folder, "tokenizer_config.json"),
    JSON.stringify({ eos_token: "<eos>", bos_token: "<bos>", chat_template }),
  );

  const tensors: [string, number[]][] = [
    ["model.embed_tokens.weight", [VOCAB, hidden]],
    ["model.norm.weight", [hidden]],
    ["lm_head.weight", [VOCAB, hidden]],
  ];
  for (let layer = 0; layer < layers; layer++) {
    const at = `model.layers.${layer}.`;
    tensors.push([`${at}input_layernorm.weight`, [hidden]], [`${at}post_attention_layernorm.weight`, [hidden]]);
    tensors.push([`${at}self_attn.q_proj.weight`, [heads * headDim, hidden]]);
    tensors.push([`${at}self_attn.k_proj.weight`, [kvHeads * headDim, hidden]]);
    tensors.push([`${at}self_attn.v_proj.weight`, [kvHeads * headDim, hidden]]);
    tensors.push([`${at}self_attn.o_proj.weight`, [hidden, heads * headDim]]);
    tensors.push([`${at}mlp.gate_proj.weight`, [ffn, hidden]], [`${at}mlp.up_proj.weight`, [ffn, hidden]]);
    tensors.push([`${at}mlp.down_proj.weight`, [hidden, ffn]]);
  }
  writeSafetensors(join(folder, "model.safetensors"), tensors, seed, dtype);
  return folder;
}

/** Tensors of uniform noise; norm weights are near one. */
function writeSafetensors(
  file: string,
  tensors: readonly [string, readonly number[]][],
  seed: number,
  dtype: "F32" | "F16" | "BF16",
): void {
  const header: Record<string, unknown> = {};
  const parts: Uint8Array[] = [];
  let offset = 0;
  let counter = 0;
  for (const [name, shape] of tensors) {
    const count = shape.reduce((a, b) => a * b, 1);
    const isNorm = shape.length === 1;
    const spread = isNorm ? 0.2 : 2.5 / Math.sqrt(shape[1]!);
    const values = Float32Array.from(
      { length: count },
      () => (isNorm ? 1 : 0) + (uniformAt(seed, 0, counter++) - 0.5) * 2 * spread,
    );
    const bytes = encode(values, dtype);
    header[name] = { dtype, shape, data_offsets: [offset, offset + bytes.length] };
    offset += bytes.length;
    parts.push(bytes);
  }
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  writeFileSync(file, Buffer.concat([length, text, ...parts]));
}

/** Truncates: which of two neighbours a value becomes does not matter here, only that it is one. */
function encode(values: Float32Array, dtype: "F32" | "F16" | "BF16"): Uint8Array {
  if (dtype === "F32") return new Uint8Array(values.buffer);
  const bits = new Uint32Array(values.buffer);
  const half = dtype === "BF16" ? (b: number) => b >>> 16 : (b: number) => ((b >>> 16) & 0x8000) | halfMagnitude(b);
  return new Uint8Array(Uint16Array.from(bits, half).buffer);
}

/** Of a float below 65504; what is too small for a normal half becomes zero. */
function halfMagnitude(bits: number): number {
  const exponent = ((bits >>> 23) & 255) - 112;
  return exponent <= 0 ? 0 : (exponent << 10) | ((bits >>> 13) & 0x3ff);
}

/** A byte-level BPE without merges: every byte is a token. */
/** A copy of a checkpoint that has no tokenizer, with one of bytes for its `vocabSize` ids. */
export function withByteTokenizer(path: string, vocabSize: number): string {
  const folder = mkdtempSync(join(tmpdir(), "pagoda-tiny-"));
  cpSync(path, folder, { recursive: true });
  const names = Array.from({ length: vocabSize - 256 }, (_, i) => SPECIAL[i] ?? `<${i}>`);
  writeFileSync(join(folder, "tokenizer.json"), JSON.stringify(byteTokenizer(names)));
  return folder;
}

export function byteTokenizer(special: readonly string[] = SPECIAL): unknown {
  const vocab: Record<string, number> = {};
  let shifted = 0;
  for (let byte = 0; byte < 256; byte++) {
    const isPlain = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    vocab[String.fromCodePoint(isPlain ? byte : 256 + shifted++)] = byte;
  }
  const added_tokens = special.map((content, i) => ({
    id: 256 + i,
    content,
    special: true,
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
  }));
  return {
    version: "1.0",
    added_tokens,
    normalizer: null,
    pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true },
    post_processor: null,
    decoder: { type: "ByteLevel", add_prefix_space: true, trim_offsets: true, use_regex: true },
    model: {
      type: "BPE",
      dropout: null,
      unk_token: null,
      byte_fallback: false,
      ignore_merges: false,
      vocab,
      merges: [],
    },
  };
}
