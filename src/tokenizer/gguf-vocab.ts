// The vocabulary in GGUF metadata (tokenizer.ggml.*), checked and named. What it means for text is gguf-tokenizer.ts.

import { FormatError } from "../core/errors.js";
import { Charsmap } from "./charsmap.js";
import { findPreTokenizer, PRE_TOKENIZER_NAMES, type PreTokenizer } from "./pre-tokenizers.js";

export type GgufMetadata = ReadonlyMap<string, unknown>;

/** tokenizer.ggml.token_type */
export const TokenType = { NORMAL: 1, UNKNOWN: 2, CONTROL: 3, USER_DEFINED: 4, UNUSED: 5, BYTE: 6 } as const;

interface CommonVocab {
  readonly tokens: readonly string[]; // [V]
  readonly types: readonly number[]; // [V] TokenType
  readonly bosId: number | null;
  readonly eosId: number | null;
  readonly unkId: number | null;
  readonly padId: number | null;
  /** Every id that ends a sequence. */
  readonly eosIds: readonly number[];
  readonly addsBos: boolean;
  readonly addsEos: boolean;
  /** Control tokens swallow the spaces after them (Phi-3). */
  readonly controlStripsSpaces: boolean;
}

export type GgufVocab = CommonVocab &
  (
    | { readonly kind: "sentencepiece"; readonly scores: readonly number[]; readonly addsSpacePrefix: boolean }
    | { readonly kind: "byte-level"; readonly merges: readonly string[]; readonly preTokenizer: PreTokenizer }
    | {
        readonly kind: "unigram";
        readonly scores: readonly number[];
        readonly addsSpacePrefix: boolean;
        /** Runs of spaces become one, those at the ends none. */
        readonly joinsSpaces: boolean;
        readonly charsmap: Charsmap | null;
      }
    | { readonly kind: "wordpiece"; readonly lowersCase: boolean; readonly stripsAccents: boolean }
  );

/** How files write "none": -1 as 32 bits without a sign. */
const NO_ID = 0xffff_ffff;

/** Ends of turns and texts by their usual names: files often name one of several. */
const END_NAMES = [
  "</s>",
  "<eos>",
  "<|eot_id|>",
  "<|eom_id|>",
  "<|im_end|>",
  "<|end|>",
  "<|return|>",
  "<|call|>",
  "<|endoftext|>",
  "<|end_of_text|>",
  "<end_of_turn>",
  "<turn|>",
  "<EOT>",
  "[EOT]",
  "[EOS]",
  "<end_of_utterance>",
  "<｜end▁of▁sentence｜>",
];

