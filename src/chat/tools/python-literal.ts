// A Python literal as JSON: the arguments of calls written as Python.

import type { Watch } from "./tags.js";

const ESCAPES: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "\r", b: "\b", f: "\f", "0": "\0" };
const WORDS: Readonly<Record<string, string>> = { True: "true", False: "false", None: "null" };

/** Looks for the end of a literal or expression in text that grows: what was looked at is not looked at again. */
export class LiteralEnd implements Watch {
  #depth = 0;
  #quote = "";
  #at = 0;
  #numSeen = 0;
  #isFound = false;

  /** The index of a comma or closing bracket outside it; -1 when it is cut. `text` begins with what was seen before. */
  find(text: string): number {
    return this.#isFound || this.sees(text.slice(this.#numSeen)) ? this.#at : -1;
  }

  sees(text: string): boolean {
    const start = this.#numSeen;
    this.#numSeen += text.length;
    while (this.#at < this.#numSeen) {
      if (this.#isEnd(text[this.#at - start]!)) {
        this.#isFound = true;
        return true;
      }
      this.#at++;
    }
    return false;
  }

  #isEnd(char: string): boolean {
    if (this.#quote !== "") {
      if (char === "\\") this.#at++;
      else if (char === this.#quote) this.#quote = "";
    } else if (char === '"' || char === "'") this.#quote = char;
    else if ("[{(".includes(char)) this.#depth++;
    else if ("]})".includes(char)) return this.#depth-- === 0;
    else return char === "," && this.#depth === 0;
    return false;
  }
}

/** JSON text of a Python literal; a string of the text itself when it is none. */
export function pythonToJson(literal: string): string {
  const json: string[] = [];
  let comma = -1; // of the last one, while white space alone has come behind it
  for (let at = 0; at < literal.length; ) {
    const char = literal[at]!;
    if (char === '"' || char === "'") {
      const { value, end } = readString(literal, at);
      json.push(JSON.stringify(value));
      at = end;
      comma = -1;
    } else if (/[A-Za-z_]/.test(char)) {
      const word = /^\w+/.exec(literal.slice(at))![0];
      json.push(WORDS[word] ?? word);
      at += word.length;
      comma = -1;
    } else {
      if (comma >= 0 && "]})".includes(char)) json.length = comma; // Python allows one comma more
      if (!/\s/.test(char)) comma = char === "," ? json.length : -1;
      json.push(char === "(" ? "[" : char === ")" ? "]" : char);
      at++;
    }
  }
  try {
    const whole = json.join("");
    JSON.parse(whole);
    return whole.trim();
  } catch {
    return JSON.stringify(literal.trim());
  }
}

function readString(text: string, start: number): { value: string; end: number } {
  const quote = text[start]!;
  let value = "";
  let at = start + 1;
  for (; at < text.length && text[at] !== quote; at++) {
    if (text[at] !== "\\") {
      value += text[at];
      continue;
    }
    const code = text[++at]!;
    const hex = code === "x" ? 2 : code === "u" ? 4 : 0;
    if (hex > 0) {
      value += String.fromCharCode(Number.parseInt(text.slice(at + 1, at + 1 + hex), 16));
      at += hex;
    } else value += ESCAPES[code] ?? code;
  }
  return { value, end: at + 1 };
}
