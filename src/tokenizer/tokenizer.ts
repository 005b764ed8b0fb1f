// What the engine knows of a tokenizer, whichever file it came from (json-tokenizer.ts, gguf-vocab.ts).
//
// Text is made of token bytes: decoding joins tokenBytes() and reads them as UTF-8, so that a streaming reader sees the same
// text as one who waits for the end. Special tokens written out in a text ("<|end|>") are encoded as those tokens, except where the
// caller says that the text is content: there they are the characters they are written with.

import type { TextFrame } from "./text-frame.js";

/** How to make tokens of a text. */
export interface EncodeOptions {
  /** Adds what the model expects around a text (usually a BOS token). Off for rendered chat templates, which write their own. */
  readonly addSpecialTokens?: boolean;
  /** Parts of the text in which no special token is looked for: what users and tools wrote. */
  readonly content?: Spans;
}

/** UTF-16 ranges [start, end) of a text, in order, not touching. */
export type Spans = readonly (readonly [start: number, end: number])[];

export interface DecodeOptions {
  readonly skipSpecialTokens?: boolean;
  /** The ids continue a text that is already there: a leading space belongs to the text. */
  readonly isContinuation?: boolean;
}

export interface Tokenizer {
  /** One past the largest id. */
  readonly vocabSize: number;
  readonly bosId: number | null;
  /** Every id that ends a sequence. */
  readonly eosIds: readonly number[];
  /** The names chat templates know special tokens by (bos_token, eos_token, ...), with their text. */
  readonly specialTokens: Readonly<Record<string, string>>;
  /** What a rendered chat must begin with, where its template may leave it out: GGUF files say so of BOS; "" otherwise. */
  readonly chatPrefix: string;
  /** SentencePiece habit: a text is encoded with a space before it, which is taken off again when decoding. */
  readonly stripsLeadingSpace: boolean;

  /** What stands around one text, or around and between two. */
  frame(isPair: boolean): TextFrame;
  /** Special tokens are added unless told otherwise. */
  encode(text: string, options?: EncodeOptions): number[];
  /** Special tokens are kept unless told otherwise. */
  decode(ids: Iterable<number>, options?: DecodeOptions): string;

  tokenToId(token: string): number | null;
  idToToken(id: number): string | null;
  /** The bytes a token adds to the text; may be part of a character. Empty for an id outside the vocabulary. */
  tokenBytes(id: number): Uint8Array;
  /** Markers such as BOS and end of turn, which output usually leaves out. */
  isSpecial(id: number): boolean;
}

// Bytes that are not UTF-8 become U+FFFD; a byte order mark is text like any other.
const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });

export function decodeUtf8(bytes: Uint8Array): string {
  return utf8.decode(bytes);
}

/** The decode of every tokenizer: the tokens' bytes, joined and read as UTF-8. */
export function decodeTokens(tokenizer: Tokenizer, ids: Iterable<number>, options: DecodeOptions = {}): string {
  const pieces: Uint8Array[] = [];
  let numBytes = 0;
  for (const id of ids) {
    if (options.skipSpecialTokens && tokenizer.isSpecial(id)) continue;
    const piece = tokenizer.tokenBytes(id);
    pieces.push(piece);
    numBytes += piece.length;
  }
  const bytes = new Uint8Array(numBytes);
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  const isSpaced = tokenizer.stripsLeadingSpace && !options.isContinuation && bytes[0] === 0x20;
  return decodeUtf8(isSpaced ? bytes.subarray(1) : bytes);
}