export function readGgufVocab(metadata: GgufMetadata, file: string): GgufVocab {
  const key = (name: string) => `tokenizer.ggml.${name}`;
  const corrupt = (name: string, expected: string, found: unknown): FormatError =>
    new FormatError("file_corrupt", { file, what: key(name), expected, found: String(found).slice(0, 100) });

  const list = <T>(name: string, type: "string" | "number", minLength: number): readonly T[] | null => {
    const value = metadata.get(key(name));
    if (value === undefined) return null;
    if (!isList(value)) throw corrupt(name, "an array", typeof value);
    if (value.length < minLength) throw corrupt(name, `${minLength} entries, one for each token`, value.length);
    for (let i = 0; i < value.length; i++) {
      if (typeof value[i] !== type) throw corrupt(`${name}[${i}]`, `a ${type}`, typeof value[i]);
    }
    return value as ArrayLike<T> as readonly T[];
  };
  const need = <T>(name: string, value: T | null): T => {
    if (value === null) throw corrupt(name, "an entry of the metadata", "none");
    return value;
  };
  const flag = (name: string, fallback: boolean): boolean => {
    const value = metadata.get(key(name));
    if (value !== undefined && typeof value !== "boolean") throw corrupt(name, "true or false", value);
    return value ?? fallback;
  };

  const model = metadata.get(key("model"));
  if (!["llama", "gpt2", "gemma4", "bert", "t5"].includes(String(model))) {
    const known = "llama, gpt2, gemma4, bert, t5";
    throw new FormatError("unsupported_model_option", { file, param: key("model"), value: String(model), known });
  }
  const isSentencePiece = model === "llama";
  const isWordPiece = model === "bert";
  const tokens = need("tokens", list<string>("tokens", "string", 1));
  const types = list<number>("token_type", "number", tokens.length) ?? tokens.map(() => TokenType.NORMAL);
  const id = (name: string, fallback: number | null = null): number | null => {
    const value =
      metadata.get(key(`${name}_token_id`)) ?? (fallback !== null && fallback < tokens.length ? fallback : null);
    if (value === null || value === NO_ID) return null;
    if (!Number.isSafeInteger(value) || (value as number) < 0 || (value as number) >= tokens.length) {
      throw corrupt(`${name}_token_id`, `an id under ${tokens.length}`, value);
    }
    return value as number;
  };

  const bosId = id("bos", isSentencePiece ? 1 : null);
  const eosId = id("eos", isSentencePiece ? 2 : null);
  const common = {
    tokens,
    types,
    bosId,
    eosId,
    unkId: id("unknown", isSentencePiece ? 0 : null),
    padId: id("padding"),
    eosIds: endIds(tokens, types, [eosId, id("eot"), id("eom")]),
    addsEos: flag("add_eos_token", false),
    controlStripsSpaces: /phi-?3/i.test(String(metadata.get("general.name") ?? "")),
  };
  if (isSentencePiece) {
    return {
      ...common,
      kind: "sentencepiece",
      addsBos: flag("add_bos_token", true),
      scores: need("scores", list<number>("scores", "number", tokens.length)),
      addsSpacePrefix: flag("add_space_prefix", true),
    };
  }
  if (model === "t5") {
    const bytes = list<number>("precompiled_charsmap", "number", 0) ?? [];
    return {
      ...common,
      kind: "unigram",
      eosId: id("eos", 1),
      unkId: id("unknown", 2),
      padId: id("padding", 0),
      addsBos: flag("add_bos_token", false),
      addsEos: flag("add_eos_token", true),
      scores: need("scores", list<number>("scores", "number", tokens.length)),
      addsSpacePrefix: flag("add_space_prefix", true),
      joinsSpaces: flag("remove_extra_whitespaces", true),
      charsmap: bytes.length === 0 ? null : new Charsmap(Uint8Array.from(bytes), file),
    };
  }
  if (isWordPiece) {
    const lowersCase = flag("normalizer.lowercase", true);
    return {
      ...common,
      kind: "wordpiece",
      bosId: id("cls", id("bos", 101)),
      eosId: id("seperator", id("eos", 102)),
      unkId: id("unknown", 100),
      addsBos: flag("add_bos_token", true),
      addsEos: flag("add_eos_token", true),
      lowersCase,
      stripsAccents: flag("normalizer.strip_accents", lowersCase),
    };
  }
  const name = model === "gemma4" ? "gemma4" : (metadata.get(key("pre")) ?? "default");
  const preTokenizer = findPreTokenizer(String(name));
  if (preTokenizer === null) {
    const known = PRE_TOKENIZER_NAMES.join(", ");
    throw new FormatError("unsupported_model_option", { file, param: key("pre"), value: String(name), known });
  }
  return {
    ...common,
    kind: "byte-level",
    addsBos: model === "gemma4" || flag("add_bos_token", preTokenizer.addsBos),
    merges: need("merges", list<string>("merges", "string", 0)),
    preTokenizer,
  };
}

/** Chat templates by name; the usual one is "default". */
export function readGgufChatTemplates(metadata: GgufMetadata): ReadonlyMap<string, string> {
  const templates = new Map<string, string>();
  for (const [key, value] of metadata) {
    const name = /^tokenizer\.chat_template(?:\.(.+))?$/.exec(key);
    if (name !== null && typeof value === "string") templates.set(name[1] ?? "default", value);
  }
  return templates;
}

function endIds(tokens: readonly string[], types: readonly number[], named: readonly (number | null)[]): number[] {
  const ids = new Set(named.filter((id) => id !== null));
  const byName = new Map<string, number>();
  for (let id = 0; id < tokens.length; id++) {
    const isMarker = types[id] === TokenType.CONTROL || types[id] === TokenType.USER_DEFINED;
    if (isMarker && END_NAMES.includes(tokens[id]!)) byName.set(tokens[id]!, id);
  }
  // In gpt-oss's harmony format <|end|> ends a message, not the answer.
  const isHarmony = byName.has("<|return|>") && byName.has("<|call|>");
  for (const [name, id] of byName) if (!(isHarmony && name === "<|end|>")) ids.add(id);
  return [...ids];
}

function isList(value: unknown): value is ArrayLike<unknown> {
  return Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof DataView));
}
