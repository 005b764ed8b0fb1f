// tokenizer.json behind the Tokenizer interface. Encoding is @huggingface/tokenizers'; decoding is ours, by bytes, because a
// stream must be able to stop between the bytes of a character.

import { Tokenizer as HuggingFaceTokenizer } from "@huggingface/tokenizers";
import { FormatError } from "../core/errors.js";
import { Charsmap } from "./charsmap.js";
import { ContentEncoder } from "./content-encoder.js";
import { refuseSlowPatterns } from "./slow-patterns.js";
import { frameOf, type TextFrame } from "./text-frame.js";
import { readTokenDecoder, type TokenDecoder } from "./token-decoder.js";
import { type DecodeOptions, decodeTokens, type EncodeOptions, type Tokenizer } from "./tokenizer.js";
import { checkTokenizerJson } from "./tokenizer-json.js";

export interface JsonTokenizerInit {
  /** Shown in errors. */
  readonly file: string;
  /** tokenizer.json */
  readonly json: Record<string, unknown>;
  /** tokenizer_config.json */
  readonly config?: Record<string, unknown>;
  /** Further ids that end a sequence, from generation_config.json. */
  readonly eosIds?: readonly number[];
}

interface PreTokenizerConfig {
  readonly type?: unknown;
  readonly [field: string]: unknown;
}

const GPT2_WORDS = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
const NO_BYTES = new Uint8Array(0);
const TEMPLATE_NAMES = ["bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token"];

export class JsonTokenizer implements Tokenizer {
  readonly vocabSize: number;
  readonly bosId: number | null;
  readonly eosIds: readonly number[];
  readonly specialTokens: Readonly<Record<string, string>>;
  /** The template beside a tokenizer.json writes all its markers itself. */
  readonly chatPrefix = "";
  readonly stripsLeadingSpace: boolean;

  readonly #encoder: HuggingFaceTokenizer;
  readonly #contentEncoder: ContentEncoder;
  readonly #decoder: TokenDecoder;
  readonly #tokens: readonly (string | undefined)[]; // [vocabSize]
  readonly #ids: ReadonlyMap<string, number>;
  /** Added tokens, and whether they are special. */
  readonly #added: ReadonlyMap<number, boolean>;
  readonly #bytes: (Uint8Array | undefined)[] = []; // [vocabSize] filled as asked

  readonly #file: string;
  readonly #hasPairs: boolean;
  readonly #frames: TextFrame[] = []; // of one text, of a pair

