// Parses a regular expression, in the part of ECMAScript's syntax that a grammar can express, into a small tree. What it
// cannot express (look-around, back references, word boundaries, Unicode properties, flags) is refused by name.

import { RequestError } from "../core/errors.js";
import { ANY, type CodePoints, complement, DIGITS, LINE_ENDS, SPACES, subtract, union, WORD } from "./code-points.js";

/** A regular node in which anchors may stand. */
export type RegexNode =
  | { readonly kind: "chars"; readonly points: CodePoints }
  | { readonly kind: "sequence" | "choice"; readonly nodes: readonly RegexNode[] }
  | { readonly kind: "repeat"; readonly node: RegexNode; readonly min: number; readonly max: number | null }
  | { readonly kind: "start" | "end" };

const MAX_REPEAT = 100_000;
const MAX_DEPTH = 50;
const CONTROL: Readonly<Record<string, number>> = { n: 10, t: 9, r: 13, f: 12, v: 11, "0": 0 };
const CLASSES: Readonly<Record<string, CodePoints>> = {
  d: DIGITS,
  D: complement(DIGITS),
  w: WORD,
  W: complement(WORD),
  s: SPACES,
  S: complement(SPACES),
};

export function parseRegex(source: string): RegexNode {
  return new RegexParser(source).parse();
}

class RegexParser {
  readonly #chars: readonly string[];
  #at = 0;
  #depth = 0;

  constructor(source: string) {
    this.#chars = [...source];
  }

