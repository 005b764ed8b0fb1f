// How deep a JSON text is nested, how many values, objects and lists it has and how long its strings are, without parsing it: a million
// numbers or megabytes of text hold up the thread, and what walks the parsed value later is recursive, and a stack is not endless. The text
// is read piece by piece as it arrives: what exceeds a limit is known long before its end.

const [QUOTE, BACKSLASH, COLON, COMMA] = [0x22, 0x5c, 0x3a, 0x2c];
/** In a text that has gone on for so long without a quote, the next one is looked for by the system's own search. */
const LONG_RUN = 256;
/** Bytes of a field's name that are worth repeating to a client. */
const MAX_NAME = 64;

export interface JsonLimits {
  readonly depth: number;
  /** Objects and lists. */
  readonly containers: number;
  /** Values behind a comma: of lists and objects alike. */
  readonly values: number;
  /** Bytes of a string, as it is written. */
  readonly string: number;
  /** Items of fields of the outermost object that are lists or objects: as many as nobody needs take long to look at one by one. */
  readonly items: Readonly<Record<string, number>>;
}

/** Which limit a text exceeds, and in which field of the outermost object (null: in none). */
export interface Excess {
  readonly limit: keyof JsonLimits;
  readonly field: string | null;
}

export class JsonShape {
  readonly #limits: JsonLimits;
  #depth = 0;
  #numContainers = 0;
  #numValues = 0;
  /** Of the field that is being read, and the most that it may have. */
  #numItems = 0;
  #mostItems = Number.POSITIVE_INFINITY;
  /** Inside a string. */
  #isText = false;
  #isEscaped = false;
  /** Bytes of the string so far. */
  #textLen = 0;
  /** The last string of the outermost object begins so. */
  readonly #start = new Uint8Array(MAX_NAME + 1);
  #startLen = 0;
  /** A colon followed that string, the last time one did. */
  #field = "";

  constructor(limits: JsonLimits) {
    this.#limits = limits;
  }

  /** The next piece of the text; null: it is within the limits so far. */
  exceeds(piece: Uint8Array): Excess | null {
    const { depth, containers, values, string } = this.#limits;
    for (let i = 0; i < piece.length; i++) {
      if (this.#isText) {
        i = this.#readText(piece, i);
        if (this.#textLen > string) return this.#excess("string");
        continue;
      }
      const byte = piece[i]!;
      if (byte === QUOTE) {
        this.#isText = true;
        this.#textLen = 0;
        if (this.#depth === 1) this.#startLen = 0;
      } else if (byte === COLON) {
        if (this.#depth === 1) this.#beginField();
      } else if (byte === COMMA) {
        if (++this.#numValues > values) return this.#excess("values");
        if (this.#depth === 2 && ++this.#numItems >= this.#mostItems) return this.#excess("items");
      } else if (byte === 0x5b || byte === 0x7b) {
        if (++this.#depth > depth) return this.#excess("depth");
        if (++this.#numContainers > containers) return this.#excess("containers");
      } else if (byte === 0x5d || byte === 0x7d) this.#depth--;
    }
    return null;
  }

  #beginField(): void {
    const { items } = this.#limits;
    this.#field = Buffer.from(this.#start.subarray(0, this.#startLen)).toString("latin1");
    this.#numItems = 0;
    this.#mostItems = Object.hasOwn(items, this.#field) ? items[this.#field]! : Number.POSITIVE_INFINITY;
  }

  /** From `from` on, inside a string: returns where its closing quote is, or the end of the piece. */
  #readText(piece: Uint8Array, from: number): number {
    let runStart = from;
    let i = from;
    for (; i < piece.length; i++) {
      const byte = piece[i]!;
      if (this.#isEscaped) {
        this.#isEscaped = false;
        runStart = i;
      } else if (byte === QUOTE) {
        this.#isText = false;
        break;
      } else if (byte === BACKSLASH) this.#isEscaped = true;
      else if (i - runStart > LONG_RUN) {
        const next = piece.indexOf(QUOTE, i);
        const end = next === -1 ? piece.length : next;
        for (let at = end - 1; piece[at] === BACKSLASH; at--) this.#isEscaped = !this.#isEscaped;
        i = end - 1;
      }
    }
    this.#keepStart(piece, from, i);
    this.#textLen += i - from;
    return i;
  }

  #keepStart(piece: Uint8Array, from: number, end: number): void {
    if (this.#depth !== 1) return;
    const kept = piece.subarray(from, Math.min(end, from + this.#start.length - this.#startLen));
    this.#start.set(kept, this.#startLen);
    this.#startLen += kept.length;
  }

  /** Only names that a field could have are worth repeating to a client. */
  #excess(limit: keyof JsonLimits): Excess {
    return { limit, field: /^\w{1,64}$/.test(this.#field) ? this.#field : null };
  }
}