  constructor({ file, json, config = {}, eosIds = [] }: JsonTokenizerInit) {
    this.#file = file;
    this.#decoder = readTokenDecoder(json.decoder, file);
    checkTokenizerJson(json, file);
    refuseSlowPatterns(json, file);
    this.#hasPairs = hasPairs(json.post_processor as PostProcessorConfig | null | undefined);
    this.stripsLeadingSpace = this.#decoder.stripsLeadingSpace;
    try {
      const optional = { normalizer: null, pre_tokenizer: null, post_processor: null, added_tokens: [] };
      const pre_tokenizer = withUnicodeClasses(json.pre_tokenizer as PreTokenizerConfig | null | undefined);
      this.#encoder = new HuggingFaceTokenizer({ ...optional, ...json, pre_tokenizer }, config);
      this.#ids = this.#encoder.get_vocab();
      useCharsmaps(this.#encoder.normalizer, file);
    } catch (error) {
      throw unusable(file, error);
    }

    const tokens: string[] = [];
    for (const [token, id] of this.#ids) if (token !== undefined) tokens[id] = token;
    this.#tokens = tokens;
    this.vocabSize = tokens.length;
    const added = this.#encoder.get_added_tokens_decoder();
    this.#added = new Map([...added].map(([id, token]) => [id, token.special]));
    this.#contentEncoder = new ContentEncoder(this.#encoder, [...added.values()]);

    const specialTokens: Record<string, string> = {};
    for (const name of TEMPLATE_NAMES) {
      const value = config[name] as string | { content?: unknown } | null | undefined;
      const content = typeof value === "string" ? value : value?.content;
      if (typeof content === "string") specialTokens[name] = content;
    }
    this.specialTokens = specialTokens;
    const idOf = (name: string): number | null => this.tokenToId(specialTokens[name] ?? "");
    this.bosId = idOf("bos_token");
    const eosId = idOf("eos_token");
    this.eosIds = [...new Set(eosId === null ? eosIds : [...eosIds, eosId])];
  }

  encode(text: string, options: EncodeOptions = {}): number[] {
    try {
      if (options.content !== undefined && options.content.length > 0)
        return inVocabulary(this.#contentEncoder.encode(text, options.content));
      return inVocabulary(this.#encoder.encode(text, { add_special_tokens: options.addSpecialTokens ?? true }).ids);
    } catch (error) {
      throw unusable(this.#file, error); // the library reads some fields only when they are needed
    }
  }

  frame(isPair: boolean): TextFrame {
    this.#frames[isPair ? 1 : 0] ??= this.#findFrame(isPair);
    return this.#frames[isPair ? 1 : 0]!;
  }

  /** Two short words show what the post-processor puts around them; it has no other way to say so. */
  #findFrame(isPair: boolean): TextFrame {
    if (isPair && !this.#hasPairs) {
      const expected = "a template of two texts, which scoring pairs needs";
      throw new FormatError("file_corrupt", { file: this.#file, what: "post_processor.pair", expected, found: "none" });
    }
    const words = isPair ? ["one", "two"] : ["one"];
    try {
      const inner = words.map((word) => this.encode(word, { addSpecialTokens: false }));
      const whole = this.#encoder.encode(words[0]!, {
        ...(isPair ? { text_pair: words[1]! } : {}),
        return_token_type_ids: true,
      });
      const frame = frameOf(whole.ids, whole.token_type_ids, inner);
      if (frame !== null) return frame;
    } catch (error) {
      throw unusable(this.#file, error);
    }
    throw unusable(this.#file, new Error("a post_processor whose special tokens cannot be told from the text"));
  }

  decode(ids: Iterable<number>, options?: DecodeOptions): string {
    return decodeTokens(this, ids, options);
  }

  tokenToId(token: string): number | null {
    return this.#ids.get(token) ?? null;
  }

  idToToken(id: number): string | null {
    return this.#tokens[id] ?? null;
  }

  tokenBytes(id: number): Uint8Array {
    const known = this.#bytes[id];
    if (known !== undefined) return known;
    const token = this.#tokens[id];
    if (token === undefined) return NO_BYTES;
    const bytes = this.#decoder.bytes(token, this.#added.has(id));
    this.#bytes[id] = bytes;
    return bytes;
  }

  isSpecial(id: number): boolean {
    return this.#added.get(id) === true;
  }
}

/** A character without a token, where the file names no token for the unknown, has no id: it is left out. */
function inVocabulary(ids: (number | undefined)[]): number[] {
  return ids.includes(undefined) ? ids.filter((id) => id !== undefined) : (ids as number[]);
}

interface PostProcessorConfig {
  readonly type?: unknown;
  readonly pair?: unknown;
  readonly processors?: readonly PostProcessorConfig[] | null;
}

/** Templates may be of one text alone; every other kind of post-processor knows what to do with two. */
function hasPairs(config: PostProcessorConfig | null | undefined): boolean {
  if (config?.type === "TemplateProcessing") return config.pair != null;
  return (config?.processors ?? []).every(hasPairs);
}

function unusable(file: string, error: unknown): FormatError {
  const found = (error as Error).message;
  return new FormatError("file_corrupt", { file, what: "tokenizer", expected: "one that can be used", found });
}

/**
 * Two of the library's pre-tokenizers use JavaScript's character classes, where a byte order mark is a space and a fraction is
 * no digit. As explicit Splits, which the library reads with Unicode's classes, they split as the vocabulary was trained.
 */
function withUnicodeClasses(config: PreTokenizerConfig | null | undefined): PreTokenizerConfig | null {
  const split = (Regex: string) => ({ type: "Split", pattern: { Regex }, behavior: "Isolated", invert: false });
  if (config?.type === "Sequence" && Array.isArray(config.pretokenizers)) {
    return { ...config, pretokenizers: config.pretokenizers.map(withUnicodeClasses) };
  }
  if (config?.type === "Digits") return split(config.individual_digits ? "\\p{N}" : "\\p{N}+");
  if (config?.type === "ByteLevel" && config.use_regex !== false && config.add_prefix_space === false) {
    return { type: "Sequence", pretokenizers: [split(GPT2_WORDS), { ...config, use_regex: false }] };
  }
  return config ?? null;
}

/** The library's normaliser of this kind is by rules of its own; a file's map says exactly what becomes of a character. */
function useCharsmaps(normalizer: unknown, file: string): void {
  const { config, normalizers } = (normalizer ?? {}) as NormalizerParts;
  for (const part of normalizers ?? []) useCharsmaps(part, file);
  if (config?.type !== "Precompiled" || typeof config.precompiled_charsmap !== "string") return;
  const bytes = Buffer.from(config.precompiled_charsmap, "base64");
  if (bytes.length === 0) return;
  const charsmap = new Charsmap(bytes, file);
  (normalizer as NormalizerParts).normalize = (text) => charsmap.normalizeClusters(text);
}

interface NormalizerParts {
  readonly config?: { readonly type?: unknown; readonly precompiled_charsmap?: unknown };
  readonly normalizers?: readonly unknown[];
  normalize(text: string): string;
}
