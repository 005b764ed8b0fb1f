// A GGUF vocabulary behind the Tokenizer interface: SentencePiece-style (scores, byte fallback) or byte-level BPE (merges).
// Ids equal llama.cpp's on the same file.

import { bertWords } from "./bert-words.js";
import { mergeBigrams } from "./bigram-merge.js";
import { toByteLevel, tryByteLevelBytes } from "./byte-level.js";
import { type GgufMetadata, type GgufVocab, readGgufVocab, TokenType } from "./gguf-vocab.js";
import { splitWords } from "./pre-tokenizers.js";
import { SpecialSplitter } from "./special-splitter.js";
import type { TextFrame } from "./text-frame.js";
import { tryFallbackByte } from "./token-decoder.js";
import { type DecodeOptions, decodeTokens, type EncodeOptions, type Tokenizer } from "./tokenizer.js";
import { Unigram } from "./unigram.js";

const NO_BYTES = new Uint8Array(0);
const SPACE = "\u2581";
/** Words whose ids are remembered; text repeats itself. */
const MAX_CACHED_WORDS = 20_000;

export class GgufTokenizer implements Tokenizer {
  readonly vocabSize: number;
  readonly bosId: number | null;
  readonly eosIds: readonly number[];
  readonly specialTokens: Readonly<Record<string, string>>;
  readonly chatPrefix: string;
  readonly stripsLeadingSpace: boolean;

  readonly #vocab: GgufVocab;
  // Made when text is first encoded: whoever loads the weights alone needs neither.
  #madeIds: ReadonlyMap<string, number> | null = null;
  #madeRanks: ReadonlyMap<string, number> | null = null;
  readonly #splitter: SpecialSplitter;
  readonly #unigram: Unigram | null;
  readonly #words = new Map<string, readonly number[]>();

  constructor(metadata: GgufMetadata, file: string) {
    const vocab = readGgufVocab(metadata, file);
    this.#vocab = vocab;
    this.vocabSize = vocab.tokens.length;
    this.bosId = vocab.bosId;
    this.eosIds = vocab.eosIds;
    const hasSpaces = vocab.kind === "sentencepiece" || vocab.kind === "unigram";
    this.stripsLeadingSpace = vocab.kind === "wordpiece" || (hasSpaces && vocab.addsSpacePrefix);
    this.#unigram = vocab.kind === "unigram" ? unigramOf(vocab, vocab.scores) : null;

    const markers: [string, number][] = [];
    for (let id = 0; id < vocab.tokens.length; id++) {
      if (this.isSpecial(id) || vocab.types[id] === TokenType.USER_DEFINED) markers.push([vocab.tokens[id]!, id]);
    }
    const keepsSpaces = ["<unk>", "<s>", "<|endoftext|>"];
    const stripsAfter = (id: number) => vocab.controlStripsSpaces && !keepsSpaces.includes(vocab.tokens[id]!);
    this.#splitter = new SpecialSplitter(markers, stripsAfter, (id) => this.isSpecial(id));

    const specialTokens: Record<string, string> = {};
    const named = { bos_token: vocab.bosId, eos_token: vocab.eosId, unk_token: vocab.unkId, pad_token: vocab.padId };
    for (const [name, id] of Object.entries(named)) if (id !== null) specialTokens[name] = vocab.tokens[id]!;
    this.specialTokens = specialTokens;
    this.chatPrefix = vocab.addsBos ? (specialTokens.bos_token ?? "") : "";
  }

