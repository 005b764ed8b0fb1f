// A string literal's text: Python's escapes, an unknown one staying as it is written.

import { TemplateError } from "../errors.js";

const ESCAPE = /\\(?:\n|x[\da-fA-F]{2}|u[\da-fA-F]{4}|U[\da-fA-F]{8}|[0-7]{1,3}|[\s\S])/g;
const SIMPLE: Readonly<Record<string, string>> = {
  "\n": "",
  "\\": "\\",
  "'": "'",
  '"': '"',
  a: "\x07",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
};

export function unescapeString(literal: string): string {
  const text = literal.slice(1, -1);
  if (!text.includes("\\")) return text;
  return text.replaceAll(ESCAPE, (written) => {
    const code = written[1]!;
    const simple = SIMPLE[code];
    if (simple !== undefined) return simple;
    if (code >= "0" && code <= "7") return String.fromCodePoint(Number.parseInt(written.slice(1), 8));
    if (written.length > 2) return codePoint(Number.parseInt(written.slice(2), 16));
    if ("xuUN".includes(code)) throw new TemplateError(`truncated \\${code} escape in a string`);
    return written;
  });
}

function codePoint(value: number): string {
  if (value > 0x10ffff) throw new TemplateError("illegal Unicode character in a string");
  return String.fromCodePoint(value);
}
