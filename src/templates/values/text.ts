// Strings of a template, each character with its origin: the template itself, or content (what a request brings). Every operation
// on strings carries the origins along, so that the tokenizer can tell a template's markers from a user's text that looks like one.
//
// Python counts code points, JavaScript UTF-16 units: positions in the public methods are code points, `s` and `origins` have one
// unit per UTF-16 unit.

import { make, scan, step } from "../errors.js";

/** Origin of a character, one letter of `Text.origins`. */
export const OWN = "t"; // the template's
export const CONTENT = "c";
export const FINAL = "f"; // content of the message that is to be continued

const SURROGATE = /[\ud800-\udfff]/;

export class Text {
  readonly s: string;
  readonly origins: string;
  readonly isMarkup: boolean;

  /** `isMarkup`: Python's Markup, which escapes what is joined to it. */
  constructor(s: string, origins: string, isMarkup = false) {
    this.s = s;
    this.origins = origins;
    this.isMarkup = isMarkup;
  }

  /** `count` times the same character of the template's own. */
  static run(char: string, count: number): Text {
    make(char.length * count);
    return Text.own(char.repeat(count));
  }

  static own(s: string): Text {
    return new Text(s, OWN.repeat(s.length));
  }

  static of(s: string, origin: string): Text {
    return new Text(s, origin.repeat(s.length));
  }

  static join(parts: readonly Text[], separator: Text = EMPTY): Text {
    let length = separator.s.length * parts.length;
    for (const part of parts) length += part.s.length;
    make(length);
    step(parts.length);
    if (separator.s === "") return new Text(parts.map((p) => p.s).join(""), parts.map((p) => p.origins).join(""));
    return new Text(parts.map((p) => p.s).join(separator.s), parts.map((p) => p.origins).join(separator.origins));
  }

  /** In code points. */
  get length(): number {
    scan(this.s.length);
    return SURROGATE.test(this.s) ? [...this.s].length : this.s.length;
  }

  asMarkup(isMarkup: boolean): Text {
    return isMarkup === this.isMarkup ? this : new Text(this.s, this.origins, isMarkup);
  }

  concat(other: Text): Text {
    make(this.s.length + other.s.length);
    return new Text(this.s + other.s, this.origins + other.origins, this.isMarkup);
  }

  /** By UTF-16 units, which must not cut a character. */
  units(start: number, end = this.s.length): Text {
    if (start === 0 && end === this.s.length) return this;
    scan(end - start);
    return new Text(this.s.slice(start, end), this.origins.slice(start, end), this.isMarkup);
  }

  /** Its characters. */
  *[Symbol.iterator](): Iterator<Text> {
    let at = 0;
    for (const char of this.s) {
      yield this.units(at, at + char.length);
      at += char.length;
    }
  }

  chars(): Text[] {
    return [...this];
  }

  /** Every code point replaced by a text of its origin. */
  mapChars(change: (char: string) => string): Text {
    let s = "";
    let origins = "";
    let at = 0;
    for (const char of this.s) {
      step();
      const changed = change(char);
      if (changed.length > 16) make(changed.length);
      s += changed;
      origins += this.origins[at]!.repeat(changed.length);
      at += char.length;
    }
    return new Text(s, origins, this.isMarkup);
  }

  repeat(count: number): Text {
    make(this.s.length * count);
    return new Text(this.s.repeat(count), this.origins.repeat(count), this.isMarkup);
  }
}

export const EMPTY = new Text("", "");

/** The position in UTF-16 units of a code point's position. */
export function unitsOf(s: string, codePoints: number): number {
  scan(s.length);
  if (!SURROGATE.test(s)) return Math.min(codePoints, s.length);
  let units = 0;
  for (let n = 0; n < codePoints && units < s.length; n++) units += s.codePointAt(units)! > 0xffff ? 2 : 1;
  return units;
}

// What Python's str.strip() and its \s take for white space (JavaScript's differs in U+FEFF, U+001C-1F and U+0085).
export const PYTHON_SPACE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const SPACE = new RegExp(`^[${PYTHON_SPACE}]$`);

export function isPythonSpace(char: string): boolean {
  return SPACE.test(char);
}
