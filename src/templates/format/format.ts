// The % operator on strings.

import { type Budget, TemplateError } from "../errors.js";
import { escapeMarkup } from "../values/markup.js";
import { toIndex, tryNumber } from "../values/semantics.js";
import { repr, str } from "../values/show.js";
import { Text } from "../values/text.js";
import { Dict, List, Tuple, typeName, type Value } from "../values/values.js";
import { formatFloat, formatInteger } from "./format-number.js";

const DIRECTIVE =
  /%(?:\((?<name>[^)]*)\))?(?<flags>[#0\- +]*)(?<width>\*|\d+)?(?:\.(?<precision>\*|\d*))?[hlL]?(?<type>[\s\S])?/g;

export function formatPercent(format: Text, values: Value, budget: Budget): Text {
  const isTuple = values instanceof Tuple;
  const items = isTuple ? values.items : [values];
  let numTaken = 0;
  const take = (): Value => {
    if (numTaken >= items.length) throw new TemplateError("not enough arguments for format string");
    return items[numTaken++]!;
  };
  const parts: Text[] = [];
  let at = 0;
  for (const match of format.s.matchAll(DIRECTIVE)) {
    parts.push(format.units(at, match.index));
    at = match.index + match[0].length;
    const { name, flags = "", type } = match.groups as Record<string, string | undefined>;
    if (type === undefined) throw new TemplateError("incomplete format");
    if (type === "%") {
      parts.push(Text.own("%"));
      continue;
    }
    const size = (text: string | undefined): number | null =>
      text === undefined ? null : text === "*" ? toIndex(take()) : Number(text);
    const width = size(match.groups!.width);
    const precision = size(match.groups!.precision);
    budget.make(Math.max(0, precision ?? 0));
    let value: Value;
    if (name === undefined) value = take();
    else {
      if (!(values instanceof Dict)) throw new TemplateError("format requires a mapping");
      const found = values.get(Text.own(name));
      if (found === undefined) throw new TemplateError(`KeyError: '${name}'`);
      value = found;
    }
    const shown = convert(type, value, flags, precision);
    const text = format.isMarkup ? escapeMarkup(shown) : shown;
    const isNegative = width !== null && width < 0;
    parts.push(pad(text, Math.abs(width ?? 0), flags, isNegative, isNumeric(type), budget));
  }
  parts.push(format.units(at));
  const isMapping = values instanceof Dict || values instanceof List; // to Python's %: whatever has items and is no tuple or string
  if (!isMapping && numTaken < items.length) {
    throw new TemplateError("not all arguments converted during string formatting");
  }
  return Text.join(parts).asMarkup(format.isMarkup);
}

const isNumeric = (type: string): boolean => "diouxXeEfFgG".includes(type);

function convert(type: string, value: Value, flags: string, precision: number | null): Text {
  if ("sra".includes(type)) {
    const text = type === "s" ? str(value) : repr(value);
    return precision === null ? text : Text.join(text.chars().slice(0, precision));
  }
  if (type === "c") {
    if (value instanceof Text && value.length === 1) return value;
    if (typeof value === "bigint") return Text.own(String.fromCodePoint(Number(value)));
    throw new TemplateError("%c requires int or char");
  }
  if (!isNumeric(type)) throw new TemplateError(`unsupported format character '${type}'`);
  const number = tryNumber(value);
  if (number === null) throw new TemplateError(`%${type} format: a real number is required, not ${typeName(value)}`);
  const isInteger = "diouxX".includes(type);
  if (isInteger && typeof number === "number" && "oxX".includes(type)) {
    throw new TemplateError(`%${type} format: an integer is required, not float`);
  }
  const isNegative = number < 0 || Object.is(number, -0);
  const sign = isNegative ? "-" : flags.includes("+") ? "+" : flags.includes(" ") ? " " : "";
  const format = { type, precision, isAlternate: flags.includes("#"), grouping: "" };
  if (!isInteger) return Text.own(sign + formatFloat(Number(number), format));
  const whole = typeof number === "number" ? BigInt(Math.trunc(number)) : number;
  return Text.own(
    sign + formatInteger(whole, { ...format, type: "iu".includes(type) ? "d" : type }).padStart(precision ?? 0, "0"),
  );
}

function pad(text: Text, width: number, flags: string, isLeft: boolean, isNumber: boolean, budget: Budget): Text {
  const missing = width - text.length;
  if (missing <= 0) return text;
  budget.make(width);
  if (flags.includes("-") || isLeft) return text.concat(Text.own(" ".repeat(missing)));
  if (!(isNumber && flags.includes("0"))) return Text.own(" ".repeat(missing)).concat(text);
  const lead = /^[+\- ]?(?:0[xXoO])?/.exec(text.s)![0].length;
  return Text.join([text.units(0, lead), Text.own("0".repeat(missing)), text.units(lead)]);
}
