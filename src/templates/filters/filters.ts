// All filters, those on single values among them.

import { bind, trueOr } from "../arguments.js";
import { TemplateError } from "../errors.js";
import { roundTo } from "../format/decimal.js";
import { getAttribute } from "../values/methods.js";
import { isTrue, toIndex, tryNumber } from "../values/semantics.js";
import { EMPTY, Text } from "../values/text.js";
import { strip } from "../values/text-search.js";
import { Dict, typeName, Undefined, type Value } from "../values/values.js";
import type { Filter } from "./filter.js";
import { SEQUENCE_FILTERS } from "./filters-sequence.js";
import { TEXT_FILTERS } from "./filters-text.js";

const WHOLE = "\\d+(?:_\\d+)*";
const FLOAT = new RegExp(
  `^[+-]?(?:(?:${WHOLE}\\.?(?:${WHOLE})?|\\.${WHOLE})(?:e[+-]?${WHOLE})?|inf(?:inity)?|nan)$`,
  "i",
);
const DIGITS: Readonly<Record<number, RegExp>> = {
  2: /^[+-]?(?:0b_?)?[01]+(?:_[01]+)*$/i,
  8: /^[+-]?(?:0o_?)?[0-7]+(?:_[0-7]+)*$/i,
  10: /^[+-]?\d+(?:_\d+)*$/,
  16: /^[+-]?(?:0x_?)?[\da-f]+(?:_[\da-f]+)*$/i,
};
const PREFIXES: Readonly<Record<number, string>> = { 2: "0b", 8: "0o", 16: "0x" };

function parseFloatText(value: Value): number | null {
  const number = tryNumber(value);
  if (number !== null) return Number(number);
  if (!(value instanceof Text)) return null;
  const text = strip(value, null, true, true).s;
  if (!FLOAT.test(text)) return null;
  if (/nan$/i.test(text)) return Number.NaN;
  if (/inf/i.test(text)) return text.startsWith("-") ? -Infinity : Infinity;
  return Number(text.replaceAll("_", ""));
}

function parseInteger(value: Value, base: number): bigint | null {
  if (typeof value === "boolean" || typeof value === "bigint") return BigInt(value);
  if (value instanceof Text) {
    const text = strip(value, null, true, true).s;
    if (!DIGITS[base]?.test(text)) return null;
    const isNegative = text.startsWith("-");
    const digits = text
      .replace(/^[+-]/, "")
      .replaceAll("_", "")
      .replace(/^0[box]/i, (prefix) => (base === 10 ? prefix : ""));
    const whole = BigInt((PREFIXES[base] ?? "") + digits);
    return isNegative ? -whole : whole;
  }
  return typeof value === "number" ? truncated(value) : null;
}

function truncated(value: number): bigint | null {
  if (Number.isNaN(value)) return null;
  if (!Number.isFinite(value)) throw new TemplateError("cannot convert float infinity to integer");
  return BigInt(Math.trunc(value));
}

const toInteger: Filter = (value, args) => {
  const [fallback, base] = bind("int", args, ["default", "base"]);
  if (value instanceof Undefined) value.fail();
  const whole = parseInteger(value, base === undefined ? 10 : toIndex(base));
  if (whole !== null) return whole;
  const float = parseFloatText(value);
  const cut = float === null ? null : truncated(float);
  return cut === null ? (fallback === undefined ? 0n : fallback) : cut;
};

const toFloat: Filter = (value, args) => {
  if (value instanceof Undefined) value.fail();
  const [fallback] = bind("float", args, ["default"]);
  return parseFloatText(value) ?? (fallback === undefined ? 0 : fallback);
};

const round: Filter = (value, args) => {
  const [precision, method] = bind("round", args, ["precision", "method"]);
  const places = precision === undefined ? 0 : toIndex(precision);
  const how = method === undefined ? "common" : method instanceof Text ? method.s : "";
  if (!["common", "ceil", "floor"].includes(how)) throw new TemplateError("method must be common, ceil or floor");
  if (value instanceof Undefined) value.fail();
  const number = tryNumber(value);
  if (number === null) throw new TemplateError(`type ${typeName(value)} doesn't define __round__ method`);
  if (how !== "common") return Math[how as "ceil" | "floor"](Number(number) * 10 ** places) / 10 ** places;
  if (typeof number === "number") return roundTo(number, places);
  return places >= 0 ? number : BigInt(roundTo(Number(number), places));
};

const fallback: Filter = (value, args) => {
  const [other, boolean] = bind("default", args, ["default_value", "boolean"]);
  const isMissing = value instanceof Undefined || (trueOr(boolean, false) && !isTrue(value));
  return isMissing ? (other === undefined ? EMPTY : other) : value;
};

const absolute: Filter = (value) => {
  if (value instanceof Undefined) value.fail();
  const number = tryNumber(value);
  if (number === null) throw new TemplateError(`bad operand type for abs(): '${typeName(value)}'`);
  if (typeof number === "number") return Math.abs(number);
  return number < 0n ? -number : number;
};

const attr: Filter = (value, args, context) => {
  const [name] = bind("attr", args, ["name"], 1);
  if (value instanceof Undefined) value.fail();
  const key = name instanceof Text ? name.s : "";
  // Only attributes, never the items of a dict.
  if (value instanceof Dict) return getAttribute(new Dict(), key, context);
  return getAttribute(value, key, context);
};

/** A filter that is written without arguments would take any, and ignore them: it refuses them, as Python does. */
function withoutSurplus(name: string, filter: Filter): Filter {
  if (filter.length > 1) return filter;
  return (value, args, context) => {
    bind(name, args, []);
    return filter(value, args, context);
  };
}

const byName: readonly (readonly [string, Filter])[] = [
  ...TEXT_FILTERS,
  ...SEQUENCE_FILTERS,
  ["int", toInteger],
  ["float", toFloat],
  ["round", round],
  ["abs", absolute],
  ["default", fallback],
  ["d", fallback],
  ["attr", attr],
];

export const FILTERS: ReadonlyMap<string, Filter> = new Map(
  byName.map(([name, filter]) => [name, withoutSurplus(name, filter)]),
);
