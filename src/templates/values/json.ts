// JSON as Python writes it (json.dumps, the filter tojson) and reads it (key order and the kinds of numbers kept).

import { step, TemplateError } from "../errors.js";
import { compare } from "./semantics.js";
import { floatRepr } from "./show.js";
import { Text } from "./text.js";
import { Dict, List, Tuple, typeName, type Value } from "./values.js";

export interface JsonStyle {
  readonly isAscii: boolean;
  readonly indent: Text | null;
  readonly itemSeparator: Text;
  readonly keySeparator: Text;
  readonly sortsKeys: boolean;
}

const MAX_DEPTH = 200;
const SHORT: Readonly<Record<string, string>> = {
  '"': '\\"',
  "\\": "\\\\",
  "\n": "\\n",
  "\r": "\\r",
  "\t": "\\t",
  "\f": "\\f",
  "\b": "\\b",
};

export function writeJson(value: Value, style: JsonStyle): Text {
  const parts: Text[] = [];
  const own = (text: string): void => {
    parts.push(Text.own(text));
  };
  const newLine = (depth: number): void => {
    if (style.indent !== null) parts.push(Text.own("\n"), style.indent.repeat(depth));
  };
  const writeItems = <T>(
    open: string,
    items: readonly T[],
    close: string,
    depth: number,
    one: (item: T) => void,
  ): void => {
    own(open);
    items.forEach((item, i) => {
      if (i > 0) parts.push(style.itemSeparator);
      newLine(depth + 1);
      one(item);
    });
    if (items.length > 0) newLine(depth);
    own(close);
  };
  const write = (item: Value, depth: number): void => {
    step();
    if (depth > MAX_DEPTH) throw new TemplateError("values are nested too deeply for JSON");
    if (item instanceof Text) parts.push(quote(item, style.isAscii));
    else if (item instanceof List || item instanceof Tuple) {
      writeItems("[", item.items, "]", depth, (child) => write(child, depth + 1));
    } else if (item instanceof Dict) {
      const entries = item.entries();
      if (style.sortsKeys) entries.sort(([a], [b]) => compare(a, b, "<"));
      writeItems("{", entries, "}", depth, ([key, child]) => {
        parts.push(key instanceof Text ? quote(key, style.isAscii) : Text.own(`"${plain(key, "keys")}"`));
        parts.push(style.keySeparator);
        write(child, depth + 1);
      });
    } else own(plain(item, "value"));
  };
  write(value, 0);
  return Text.join(parts);
}

function plain(value: Value, what: string): string {
  if (value === null) return "null";
  if (typeof value === "boolean" || typeof value === "bigint") return String(value);
  if (typeof value === "number") {
    return Number.isNaN(value)
      ? "NaN"
      : Number.isFinite(value)
        ? floatRepr(value)
        : value > 0
          ? "Infinity"
          : "-Infinity";
  }
  if (what === "keys") throw new TemplateError(`keys must be str, int, float, bool or None, not ${typeName(value)}`);
  throw new TemplateError(`Object of type ${typeName(value)} is not JSON serializable`);
}

function quote(text: Text, isAscii: boolean): Text {
  const mark = Text.own('"');
  const body = text.mapChars((char) => {
    const short = SHORT[char];
    if (short !== undefined) return short;
    const isShown = char >= " " && (!isAscii || char <= "\x7f");
    if (isShown) return char;
    let escaped = "";
    for (let i = 0; i < char.length; i++) escaped += `\\u${char.charCodeAt(i).toString(16).padStart(4, "0")}`;
    return escaped;
  });
  return Text.join([mark, body, mark]);
}

/** JSON text as a template's value, its strings of the given origin. Throws what JSON.parse throws. */
export function readJson(text: string, origin: string): Value {
  JSON.parse(text); // the text is good: what follows need not doubt
  let at = 0;
  const token = (pattern: RegExp): string => {
    pattern.lastIndex = at;
    const found = pattern.exec(text)![0];
    at += found.length;
    return found;
  };
  const skip = (): string => {
    token(/[\s]*/y);
    return text[at]!;
  };
  const readString = (): Text => Text.of(JSON.parse(token(/"(?:[^"\\]|\\.)*"/y)) as string, origin);
  const read = (): Value => {
    const first = skip();
    if (first === '"') return readString();
    if (first === "[") {
      at++;
      const items: Value[] = [];
      while (skip() !== "]") {
        items.push(read());
        if (skip() === ",") at++;
      }
      at++;
      return new List(items);
    }
    if (first === "{") {
      at++;
      const dict = new Dict();
      while (skip() !== "}") {
        const key = readString();
        skip();
        at++; // the colon
        dict.set(key, read());
        if (skip() === ",") at++;
      }
      at++;
      return dict;
    }
    const word = token(/[^\s,\]}]+/y);
    if (word === "null") return null;
    if (word === "true" || word === "false") return word === "true";
    return /^-?\d+$/.test(word) ? BigInt(word) : Number(word);
  };
  return read();
}
