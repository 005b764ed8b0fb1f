// str.format(): replacement fields in braces.

import { type Budget, TemplateError } from "../errors.js";
import { tryNumber } from "../values/semantics.js";
import { repr, str } from "../values/show.js";
import { Text } from "../values/text.js";
import { type Arguments, typeName, type Value } from "../values/values.js";
import { formatFloat, formatInteger } from "./format-number.js";

const SPEC =
  /^(?:(?<fill>[\s\S])?(?<align>[<>=^]))?(?<sign>[-+ ])?(?<alternate>#)?(?<zero>0)?(?<width>\d+)?(?<grouping>[,_])?(?:\.(?<precision>\d+))?(?<type>[bcdeEfFgGnosxX%])?$/u;

/** `lookup`: an attribute (".name") or item ("[key]") of a value. */
export type Lookup = (value: Value, key: string, isItem: boolean) => Value;

export function formatBraces(format: Text, args: Arguments, lookup: Lookup, budget: Budget): Text {
  let numTaken = 0;
  const fieldValue = (name: string): Value => {
    const [, first, path] = /^([^.[]*)(.*)$/s.exec(name)!;
    const key = first === "" ? String(numTaken++) : first!;
    let value = /^\d+$/.test(key) ? args.positional[Number(key)] : args.named.get(key);
    if (value === undefined) throw new TemplateError(`no argument ${key} for a replacement field`);
    for (const [, attribute, item] of path!.matchAll(/\.([^.[]+)|\[([^\]]+)\]/g)) {
      value = lookup(value, attribute ?? item!, attribute === undefined);
    }
    return value;
  };
  const expand = (text: Text, depth: number): Text => {
    if (depth > 1) throw new TemplateError("Max string recursion exceeded");
    const parts: Text[] = [];
    let at = 0;
    while (at < text.s.length) {
      const next = text.s.slice(at).search(/[{}]/);
      budget.scan(text.s.length - at);
      if (next < 0) break;
      parts.push(text.units(at, at + next));
      at += next;
      const char = text.s[at]!;
      if (text.s[at + 1] === char) {
        parts.push(text.units(at, at + 1));
        at += 2;
        continue;
      }
      if (char === "}") throw new TemplateError("Single '}' encountered in format string");
      const end = closingBrace(text.s, at);
      const [, name, conversion, spec] =
        /^([^!:]*(?:\[[^\]]*\][^!:]*)?)(?:!(.))?(?::([\s\S]*))?$/.exec(text.s.slice(at + 1, end)) ?? [];
      if (name === undefined) throw new TemplateError("bad replacement field in format string");
      const specStart = end - (spec?.length ?? 0);
      let value = fieldValue(name);
      if (conversion === "r" || conversion === "a") value = repr(value);
      else if (conversion === "s") value = str(value);
      const expanded = spec?.includes("{") ? expand(text.units(specStart, end), depth + 1).s : (spec ?? "");
      parts.push(formatValue(value, expanded, budget));
      at = end + 1;
    }
    parts.push(text.units(at));
    return Text.join(parts);
  };
  return expand(format, 0).asMarkup(format.isMarkup);
}

function closingBrace(text: string, open: number): number {
  let depth = 0;
  for (let at = open; at < text.length; at++) {
    if (text[at] === "{") depth++;
    else if (text[at] === "}" && --depth === 0) return at;
  }
  throw new TemplateError("expected '}' before end of string");
}

function formatValue(value: Value, spec: string, budget: Budget): Text {
  if (spec === "") return str(value);
  const match = SPEC.exec(spec);
  if (match === null) throw new TemplateError("Invalid format specifier");
  const { fill, align, sign = "-", alternate, zero, width, grouping = "", precision, type = "" } = match.groups!;
  const limit = precision === undefined ? null : Number(precision);
  const isText = value instanceof Text;
  const number = isText ? null : tryNumber(value);
  if (!isText && number === null) {
    throw new TemplateError(`unsupported format string passed to ${typeName(value)}.__format__`);
  }
  let lead = "";
  let body: Text;
  if (number === null) {
    if (type !== "" && type !== "s") throw new TemplateError(`Unknown format code '${type}' for object of type 'str'`);
    const text = value as Text;
    body = limit === null ? text : Text.join(text.chars().slice(0, limit));
  } else {
    if (type === "s") throw new TemplateError(`Unknown format code 's' for object of type '${typeName(value)}'`);
    lead = number < 0 || Object.is(number, -0) ? "-" : sign === "-" ? "" : sign;
    const isInteger = typeof number === "bigint" && !"eEfFgG%".includes(type || "d");
    if (typeof number === "number" && "bcdoxX".includes(type || "f")) {
      throw new TemplateError(`Unknown format code '${type}' for object of type 'float'`);
    }
    const format = { type: type === "n" ? "" : type, precision: limit, isAlternate: alternate !== undefined, grouping };
    if (isInteger && type === "c") body = Text.own(String.fromCodePoint(Number(number)));
    else body = Text.own(isInteger ? formatInteger(number, format) : formatFloat(Number(number), format));
  }
  const missing = Number(width ?? 0) - body.length - lead.length;
  if (missing > 0) budget.make(Number(width));
  const filler = Text.own((fill ?? (zero ? "0" : " ")).repeat(Math.max(0, missing)));
  const signed = Text.own(lead);
  const side = align ?? (zero && number !== null ? "=" : number === null ? "<" : ">");
  if (side === "=") return Text.join([signed, filler, body]);
  if (side === "<") return Text.join([signed, body, filler]);
  if (side === ">") return Text.join([filler, signed, body]);
  const half = Math.floor(Math.max(0, missing) / 2);
  return Text.join([
    filler.units(0, half * (fill?.length ?? 1)),
    signed,
    body,
    filler.units(half * (fill?.length ?? 1)),
  ]);
}
