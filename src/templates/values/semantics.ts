// Truth, equality, order, iteration and length, as Python defines them.

import { scan, step, TemplateError } from "../errors.js";
import { Text } from "./text.js";
import {
  Callable,
  Dict,
  DictView,
  Iterator,
  List,
  Opaque,
  Range,
  Tuple,
  typeName,
  Undefined,
  type Value,
} from "./values.js";

export function isTrue(value: Value): boolean {
  if (value === null || value === false || value instanceof Undefined) return false;
  if (value === true) return true;
  if (typeof value === "bigint") return value !== 0n;
  if (typeof value === "number") return value !== 0;
  if (value instanceof Text) return value.s !== "";
  if (value instanceof Iterator || value instanceof Callable || value instanceof Opaque) return true;
  return lengthOf(value) > 0;
}

export function tryLength(value: Value): number | null {
  if (value instanceof Text) return value.length;
  if (value instanceof List || value instanceof Tuple || value instanceof DictView) return value.items.length;
  if (value instanceof Dict) return value.size;
  if (value instanceof Range) return value.length;
  return value instanceof Undefined ? 0 : null;
}

export function lengthOf(value: Value): number {
  const length = tryLength(value);
  if (length === null) throw new TemplateError(`object of type '${typeName(value)}' has no len()`);
  return length;
}

export function tryIterate(value: Value): Iterable<Value> | null {
  if (value instanceof List || value instanceof Tuple || value instanceof DictView) return value.items;
  if (value instanceof Text) return value;
  if (value instanceof Dict) return value.keys();
  if (value instanceof Range || value instanceof Iterator) return value;
  return value instanceof Undefined ? [] : null;
}

/** Every item that is taken costs a step. */
export function* iterate(value: Value): Generator<Value> {
  const items = tryIterate(value);
  if (items === null) throw new TemplateError(`'${typeName(value)}' object is not iterable`);
  for (const item of items) {
    step();
    yield item;
  }
}

/** bool, int and float: as the narrowest of the two kinds. */
export function tryNumber(value: Value): bigint | number | null {
  if (typeof value === "boolean") return value ? 1n : 0n;
  return typeof value === "bigint" || typeof value === "number" ? value : null;
}

export function equals(a: Value, b: Value): boolean {
  step();
  if (a instanceof Text) {
    if (!(b instanceof Text) || a.s.length !== b.s.length) return false;
    scan(a.s.length);
    return a.s === b.s;
  }
  const x = tryNumber(a);
  if (x !== null) {
    const y = tryNumber(b);
    // biome-ignore lint/suspicious/noDoubleEquals: 1n == 1 is what Python says of 1 and 1.0
    return y !== null && x == y;
  }
  if (a instanceof List) return b instanceof List && sameItems(a.items, b.items);
  if (a instanceof Tuple) return b instanceof Tuple && sameItems(a.items, b.items);
  if (a instanceof Dict) {
    if (!(b instanceof Dict) || a.size !== b.size) return false;
    return a.entries().every(([key, value]) => {
      const other = b.get(key);
      return other !== undefined && equals(value, other);
    });
  }
  if (a instanceof Undefined) return b instanceof Undefined;
  if (a instanceof DictView) {
    return b instanceof DictView && a.kind === b.kind && a.kind !== "values" && sameItems(a.items, b.items);
  }
  if (a instanceof Range) return b instanceof Range && sameItems([...a], [...b]);
  return a === b;
}

function sameItems(a: readonly Value[], b: readonly Value[]): boolean {
  return a.length === b.length && a.every((item, i) => equals(item, b[i]!));
}

/** Negative, zero or positive; NaN where numbers have no order. Throws for kinds that have none. */
export function compare(a: Value, b: Value, operator: string): number {
  step();
  if (a instanceof Text && b instanceof Text) return compareCodePoints(a.s, b.s);
  const x = tryNumber(a);
  const y = tryNumber(b);
  if (x !== null && y !== null) return x < y ? -1 : x > y ? 1 : x >= y ? 0 : Number.NaN;
  if ((a instanceof List && b instanceof List) || (a instanceof Tuple && b instanceof Tuple)) {
    const length = Math.min(a.items.length, b.items.length);
    for (let i = 0; i < length; i++) {
      if (!equals(a.items[i]!, b.items[i]!)) return compare(a.items[i]!, b.items[i]!, operator);
    }
    return a.items.length - b.items.length;
  }
  if (a instanceof Undefined) a.fail();
  if (b instanceof Undefined) b.fail();
  throw new TemplateError(`'${operator}' not supported between instances of '${typeName(a)}' and '${typeName(b)}'`);
}

/** JavaScript orders by UTF-16 units, where a pair of surrogates comes before U+E000. */
function compareCodePoints(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  step(length / 8);
  for (let i = 0; i < length; i++) {
    if (a[i] === b[i]) continue;
    const isPair = (code: number) => code >= 0xd800 && code < 0xe000;
    const x = a.charCodeAt(i);
    const y = b.charCodeAt(i);
    return isPair(x) !== isPair(y) ? (isPair(x) ? 1 : -1) : x - y;
  }
  return a.length - b.length;
}

/** What searching may take: the text for every character of a long pattern, where both repeat themselves. */
export function search(text: string, pattern: string): void {
  scan(text.length * Math.max(1, Math.min(pattern.length, text.length - pattern.length) / 64));
}

export function contains(container: Value, item: Value): boolean {
  if (container instanceof Text) {
    if (item instanceof Text) {
      search(container.s, item.s);
      return container.s.includes(item.s);
    }
    throw new TemplateError(`'in <string>' requires string as left operand, not ${typeName(item)}`);
  }
  if (container instanceof Dict) return container.has(item);
  for (const other of iterateForContains(container)) if (equals(other, item)) return true;
  return false;
}

function iterateForContains(container: Value): Iterable<Value> {
  const items = tryIterate(container);
  if (items === null) throw new TemplateError(`argument of type '${typeName(container)}' is not iterable`);
  return items;
}

/** A whole number for an index or a count. */
export function toIndex(value: Value, what = "an index"): number {
  const number = tryNumber(value);
  if (typeof number === "bigint") return Number(number);
  if (value instanceof Undefined) value.fail();
  throw new TemplateError(`'${typeName(value)}' object cannot be interpreted as an integer (${what})`);
}
