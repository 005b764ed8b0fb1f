// A tokenizer.json with parts of every kind put in, some of them made wrong: it is refused with a FormatError, or gives ids for a short text.

import { FormatError } from "../../src/core/errors.js";
import { JsonTokenizer } from "../../src/tokenizer/json-tokenizer.js";
import { sentencePieceJson } from "../fixtures/vocabularies.js";
import { seeded } from "../support/byte-matcher.js";
import { byteTokenizer } from "../support/tiny-checkpoint.js";
import { wordPiece } from "../support/tiny-encoder.js";
import { mutateText, mutateValue, pick, type Random } from "./mutate.js";

type Json = Record<string, unknown>;

const MOST_MS = 30_000; // slow expressions are tried for a second of processor time each before they are refused
const TEXT = "Hello, wörld! 12\n<eos> ▁a\u0301 日本";
const EXPRESSIONS = [
  ...["\\s+", "\\p{L}+|\\p{N}{1,3}", "(?i:'s|'t)| ?\\p{L}+", "[^\\s]+(?!\\S)", "", "(?<x>a)\\k<x>", "[a-z", "a{2}{3}"],
  ...["(?:)*", "\\p{Xx}", ".{0,9999}", "(?<=a)b", "[\\p{L}&&[a]]", "^", "$"],
];
const TYPES: Readonly<Record<string, readonly string[]>> = {
  normalizer: [
    ...["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Strip", "StripAccents", "Prepend", "Replace", "BertNormalizer"],
    ...["Precompiled", "Sequence"],
  ],
  pre_tokenizer: [
    ...[
      "ByteLevel",
      "Metaspace",
      "Split",
      "Punctuation",
      "Digits",
      "Whitespace",
      "WhitespaceSplit",
      "BertPreTokenizer",
    ],
    ...["FixedLength", "Replace", "Sequence"],
  ],
};
const STRANGE_TYPES = ["Nmt", "UnicodeScripts", "TemplateProcessing", "constructor", "Unigram"];
const BEHAVIORS = ["Isolated", "Removed", "MergedWithNext", "MergedWithPrevious", "Contiguous", "x"];
const LENGTHS = [1, 2, 3, 5, 1000, 2 ** 23];
const STRANGE_LENGTHS = [0, -1, 2 ** 31, 1e308, 0.5];

export class TokenizerFuzzer {
  readonly #subjects = [byteTokenizer(), sentencePieceJson(), wordPiece()] as readonly Json[];

  /** What is wrong with how the mutated file was taken; null when nothing is. */
  try(seed: number): string | null {
    const json = this.#mutated(seeded(seed));
    const startMs = performance.now();
    const wrong = encode(json) ?? (performance.now() - startMs < MOST_MS ? null : "it took too long");
    return wrong === null ? null : `${JSON.stringify({ ...json, model: null, added_tokens: null })}: ${wrong}`;
  }

  #mutated(random: Random): Json {
    let json: Json = { ...pick(random, this.#subjects) };
    for (const name of ["normalizer", "pre_tokenizer"]) if (random() < 0.6) json[name] = partOf(random, name, 0);
    const part = pick(random, ["normalizer", "pre_tokenizer", "post_processor", "model", "decoder", "added_tokens"]);
    if (random() < 0.4) json[part] = mutateValue(json[part], random);
    if (random() < 0.1) json = mutateValue(json, random) as Json;
    return json;
  }
}

function encode(json: unknown): string | null {
  try {
    if (typeof json !== "object" || json === null || Array.isArray(json)) return null; // what reads the file sees to that
    const tokenizer = new JsonTokenizer({ file: "tokenizer.json", json: json as Json });
    const ids = tokenizer.encode(TEXT);
    tokenizer.decode(ids);
    return ids.every((id) => Number.isInteger(id) && id >= 0) ? null : `ids ${JSON.stringify([...ids])}`;
  } catch (error) {
    return error instanceof FormatError ? null : ((error as Error).stack ?? String(error));
  }
}

/** A normalizer or pre-tokenizer with the fields that any of them has. */
function partOf(random: Random, name: string, depth: number): Json {
  const type = pick(random, random() < 0.03 ? STRANGE_TYPES : TYPES[name]!);
  const many = (): Json[] => Array.from({ length: Math.floor(random() * 4) }, () => partOf(random, name, depth + 1));
  if (type === "Sequence" && depth < 4) return { type, normalizers: many(), pretokenizers: many() };
  let source = pick(random, EXPRESSIONS);
  if (random() < 0.3) source = mutateText(source, random);
  const flag = (): boolean => random() < 0.5;
  return {
    type,
    pattern: flag() ? { Regex: source } : { String: pick(random, [" ", "", "a", "\n"]) },
    content: pick(random, ["", " ", "▁", "ab", "x".repeat(40), "$&"]),
    prepend: pick(random, ["", "▁", "é"]),
    replacement: pick(random, ["▁", "", "💥", "ab"]),
    prepend_scheme: pick(random, ["always", "never", "first", "x"]),
    behavior: pick(random, BEHAVIORS),
    delimiter: pick(random, ["", " ", "ab"]),
    precompiled_charsmap: pick(random, ["", "AAAA", "/////w==", "BAAAAAAAAAA="]),
    length: pick(random, random() < 0.05 ? STRANGE_LENGTHS : LENGTHS),
    ...{ invert: flag(), use_regex: flag(), add_prefix_space: flag(), individual_digits: flag(), split: flag() },
    ...{ strip_left: flag(), strip_right: flag(), lowercase: flag(), strip_accents: flag(), clean_text: flag() },
  };
}
