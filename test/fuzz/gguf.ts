// GGUF files made wrong: a key of the metadata replaced, removed or doubled and the file written anew, or bytes changed anywhere.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openGguf } from "../../src/formats/gguf/gguf.js";
import { sentencePieceTokens } from "../fixtures/vocabularies.js";
import { convertToGguf } from "../support/gguf-converter.js";
import { type GgufTensor, type GgufValue, writeGguf } from "../support/gguf-writer.js";
import { mutateBytes, mutateValue, type Random } from "./mutate.js";

export class GgufSubject {
  readonly #metadata: Record<string, unknown>;
  readonly #tensors: readonly GgufTensor[];
  readonly #whole: Buffer;

  /** What a converter makes of the model in the folder, with a small vocabulary and a template of its own. */
  constructor(folder: string) {
    const temporary = mkdtempSync(join(tmpdir(), "pagoda-gguf-"));
    const path = join(temporary, "model.gguf");
    writeFileSync(path, convertToGguf(folder, "f16"));
    const { metadata, source } = openGguf(path);
    this.#metadata = { ...Object.fromEntries(metadata), ...vocabulary() };
    this.#tensors = [...source.names()].map((name) => {
      const { dtype, shape, bytes } = source.get(name);
      return { name, dtype, shape, bytes: Uint8Array.from(bytes()) };
    });
    source.close();
    rmSync(temporary, { recursive: true });
    this.#whole = writeGguf(this.#metadata as Record<string, GgufValue>, this.#tensors);
  }

  mutated(random: Random): Uint8Array {
    if (random() < 0.3) return mutateBytes(this.#whole, random);
    const metadata = mutateValue(this.#metadata, random) as Record<string, unknown>;
    const entries = Object.entries(metadata ?? {}).filter(([, value]) => isWritable(value));
    return writeGguf(Object.fromEntries(entries) as Record<string, GgufValue>, this.#tensors);
  }
}

export function ggufSubjects(goldens: string): GgufSubject[] {
  return ["llama", "mixtral", "gemma3", "qwen3", "deepseek-v3"].map((name) => new GgufSubject(join(goldens, name)));
}

function vocabulary(): Record<string, GgufValue> {
  const tokens = sentencePieceTokens();
  return {
    "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.tokens": tokens,
    "tokenizer.ggml.scores": tokens.map((_, id) => -id - 0.5),
    "tokenizer.ggml.token_type": tokens.map((token) => (/^<0x/.test(token) ? 6 : /^<.*>$/.test(token) ? 3 : 1)),
    "tokenizer.ggml.add_bos_token": true,
    "tokenizer.chat_template": "{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}",
  };
}

/** What the format has a type for, and the writer a way to write. */
function isWritable(value: unknown): boolean {
  if (typeof value === "number") return !Number.isInteger(value) || (value >= 0 && value < 2 ** 32);
  if (!Array.isArray(value) && !ArrayBuffer.isView(value)) return ["string", "boolean"].includes(typeof value);
  const items = Array.from(value as ArrayLike<unknown>);
  const isWhole = (item: unknown): boolean => !Number.isInteger(item) || Math.abs(item as number) < 2 ** 31;
  return items.every((item) => typeof item === typeof items[0] && typeof item !== "object" && isWhole(item));
}