  parse(): RegexNode {
    const node = this.#choice();
    if (this.#at < this.#chars.length) this.#fail("a closing parenthesis has no partner");
    return node;
  }

  #choice(): RegexNode {
    if (++this.#depth > MAX_DEPTH) this.#fail(`groups are nested deeper than ${MAX_DEPTH}`);
    const nodes = [this.#sequence()];
    while (this.#take("|")) nodes.push(this.#sequence());
    this.#depth--;
    return nodes.length === 1 ? nodes[0]! : { kind: "choice", nodes };
  }

  #sequence(): RegexNode {
    const nodes: RegexNode[] = [];
    while (this.#at < this.#chars.length && this.#peek() !== "|" && this.#peek() !== ")")
      nodes.push(this.#quantified(this.#atom()));
    return nodes.length === 1 ? nodes[0]! : { kind: "sequence", nodes };
  }

  #atom(): RegexNode {
    const char = this.#next();
    switch (char) {
      case "^":
        return { kind: "start" };
      case "$":
        return { kind: "end" };
      case ".":
        return chars(subtract(ANY, LINE_ENDS));
      case "[":
        return chars(this.#class());
      case "(":
        return this.#group();
      case "\\":
        return chars(this.#escape(false));
      case "*":
      case "+":
      case "?":
        return this.#fail(`"${char}" has nothing to repeat`);
      default:
        return chars(single(char));
    }
  }

  #group(): RegexNode {
    if (this.#take("?")) {
      if (this.#take("P")) this.#expect("<");
      else if (!this.#take(":") && !this.#take("<")) {
        if (this.#peek() === "=" || this.#peek() === "!") this.#fail("look-ahead is not supported");
        this.#fail("group flags are not supported");
      }
      if (this.#chars[this.#at - 1] === "<") {
        if (this.#peek() === "=" || this.#peek() === "!") this.#fail("look-behind is not supported");
        while (this.#next() !== ">");
      }
    }
    const node = this.#choice();
    this.#expect(")");
    return node;
  }

  #quantified(node: RegexNode): RegexNode {
    const bounds = this.#quantifier();
    if (bounds === null) return node;
    if (node.kind === "start" || node.kind === "end") this.#fail("an anchor cannot be repeated");
    this.#take("?"); // lazy or greedy: the same set of texts
    if (["*", "+", "?"].includes(this.#peek())) this.#fail("a repetition cannot be repeated");
    return { kind: "repeat", node, ...bounds };
  }

  #quantifier(): { min: number; max: number | null } | null {
    if (this.#take("*")) return { min: 0, max: null };
    if (this.#take("+")) return { min: 1, max: null };
    if (this.#take("?")) return { min: 0, max: 1 };
    if (this.#peek() !== "{") return null;
    const match = /^\{(\d+)(?:(,)(\d*))?\}/.exec(this.#chars.slice(this.#at, this.#at + 24).join(""));
    if (match === null) return null; // a brace by itself is a literal, as in ECMAScript
    this.#at += match[0].length;
    const min = Number(match[1]);
    const max = match[2] === undefined ? min : match[3] === "" ? null : Number(match[3]);
    if (min > MAX_REPEAT || (max ?? 0) > MAX_REPEAT) this.#fail(`a repetition exceeds ${MAX_REPEAT}`);
    if (max !== null && max < min) this.#fail("the numbers of a repetition are out of order");
    return { min, max };
  }

  #class(): CodePoints {
    const isNegated = this.#take("^");
    const ranges: (readonly [number, number])[] = [];
    while (!this.#take("]")) {
      const low = this.#classItem();
      if (this.#peek() !== "-" || this.#chars[this.#at + 1] === "]") {
        ranges.push(...low);
        continue;
      }
      this.#at++;
      const from = codeOf(low);
      const to = codeOf(this.#classItem());
      if (from === null || to === null) return this.#fail("a range must lie between two characters");
      if (from > to) this.#fail("a range is out of order");
      ranges.push([from, to]);
    }
    const points = isNegated ? complement(ranges) : subtract(union(ranges), []);
    if (points.length === 0) this.#fail("a character class is empty");
    return points;
  }

  #classItem(): CodePoints {
    const char = this.#next();
    return char === "\\" ? this.#escape(true) : single(char);
  }

  #escape(isInClass: boolean): CodePoints {
    const char = this.#next();
    const named = CLASSES[char];
    if (named !== undefined) return named;
    if (CONTROL[char] !== undefined) return point(CONTROL[char]);
    if (char === "b" && isInClass) return point(8);
    if (char === "b" || char === "B") this.#fail("word boundaries are not supported");
    if (char === "p" || char === "P") this.#fail("Unicode properties are not supported");
    if (char === "k" || /[1-9]/.test(char)) this.#fail("back references are not supported");
    if (char === "x") return point(this.#hex(2));
    if (char === "u") return point(this.#take("{") ? this.#hexUntil("}") : this.#hex(4));
    if (/[A-Za-z]/.test(char)) this.#fail(`the escape \\${char} is not supported`);
    return single(char);
  }

  #hex(digits: number): number {
    let text = "";
    for (let i = 0; i < digits; i++) text += this.#next();
    return this.#parseHex(text);
  }

  #hexUntil(end: string): number {
    let text = "";
    for (let char = this.#next(); char !== end; char = this.#next()) text += char;
    return this.#parseHex(text);
  }

  #parseHex(text: string): number {
    const code = /^[0-9a-f]{1,6}$/i.test(text) ? Number.parseInt(text, 16) : Number.NaN;
    if (!(code <= 0x10ffff)) this.#fail(`"${text}" is not a code point`);
    if (code >= 0xd800 && code <= 0xdfff) this.#fail("surrogates are not characters");
    return code;
  }

  #peek(): string {
    return this.#chars[this.#at] ?? "";
  }

  #next(): string {
    const char = this.#chars[this.#at++];
    return char ?? this.#fail("it ends too early");
  }

  #take(char: string): boolean {
    if (this.#peek() !== char) return false;
    this.#at++;
    return true;
  }

  #expect(char: string): void {
    if (!this.#take(char)) this.#fail(`expected "${char}"`);
  }

  #fail(reason: string): never {
    throw new RequestError("invalid_regex", { index: this.#at, reason });
  }
}

function chars(points: CodePoints): RegexNode {
  return { kind: "chars", points };
}

function point(code: number): CodePoints {
  return [[code, code]];
}

function single(char: string): CodePoints {
  return point(char.codePointAt(0)!);
}

/** Of a set of one. */
function codeOf(points: CodePoints): number | null {
  const [low, high] = points[0]!;
  return points.length === 1 && low === high ? low : null;
}