  get #ids(): ReadonlyMap<string, number> {
    if (this.#madeIds !== null) return this.#madeIds;
    const ids = new Map<string, number>();
    this.#vocab.tokens.forEach((token, id) => {
      ids.set(token, id);
    });
    this.#madeIds = ids;
    return ids;
  }

  /** "left right" -> rank; of merges that are listed twice the first counts. */
  get #ranks(): ReadonlyMap<string, number> {
    if (this.#madeRanks !== null) return this.#madeRanks;
    const ranks = new Map<string, number>();
    const merges = this.#vocab.kind === "byte-level" ? this.#vocab.merges : [];
    for (let rank = merges.length - 1; rank >= 0; rank--) ranks.set(merges[rank]!, rank);
    this.#madeRanks = ranks;
    return ranks;
  }

  encode(text: string, options: EncodeOptions = {}): number[] {
    const { addSpecialTokens = true } = options;
    const { bosId, eosId, addsBos, addsEos } = this.#vocab;
    const ids: number[] = [];
    if (addSpecialTokens && addsBos && bosId !== null) ids.push(bosId);
    for (const fragment of this.#splitter.split(text, options.content)) {
      if (typeof fragment === "number") {
        ids.push(fragment);
      } else if (this.#vocab.kind === "sentencepiece") {
        // Every stretch of text begins the whole or follows a marker: a sentence of its own.
        this.#encodeSentence(this.#vocab.addsSpacePrefix ? ` ${fragment}` : fragment, ids);
      } else if (this.#vocab.kind === "unigram") {
        this.#unigram!.encode(spacedText(fragment, this.#vocab), ids);
      } else if (this.#vocab.kind === "wordpiece") {
        for (const word of bertWords(fragment, this.#vocab)) this.#encodeBertWord(word, ids);
      } else {
        this.#encodeWords(fragment, ids);
      }
    }
    if (addSpecialTokens && addsEos && eosId !== null) ids.push(eosId);
    return ids;
  }

  frame(isPair: boolean): TextFrame {
    const { kind, bosId, eosId, addsBos, addsEos } = this.#vocab;
    const before = addsBos && bosId !== null ? [bosId] : [];
    const after = addsEos && eosId !== null ? [eosId] : [];
    // As RoBERTa has it, the end of the first text is followed by that of an empty one.
    const between = !isPair ? [] : kind === "unigram" ? [...after, ...after] : after;
    return { before, between, after, hasTypes: isPair && kind === "wordpiece" };
  }

  decode(ids: Iterable<number>, options?: DecodeOptions): string {
    return decodeTokens(this, ids, options);
  }

  tokenToId(token: string): number | null {
    return this.#ids.get(token) ?? null;
  }

  idToToken(id: number): string | null {
    return this.#vocab.tokens[id] ?? null;
  }

  tokenBytes(id: number): Uint8Array {
    const token = this.#vocab.tokens[id];
    if (token === undefined) return NO_BYTES;
    const type = this.#vocab.types[id];
    if (this.isSpecial(id) || type === TokenType.USER_DEFINED) return Buffer.from(token, "utf8");
    const isRaw = this.#vocab.kind === "byte-level" && this.#vocab.preTokenizer.isRaw;
    if (this.#vocab.kind === "byte-level" && !isRaw) return tryByteLevelBytes(token) ?? Buffer.from(token, "utf8");
    const byte = type === TokenType.BYTE ? tryFallbackByte(token) : null;
    return byte === null ? Buffer.from(token.replaceAll(SPACE, " "), "utf8") : Uint8Array.of(byte);
  }

  isSpecial(id: number): boolean {
    const type = this.#vocab.types[id];
    return type === TokenType.CONTROL || type === TokenType.UNKNOWN;
  }

  /** The token that text makes: never a control token, though its name may stand in the text. */
  #textId(token: string): number | undefined {
    const id = this.#ids.get(token);
    return id === undefined || this.isSpecial(id) ? undefined : id;
  }

  /** SentencePiece: the whole text is one word; of all pairs the one whose joined token scores highest is joined first. */
  #encodeSentence(text: string, out: number[]): void {
    if (this.#vocab.kind !== "sentencepiece") return;
    const { scores } = this.#vocab;
    const symbols = mergeBigrams(text.replaceAll(" ", SPACE), (left, right) => {
      const id = this.#textId(left + right);
      return id === undefined ? Infinity : -scores[id]!;
    });
    for (const symbol of symbols) {
      const id = this.#ids.get(symbol);
      if (id !== undefined) out.push(id);
      else this.#encodeBytes(symbol, out);
    }
  }

  /** A character without a token of its own, byte by byte. */
  #encodeBytes(symbol: string, out: number[]): void {
    for (const byte of Buffer.from(symbol, "utf8")) {
      const hex = byte.toString(16).toUpperCase().padStart(2, "0");
      const id = this.#ids.get(`<0x${hex}>`) ?? this.#vocab.unkId;
      if (id !== null) out.push(id);
    }
  }

  #encodeWords(text: string, out: number[]): void {
    if (this.#vocab.kind !== "byte-level") return;
    const { patterns, ignoresMerges, isRaw, composes } = this.#vocab.preTokenizer;
    const composed = composes ? text.normalize("NFC") : text;
    for (const word of splitWords(isRaw ? composed.replaceAll(" ", SPACE) : composed, patterns)) {
      let ids = this.#words.get(word);
      if (ids === undefined) {
        ids = isRaw
          ? this.#encodeRawWord(word)
          : this.#encodeWord(toByteLevel(Buffer.from(word, "utf8")), ignoresMerges);
        if (this.#words.size >= MAX_CACHED_WORDS) this.#words.clear();
        this.#words.set(word, ids);
      }
      for (const id of ids) out.push(id);
    }
  }

  /** Merged as it is written; what is no token then is its bytes. A run of line breaks may be one token. */
  #encodeRawWord(word: string): number[] {
    const whole = /^\n+$/.test(word) ? this.#textId(word) : undefined;
    if (whole !== undefined) return [whole];
    const ids: number[] = [];
    for (const symbol of mergeBigrams(word, (left, right) => this.#ranks.get(`${left} ${right}`) ?? Infinity)) {
      const id = this.#textId(symbol);
      if (id !== undefined) ids.push(id);
      else this.#encodeBytes(symbol, ids);
    }
    return ids;
  }

  /** WordPiece: the longest token first, then the longest that continues; a word that does not come out is unknown. */
  #encodeBertWord(word: string, out: number[]): void {
    const text = SPACE + word;
    const ids: number[] = [];
    for (let at = 0; at < text.length; ) {
      let end = text.length;
      while (end > at && this.#textId(text.slice(at, end)) === undefined) end--;
      if (end === at) {
        if (this.#vocab.unkId !== null) out.push(this.#vocab.unkId);
        return;
      }
      ids.push(this.#textId(text.slice(at, end))!);
      at = end;
    }
    out.push(...ids);
  }

  #encodeWord(word: string, ignoresMerges: boolean): number[] {
    const whole = ignoresMerges ? this.#textId(word) : undefined;
    if (whole !== undefined) return [whole];
    const ids: number[] = [];
    for (const symbol of mergeBigrams(word, (left, right) => this.#ranks.get(`${left} ${right}`) ?? Infinity)) {
      const id = this.#textId(symbol);
      if (id !== undefined) {
        ids.push(id);
        continue;
      }
      // A merge may give what is no token in a pruned vocabulary; its single bytes are.
      for (const char of symbol) {
        const byteId = this.#ids.get(char) ?? this.#vocab.unkId;
        if (byteId !== null) ids.push(byteId);
      }
    }
    return ids;
  }
}

/** Tokens that text can be made of, whatever their scores; the least score is that of the plain ones. */
function unigramOf({ tokens, types, unkId }: GgufVocab, scores: readonly number[]): Unigram {
  const ids = new Map<string, number>();
  let worstScore = 0;
  for (let id = 0; id < tokens.length; id++) {
    if (types[id] === TokenType.NORMAL) worstScore = Math.min(worstScore, scores[id]!);
    const isText =
      types[id] === TokenType.NORMAL || types[id] === TokenType.USER_DEFINED || types[id] === TokenType.UNUSED;
    if (isText) ids.set(tokens[id]!, id);
  }
  return new Unigram({ ids, scores, unkId: unkId ?? 0, worstScore });
}

/** Normalised, its spaces as the vocabulary writes them: one before each word where runs are joined. */
function spacedText(text: string, vocab: Extract<GgufVocab, { kind: "unigram" }>): string {
  const { charsmap, addsSpacePrefix, joinsSpaces } = vocab;
  const normalized = charsmap === null ? text : charsmap.normalize(text);
  if (joinsSpaces) {
    const words = normalized.split(" ").filter((word) => word !== "");
    return words.map((word) => SPACE + word).join("");
  }
  // The prefix stands before the first word, behind the spaces that lead to it.
  const lead = /^ */.exec(normalized)![0].length;
  const hasWords = lead < normalized.length;
  const prefixed = addsSpacePrefix && hasWords ? `${normalized.slice(0, lead)} ${normalized.slice(lead)}` : normalized;
  return prefixed.replaceAll(" ", SPACE);
}
