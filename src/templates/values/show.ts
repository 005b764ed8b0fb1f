// str() and repr() of a value, as Python writes them.

import { step, TemplateError } from "../errors.js";
import { EMPTY, Text } from "./text.js";
import { Callable, Dict, DictView, Iterator, List, Namespace, Range, Tuple, Undefined, type Value } from "./values.js";

const MAX_DEPTH = 200;
// What str.isprintable() denies: separators but the space, and characters of class Other.
const UNPRINTABLE = /[^\P{C}]|[^\P{Z} ]/u;
const SHORT_ESCAPES: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\" };

export function str(value: Value): Text {
  if (value instanceof Text) return value;
  if (value instanceof Undefined) return EMPTY;
  return repr(value);
}

export function repr(value: Value, depth = 0): Text {
  step();
  if (depth > MAX_DEPTH) throw new TemplateError("values are nested too deeply to be shown");
  if (value instanceof Text) return quote(value);
  if (value instanceof List) return bracket("[", value.items, "]", depth);
  if (value instanceof Tuple) return bracket("(", value.items, value.items.length === 1 ? ",)" : ")", depth);
  if (value instanceof Dict) {
    const entries = value
      .entries()
      .map(([key, item]) => Text.join([repr(key, depth + 1), repr(item, depth + 1)], Text.own(": ")));
    return Text.join([Text.own("{"), Text.join(entries, Text.own(", ")), Text.own("}")]);
  }
  if (value instanceof DictView) return bracket(`dict_${value.kind}([`, value.items, "])", depth);
  if (value instanceof Namespace) {
    const dict = Dict.of([...value.attributes].map(([name, item]) => [Text.own(name), item] as const));
    return Text.join([Text.own("<Namespace "), repr(dict, depth + 1), Text.own(">")]);
  }
  return Text.own(plainRepr(value));
}

function plainRepr(value: Exclude<Value, Text | List | Tuple | Dict | DictView>): string {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "bigint") return String(value);
  if (typeof value === "number") return floatRepr(value);
  if (value instanceof Undefined) return "Undefined";
  if (value instanceof Range) {
    return `range(${value.start}, ${value.stop}${value.step === 1 ? "" : `, ${value.step}`})`;
  }
  if (value instanceof Iterator) return `<${value.typeName} object>`;
  if (value instanceof Callable) return value.description;
  return value.describe();
}

function bracket(open: string, items: readonly Value[], close: string, depth: number): Text {
  const shown = items.map((item) => repr(item, depth + 1));
  return Text.join([Text.own(open), Text.join(shown, Text.own(", ")), Text.own(close)]);
}

function quote(text: Text): Text {
  const mark = text.s.includes("'") && !text.s.includes('"') ? '"' : "'";
  const body = text.mapChars((char) => {
    if (char === mark) return `\\${mark}`;
    const short = SHORT_ESCAPES[char];
    if (short !== undefined) return short;
    if (!UNPRINTABLE.test(char)) return char;
    const code = char.codePointAt(0)!;
    const hex = code.toString(16);
    if (code < 0x100) return `\\x${hex.padStart(2, "0")}`;
    return code < 0x10000 ? `\\u${hex.padStart(4, "0")}` : `\\U${hex.padStart(8, "0")}`;
  });
  const quoted = Text.join([Text.own(mark), body, Text.own(mark)]);
  return text.isMarkup ? Text.join([Text.own("Markup("), quoted, Text.own(")")]) : quoted;
}

/** The shortest digits that read back as the number, in Python's choice of notation. */
export function floatRepr(value: number): string {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  if (value === 0) return Object.is(value, -0) ? "-0.0" : "0.0";
  const [mantissa, exponentText] = value.toExponential().split("e") as [string, string];
  const exponent = Number(exponentText);
  if (exponent < -4 || exponent >= 16) {
    const sign = exponent < 0 ? "-" : "+";
    return `${mantissa}e${sign}${String(Math.abs(exponent)).padStart(2, "0")}`;
  }
  const text = expand(mantissa, exponent);
  return text.includes(".") ? text : `${text}.0`;
}

/** d.ddd times a power of ten without an exponent. */
function expand(mantissa: string, exponent: number): string {
  const sign = mantissa.startsWith("-") ? "-" : "";
  const digits = mantissa.replace(/[-.]/g, "");
  if (exponent < 0) return `${sign}0.${"0".repeat(-exponent - 1)}${digits}`;
  if (digits.length <= exponent + 1) return sign + digits.padEnd(exponent + 1, "0");
  return `${sign}${digits.slice(0, exponent + 1)}.${digits.slice(exponent + 1)}`;
}
