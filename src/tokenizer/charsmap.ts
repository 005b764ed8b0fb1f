// SentencePiece's precompiled character map: how a text is normalised before it is cut into tokens. Bytes:
//   u32 size of the trie | trie: a double array of u32 units | replacements, each ended by a zero
// A unit of the trie has its label in the lowest byte, a flag (bit 8) that a value lies below it, and an offset to its children; a value
// is where the replacement begins.

import { FormatError } from "../core/errors.js";

const utf8 = new TextEncoder();
const text = new TextDecoder("utf-8", { ignoreBOM: true });
/** Clusters of fewer bytes are looked up whole. */
const SHORT_CLUSTER = 6;

export class Charsmap {
  readonly #units: Uint32Array;
  readonly #replacements: Uint8Array;
  /** Of the match found last: bytes it takes; 0: there is none. */
  #length = 0;
  #value = 0;

  constructor(bytes: Uint8Array, file: string) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const size = bytes.length < 4 ? -1 : view.getUint32(0, true);
    if (size < 4 || size % 4 !== 0 || 4 + size > bytes.length) {
      const found = `${bytes.length} bytes, ${size} of them a trie`;
      throw new FormatError("file_corrupt", {
        file,
        what: "precompiled_charsmap",
        expected: "a trie and its texts",
        found,
      });
    }
    this.#units = Uint32Array.from({ length: size / 4 }, (_, i) => view.getUint32(4 + 4 * i, true));
    this.#replacements = bytes.subarray(4 + size);
  }

  /** As SentencePiece does it: at each place the longest match is replaced. */
  normalize(given: string): string {
    const bytes = utf8.encode(given);
    const pieces: Uint8Array[] = [];
    for (let at = 0; at < bytes.length; ) {
      this.#match(bytes, at, false);
      const step = this.#length > 0 ? this.#length : charBytes(bytes[at]!);
      pieces.push(this.#length > 0 ? this.#replacement() : bytes.subarray(at, at + step));
      at += step;
    }
    return text.decode(Buffer.concat(pieces));
  }

  /** As Hugging Face's tokenizers do it: short clusters of characters by their shortest match, else character by character. */
  normalizeClusters(given: string): string {
    let out = "";
    for (const { segment } of new Intl.Segmenter(undefined, { granularity: "grapheme" }).segment(given)) {
      const whole = utf8.encode(segment).length < SHORT_CLUSTER ? this.#replaced(segment) : null;
      if (whole !== null) out += whole;
      else for (const char of segment) out += this.#replaced(char) ?? char;
    }
    return out;
  }

  #replaced(segment: string): string | null {
    this.#match(utf8.encode(segment), 0, true);
    return this.#length === 0 ? null : text.decode(this.#replacement());
  }

  #match(bytes: Uint8Array, from: number, isShortest: boolean): void {
    this.#length = 0;
    let node = offsetOf(this.#units[0]!);
    for (let at = from; at < bytes.length; at++) {
      node ^= bytes[at]!;
      const unit = this.#units[node];
      // Bit 31 marks values: they are nobody's child.
      if (unit === undefined || (unit & 0x800000ff) !== bytes[at]!) return;
      node ^= offsetOf(unit);
      if (((unit >>> 8) & 1) === 0) continue;
      this.#length = at - from + 1;
      this.#value = (this.#units[node] ?? 0) & 0x7fffffff;
      if (isShortest) return;
    }
  }

  #replacement(): Uint8Array {
    const end = this.#replacements.indexOf(0, this.#value);
    return this.#replacements.subarray(this.#value, end < 0 ? this.#replacements.length : end);
  }
}

function offsetOf(unit: number): number {
  return (unit >>> 10) << ((unit & 0x200) >>> 6);
}

function charBytes(first: number): number {
  return first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}
