// A Python literal as JSON: the arguments of calls written as Python.

const ESCAPES: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "\r", b: "\b", f: "\f", "0": "\0" };
const WORDS: Readonly<Record<string, string>> = { True: "true", False: "false", None: "null" };

/** Where the literal or expression that begins at `start` ends: the index of a comma or closing bracket outside it; -1 when cut. */
export function literalEnd(text: string, start: number): number {
  let depth = 0;
  let quote = "";
  for (let at = start; at < text.length; at++) {
    const char = text[at]!;
    if (quote !== "") {
      if (char === "\\") at++;
      else if (char === quote) quote = "";
    } else if (char === '"' || char === "'") quote = char;
    else if ("[{(".includes(char)) depth++;
    else if ("]})".includes(char) && depth-- === 0) return at;
    else if (char === "," && depth === 0) return at;
  }
  return -1;
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
