// Writes small random checkpoints of models that embed or score, with a WordPiece tokenizer as BERT's are, and the files that
// sentence-transformers adds.

import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { ReferenceDevice } from "../../src/device/reference/reference-device.js";
import { familyOf } from "../../src/models/registry.js";
import { RandomSource, safetensorsOf } from "./random-source.js";
import { writeSafetensors } from "./safetensors-writer.js";

const WORDS = ["the", "cat", "sat", "on", "mat", "dog", "ran", "far", "search", "_", "query", "document", ":"];
const LETTERS = [..."abcdefghijklmnopqrstuvwxyz0123456789"];
const VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ...WORDS, ...LETTERS, ...LETTERS.map((c) => `##${c}`)];

export const TINY_BERT = {
  architectures: ["BertModel"],
  hidden_size: 32,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  intermediate_size: 48,
  max_position_embeddings: 64,
  vocab_size: VOCAB.length,
};

/** Makes the folder and returns its path; `files` are further ones by path, JSON unless they are bytes. */
export function writeTinyEncoder(config: Record<string, unknown> = {}, files: Record<string, unknown> = {}): string {
  const folder = mkdtempSync(join(tmpdir(), "pagoda-encoder-"));
  const whole = { ...TINY_BERT, ...config };
  const family = familyOf(whole, "config.json");
  const source = new RandomSource({ seed: 7 });
  family.load(family.parseConfig(whole, "config.json"), {
    device: new ReferenceDevice(),
    source,
    capacity: { maxTokens: 8, maxLogitRows: 1 },
    quantize: "none",
  });
  writeFileSync(join(folder, "model.safetensors"), safetensorsOf(source));
  const all = { "config.json": whole, "tokenizer.json": wordPiece(), "tokenizer_config.json": {}, ...files };
  for (const [path, content] of Object.entries(all)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), content instanceof Uint8Array ? content : JSON.stringify(content));
  }
  return folder;
}

/** A module of sentence-transformers' modules.json. */
export function stModule(idx: number, path: string, type: string): Record<string, unknown> {
  return { idx, name: String(idx), path, type: `sentence_transformers.models.${type}` };
}

/** The weights of a Dense module, rows of `outputs` numbers that differ. */
export function writeDense(folder: string, outputs: number, inputs: number): void {
  const data = Float32Array.from({ length: outputs * inputs }, (_, i) => Math.sin(i + 1));
  const path = join(folder, "2_Dense");
  mkdirSync(path, { recursive: true });
  writeSafetensors(
    join(path, "model.safetensors"),
    new Map([["linear.weight", { dtype: "F32", shape: [outputs, inputs], data }]]),
  );
}

/** A tokenizer.json in the manner of BERT. */
export function wordPiece(): unknown {
  const special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
  const piece = (id: string, type_id: number) => ({ SpecialToken: { id, type_id } });
  const text = (id: "A" | "B", type_id: number) => ({ Sequence: { id, type_id } });
  return {
    version: "1.0",
    added_tokens: special.map((content, id) => ({
      id,
      content,
      special: true,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
    })),
    normalizer: {
      type: "BertNormalizer",
      clean_text: true,
      handle_chinese_chars: true,
      strip_accents: null,
      lowercase: true,
    },
    pre_tokenizer: { type: "BertPreTokenizer" },
    post_processor: {
      type: "TemplateProcessing",
      single: [piece("[CLS]", 0), text("A", 0), piece("[SEP]", 0)],
      pair: [piece("[CLS]", 0), text("A", 0), piece("[SEP]", 0), text("B", 1), piece("[SEP]", 1)],
      special_tokens: Object.fromEntries(
        ["[CLS]", "[SEP]"].map((id) => [id, { id, ids: [VOCAB.indexOf(id)], tokens: [id] }]),
      ),
    },
    decoder: { type: "WordPiece", prefix: "##", cleanup: true },
    model: {
      type: "WordPiece",
      unk_token: "[UNK]",
      continuing_subword_prefix: "##",
      max_input_chars_per_word: 100,
      vocab: Object.fromEntries(VOCAB.map((token, id) => [token, id])),
    },
  };
}
