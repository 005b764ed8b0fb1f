// The fields of a tokenizer.json that encoding reads, each of the type it is used as: the library takes them on trust, and what it
// would trip over later, in somebody's request, is an error of the file here, by its path.

import { FormatError } from "../core/errors.js";

type Json = Readonly<Record<string, unknown>>;
type Kind = "string" | "boolean" | "integer" | "size" | "object" | "list" | "parts" | "pattern" | "token and id";

const MAX_VOCAB = 1 << 24;
/** Times as long as it was, a text may become before it is cut into words. */
const MAX_GROWTH = 64;
const MODEL_TYPES = ["BPE", "Unigram", "WordPiece"];
const PARTS = ["normalizer", "pre_tokenizer", "post_processor"];
/** A name means the same in every part that has it. */
const FIELDS: Readonly<Record<string, Kind>> = {
  type: "string",
  // added tokens
  content: "string",
  special: "boolean",
  single_word: "boolean",
  lstrip: "boolean",
  rstrip: "boolean",
  normalized: "boolean",
  // models
  unk_token: "string",
  unk_id: "integer",
  byte_fallback: "boolean",
  fuse_unk: "boolean",
  ignore_merges: "boolean",
  continuing_subword_prefix: "string",
  end_of_word_suffix: "string",
  max_input_chars_per_word: "integer",
  // normalizers, pre-tokenizers, post-processors
  normalizers: "parts",
  pretokenizers: "parts",
  processors: "parts",
  pattern: "pattern",
  prepend: "string",
  replacement: "string",
  prepend_scheme: "string",
  behavior: "string",
  invert: "boolean",
  split: "boolean",
  length: "size",
  individual_digits: "boolean",
  add_prefix_space: "boolean",
  trim_offsets: "boolean",
  use_regex: "boolean",
  strip_left: "boolean",
  strip_right: "boolean",
  clean_text: "boolean",
  handle_chinese_chars: "boolean",
  strip_accents: "boolean",
  lowercase: "boolean",
  single: "list",
  pair: "list",
  special_tokens: "object",
  sep: "token and id",
  cls: "token and id",
};

export function checkTokenizerJson(json: Json, file: string): void {
  const refuse = (what: string, expected: string, value: unknown): never => {
    const found = JSON.stringify(value)?.slice(0, 100) ?? "nothing";
    throw new FormatError("file_corrupt", { file, what, expected, found });
  };
  const isObject = (value: unknown): value is Json =>
    typeof value === "object" && value !== null && !Array.isArray(value);
  const isId = (value: unknown): boolean =>
    Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) < MAX_VOCAB;
  const id = (value: unknown, what: string): void => {
    if (!isId(value)) refuse(what, `a whole number under ${MAX_VOCAB}`, value);
  };
  const list = (value: unknown, what: string): readonly unknown[] =>
    Array.isArray(value) ? value : refuse(what, "a list", value);

  /** null and nothing are the default of every field. */
  const fields = (part: unknown, path: string): Json => {
    if (!isObject(part)) return refuse(path, "an object", part);
    for (const [name, value] of Object.entries(part)) {
      const kind = Object.hasOwn(FIELDS, name) ? FIELDS[name]! : null;
      if (kind !== null && value != null) field(value, kind, `${path}.${name}`);
    }
    return part;
  };
  const field = (value: unknown, kind: Kind, what: string): void => {
    if (kind === "string" || kind === "boolean") {
      if (typeof value !== kind) refuse(what, `a ${kind}`, value);
    } else if (kind === "integer") id(value, what);
    else if (kind === "size") {
      if (!isId(value) || value === 0) refuse(what, "a whole number of at least 1", value);
    } else if (kind === "object") {
      if (!isObject(value)) refuse(what, "an object", value);
    } else if (kind === "list") {
      for (const item of list(value, what)) if (!isObject(item)) refuse(what, "a list of objects", item);
    } else if (kind === "parts") {
      for (const [i, part] of list(value, what).entries()) fields(part, `${what}.${i}`);
    } else if (kind === "pattern") {
      const text = isObject(value) ? (value.Regex ?? value.String) : value;
      if (typeof text !== "string") refuse(what, "a text or an expression", value);
    } else {
      const [token, number] = list(value, what);
      if (typeof token !== "string") refuse(what, "a token and its id", value);
      id(number, what);
    }
  };

  const model = fields(json.model, "model");
  // The oldest files leave the type out; the library tells by the other fields.
  if (model.type != null && !MODEL_TYPES.includes(model.type as string)) {
    const known = MODEL_TYPES.join(", ");
    throw new FormatError("unsupported_model_option", { file, param: "model.type", value: String(model.type), known });
  }
  if (Array.isArray(model.vocab)) {
    for (const [i, entry] of model.vocab.entries())
      if (!Array.isArray(entry) || typeof entry[0] !== "string" || typeof entry[1] !== "number")
        refuse(`model.vocab.${i}`, "a token and its score", entry);
  } else if (isObject(model.vocab)) {
    for (const token in model.vocab) if (!isId(model.vocab[token])) id(model.vocab[token], `id of token ${token}`);
  } else refuse("model.vocab", "an object or a list", model.vocab);
  if (model.merges != null)
    for (const merge of list(model.merges, "model.merges"))
      if (typeof merge !== "string" && !(Array.isArray(merge) && merge.every((side) => typeof side === "string")))
        refuse("model.merges", "pairs of tokens", merge);
  if (json.added_tokens != null)
    for (const [i, entry] of list(json.added_tokens, "added_tokens").entries()) {
      const token = fields(entry, `added_tokens.${i}`);
      if (typeof token.content !== "string") refuse(`added_tokens.${i}.content`, "a string", token.content);
      id(token.id, `id of token ${token.content}`);
    }
  for (const name of PARTS) if (json[name] != null) fields(json[name], name);
  const growth = growthOf(json.normalizer) * growthOf(json.pre_tokenizer);
  if (growth > MAX_GROWTH)
    refuse("normalizer", `replacements that make a text at most ${MAX_GROWTH} times as long`, growth);
}

/** How much longer the replacements of a part make a text at most: one after another they multiply. */
function growthOf(part: unknown): number {
  if (typeof part !== "object" || part === null) return 1;
  const { type, pattern, content, normalizers, pretokenizers } = part as Json;
  const inner = [normalizers, pretokenizers].flatMap((parts) => (Array.isArray(parts) ? parts : []));
  const own = type === "Replace" && typeof content === "string" ? content.length / replacedLen(pattern) : 1;
  return inner.reduce((product: number, each) => product * growthOf(each), Math.max(1, own));
}

/** Characters that are replaced at least; of an expression one, or none, which grows a text like one. */
function replacedLen(pattern: unknown): number {
  const text = typeof pattern === "string" ? pattern : ((pattern as Json | null)?.String ?? "");
  return Math.max(1, String(text).length);
}
