// The bundled model as a GGUF file, with its tokenizer and chat template.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { BUNDLED_MODEL } from "../../src/config/engine-config.js";
import { convertToGguf } from "./gguf-converter.js";

export function bundledGguf(): Buffer {
  const read = (name: string) => JSON.parse(readFileSync(join(BUNDLED_MODEL, name), "utf8"));
  const { model, added_tokens } = read("tokenizer.json") as {
    model: { vocab: Record<string, number>; merges: [string, string][] };
    added_tokens: { content: string }[];
  };
  const tokens = Object.keys(model.vocab).sort((a, b) => model.vocab[a]! - model.vocab[b]!);
  const special = added_tokens.map(({ content }) => content);
  const keys = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "gpt-2",
    "tokenizer.ggml.tokens": tokens,
    "tokenizer.ggml.token_type": tokens.map((token) => (special.includes(token) ? 3 : 1)),
    "tokenizer.ggml.merges": model.merges.map((pair) => pair.join(" ")),
    "tokenizer.ggml.eos_token_id": 0,
    "tokenizer.chat_template": (read("tokenizer_config.json") as { chat_template: string }).chat_template,
  };
  return convertToGguf(BUNDLED_MODEL, "q8_0", false, undefined, [], keys);
}
