// Reads the metadata of one GGUF architecture by key, and remembers what was read: a key that nobody read is an option that
// nobody honours, and is refused by name.

import { FormatError } from "../../core/errors.js";
import type { GgufMetadata } from "./gguf.js";

/** Keys that tell nothing a forward pass needs. */
const IGNORABLE = new Set(["vocab_size", "tensor_data_layout", "rope.scaling.finetuned", "use_parallel_residual"]);

export class GgufKeys {
  readonly file: string;
  readonly architecture: string;
  readonly #metadata: GgufMetadata;
  readonly #read = new Set<string>();

  constructor(metadata: GgufMetadata, architecture: string, file: string) {
    this.#metadata = metadata;
    this.architecture = architecture;
    this.file = file;
  }

  /** A number of this architecture ("attention.head_count" for llama.attention.head_count); null when absent. */
  number(key: string): number | null {
    const value = this.value(key);
    if (value === undefined) return null;
    // Some files give one number per layer; Pagoda's families have layers of one shape.
    const single = Array.isArray(value) && value.every((item) => item === value[0]) ? value[0] : value;
    if (typeof single !== "number" || !Number.isFinite(single)) throw this.refuse(key, "one finite number");
    return single;
  }

  /** A whole number from 1 up that the model cannot do without. Counts of things that are made one by one have a `max`. */
  size(key: string, max = 2 ** 32): number {
    const value = this.number(key);
    if (value === null || !Number.isSafeInteger(value) || value < 1 || value > max) {
      throw this.refuse(key, `a whole number from 1 to ${max}`);
    }
    return value;
  }

  text(key: string): string | null {
    const value = this.value(key) ?? null;
    if (value !== null && typeof value !== "string") throw this.refuse(key, "a string");
    return value;
  }

  value(key: string): unknown {
    this.#read.add(key);
    return this.#metadata.get(`${this.architecture}.${key}`);
  }

  /** A key that has no architecture before it. */
  general(key: string): unknown {
    return this.#metadata.get(key);
  }

  /** A token id of the tokenizer's keys; null when absent. */
  tokenId(name: string): number | null {
    const value = this.#metadata.get(`tokenizer.ggml.${name}_token_id`);
    // Some files write 2^32 - 1 for "none".
    return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 && value < 2 ** 32 - 1 ? value : null;
  }

  /** Throws unless every key of the architecture was read, says nothing (0, false, empty), or is known not to matter. */
  checkAllRead(): void {
    const prefix = `${this.architecture}.`;
    for (const [full, value] of this.#metadata) {
      if (!full.startsWith(prefix)) continue;
      const key = full.slice(prefix.length);
      const isNeutral = value === 0 || value === false || (Array.isArray(value) && value.length === 0);
      if (!this.#read.has(key) && !IGNORABLE.has(key) && !isNeutral) {
        throw this.refuse(key, `for ${this.architecture}: ${[...this.#read].join(", ")}`);
      }
    }
  }

  refuse(key: string, known: string): FormatError {
    const value = this.#metadata.get(`${this.architecture}.${key}`);
    const shown = value === undefined ? "missing" : String(value).slice(0, 100);
    return new FormatError("unsupported_model_option", {
      file: this.file,
      param: `${this.architecture}.${key}`,
      value: shown,
      known,
    });
  }
}
