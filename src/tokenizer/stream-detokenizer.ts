// Turns one sample's tokens into text as they come. What push() returns can be shown at once: it never ends inside a character
// and never contains the beginning of what may become a stop string. The pieces, joined, are exactly the text of all tokens,
// cut before the first stop string. Work per token is constant, amortised: nothing is decoded twice.

import { StopMatcher } from "./stop-matcher.js";
import { decodeUtf8, type Tokenizer } from "./tokenizer.js";

export interface StreamOptions {
  readonly stop?: readonly string[];
  /** Tokens before which stop strings do not count. */
  readonly minTokens?: number;
  /** On unless told otherwise: markers are not text. */
  readonly skipSpecialTokens?: boolean;
  /** The tokens continue a prompt, so that a leading space is kept (see DecodeOptions). On unless told otherwise. */
  readonly isContinuation?: boolean;
}

export class StreamDetokenizer {
  /** The stop string that ended the text, once one has; every push after it returns "". */
  stopReason: string | null = null;

  readonly #tokenizer: Tokenizer;
  readonly #texts: Map<number, string>;
  readonly #stops: StopMatcher;
  readonly #minTokens: number;
  readonly #skipSpecialTokens: boolean;
  #dropsSpace: boolean;
  #numTokens = 0;
  /** The first bytes of a character whose others have not come. At most three. */
  #partial: Uint8Array = new Uint8Array(0);
  /** Text that may be the beginning of a stop string. */
  #held = "";

  constructor(tokenizer: Tokenizer, options: StreamOptions = {}) {
    this.#tokenizer = tokenizer;
    this.#texts = textsOf(tokenizer);
    this.#stops = new StopMatcher(options.stop ?? []);
    this.#minTokens = options.minTokens ?? 0;
    this.#skipSpecialTokens = options.skipSpecialTokens ?? true;
    this.#dropsSpace = tokenizer.stripsLeadingSpace && options.isContinuation === false;
  }

  /** Takes the next token; returns the text that is certain now, often "". */
  push(id: number): string {
    if (this.stopReason !== null) return "";
    this.#numTokens++;
    if (this.#skipSpecialTokens && this.#tokenizer.isSpecial(id)) return "";
    const isPlain = this.#partial.length === 0 && !this.#dropsSpace;
    const known = isPlain ? this.#texts.get(id) : undefined;
    if (known !== undefined) return this.#release(known);
    let bytes = this.#tokenizer.tokenBytes(id);
    if (bytes.length === 0) return "";
    if (this.#dropsSpace) {
      this.#dropsSpace = false;
      if (bytes[0] === 0x20) bytes = bytes.subarray(1);
    }
    if (this.#partial.length > 0) bytes = Buffer.concat([this.#partial, bytes]);
    const whole = bytes.length - partialCharLen(bytes);
    this.#partial = bytes.subarray(whole);
    const text = decodeUtf8(bytes.subarray(0, whole));
    if (isPlain && whole === bytes.length) this.#texts.set(id, text);
    return this.#release(text);
  }

  /** The text that was still held back, when no token will follow. Bytes of half a character become U+FFFD. */
  flush(): string {
    if (this.stopReason !== null) return "";
    const text = this.#release(decodeUtf8(this.#partial));
    this.#partial = new Uint8Array(0);
    if (this.stopReason !== null) return text;
    const held = this.#held;
    this.#held = "";
    return text + held;
  }

  #release(text: string): string {
    if (this.#stops.isEmpty || this.#numTokens <= this.#minTokens) return text;
    const found = this.#stops.find(text);
    const all = this.#held + text;
    if (found !== null) {
      this.stopReason = found.stop;
      const end = this.#held.length + found.end;
      this.#held = "";
      return all.slice(0, end - found.stop.length);
    }
    const safe = all.length - this.#stops.heldLen;
    this.#held = all.slice(safe);
    return all.slice(0, safe);
  }
}

/** Texts of tokens that are whole characters, as streams have met them: for all streams of a tokenizer. */
const known = new WeakMap<Tokenizer, Map<number, string>>();

function textsOf(tokenizer: Tokenizer): Map<number, string> {
  const texts = known.get(tokenizer) ?? new Map<number, string>();
  known.set(tokenizer, texts);
  return texts;
}

/** The least first byte of a character of more than 1, 2 and 3 bytes. */
const LONGER_THAN = [0, 0xc0, 0xe0, 0xf0];

/** Length of the unfinished character that the bytes end with; 0 when they end with a whole or a broken one. */
function partialCharLen(bytes: Uint8Array): number {
  const end = bytes.length;
  for (let len = 1; len <= 3 && len <= end; len++) {
    const byte = bytes[end - len]!;
    if ((byte & 0xc0) === 0x80) continue;
    return byte >= LONGER_THAN[len]! && byte < 0xf8 ? len : 0;
  }
  return 0;
}
