// A Python literal as JSON: the arguments of calls written as Python.

const ESCAPES: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "\r", b: "\b", f: "\f", "0": "\0" };
const WORDS: Readonly<Record<string, string>> = { True: "true", False: "false", None: "null" };

/** Looks for the end of a literal or expression in text that grows: what was looked at is not looked at again. */
export class LiteralEnd {
  #depth = 0;
  #quote = "";
  #at = 0;

  /** The index of a comma or closing bracket outside it; -1 when it is cut. `text` begins with what it began with before. */
  find(text: string): number {
    for (; this.#at < text.length; this.#at++) {
      const char = text[this.#at]!;
      if (this.#quote !== "") {
        if (char === "\\") this.#at++;
        else if (char === this.#quote) this.#quote = "";
      } else if (char === '"' || char === "'") this.#quote = char;
      else if ("[{(".includes(char)) this.#depth++;
      else if ("]})".includes(char) && this.#depth-- === 0) return this.#at;
      else if (char === "," && this.#depth === 0) return this.#at;
    }
    return -1;
  }
}

/** JSON text of a Python literal; a string of the text itself when it is none. */
export function pythonToJson(literal: string): string {
  let json = "";
  for (let at = 0; at < literal.length; ) {
    const char = literal[at]!;
    if (char === '"' || char === "'") {
      const { value, end } = readString(literal, at);
      json += JSON.stringify(value);
      at = end;
    } else if (/[A-Za-z_]/.test(char)) {
      const word = /^\w+/.exec(literal.slice(at))![0];
      json += WORDS[word] ?? word;
      at += word.length;
    } else {
      if ("]})".includes(char)) json = json.replace(/,\s*$/, ""); // Python allows one comma more
      json += char === "(" ? "[" : char === ")" ? "]" : char;
      at++;
    }
  }
  try {
    JSON.parse(json);
    return json.trim();
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
