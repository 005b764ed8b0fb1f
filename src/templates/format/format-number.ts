// One number under a format's letter (d x o b e f g %), without width or sign.

import { TemplateError } from "../errors.js";
import { floatRepr } from "../values/show.js";
import { toExponent, toFixed, toGeneral } from "./decimal.js";

const BASES: Readonly<Record<string, [radix: number, prefix: string]>> = {
  b: [2, "0b"],
  o: [8, "0o"],
  x: [16, "0x"],
  X: [16, "0X"],
};
const MAX_PRECISION = 10_000;

export interface NumberFormat {
  readonly type: string; // "" for none
  readonly precision: number | null;
  readonly isAlternate: boolean;
  readonly grouping: string; // "", "," or "_"
}

/** Digits of the absolute value. */
export function formatInteger(value: bigint, format: NumberFormat): string {
  const absolute = value < 0n ? -value : value;
  const base = BASES[format.type];
  if (base === undefined) return group(String(absolute), 3, format.grouping);
  const digits = absolute.toString(base[0]);
  const cased = format.type === "X" ? digits.toUpperCase() : digits;
  return (format.isAlternate ? base[1] : "") + group(cased, 4, format.grouping);
}

/** Digits of the absolute value. */
export function formatFloat(value: number, format: NumberFormat): string {
  const { type, isAlternate } = format;
  const isUpper = type !== "" && type === type.toUpperCase() && type !== "%";
  const absolute = Math.abs(type === "%" ? value * 100 : value);
  if (!Number.isFinite(absolute)) {
    const name = (Number.isNaN(absolute) ? "nan" : "inf") + (type === "%" ? "%" : "");
    return isUpper ? name.toUpperCase() : name;
  }
  const precision = format.precision ?? 6;
  if (precision > MAX_PRECISION) throw new TemplateError(`a precision of ${precision} is more than ${MAX_PRECISION}`);
  let text: string;
  switch (type.toLowerCase()) {
    case "f":
      text = toFixed(absolute, precision);
      break;
    case "%":
      text = `${toFixed(absolute, precision)}%`;
      break;
    case "e":
      text = toExponent(absolute, precision);
      break;
    case "":
      text = format.precision === null ? floatRepr(absolute) : withPoint(toGeneral(absolute, precision, isAlternate));
      break;
    default:
      text = toGeneral(absolute, precision, isAlternate);
  }
  const [whole, ...rest] = text.split(/(?=[.e%])/) as [string, ...string[]];
  text = group(whole, 3, format.grouping) + rest.join("");
  return isUpper ? text.toUpperCase() : text;
}

/** Format "" of str.format shows at least one digit after the point. */
function withPoint(text: string): string {
  return /[.e]/.test(text) ? text : `${text}.0`;
}

function group(digits: string, size: number, separator: string): string {
  if (separator === "") return digits;
  return digits.replace(new RegExp(`\\B(?=(?:[\\da-fA-F]{${size}})+$)`, "g"), separator);
}
