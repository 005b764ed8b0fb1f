// + - * / // % ** and the signs, on Python's types.

import { type Budget, TemplateError } from "../errors.js";
import { formatPercent } from "../format/format.js";
import { escapeMarkup } from "./markup.js";
import { compare, contains, equals, toIndex, tryNumber } from "./semantics.js";
import { str } from "./show.js";
import { Text } from "./text.js";
import { List, Tuple, typeName, Undefined, type Value } from "./values.js";

const MAX_BITS = 1 << 16;

export function binary(operator: string, left: Value, right: Value, budget: Budget): Value {
  if (left instanceof Undefined) left.fail();
  if (operator === "%" && left instanceof Text) return formatPercent(left, right, budget);
  if (right instanceof Undefined) right.fail();
  if (operator === "+") {
    const joined = add(left, right, budget);
    if (joined !== null) return joined;
  }
  if (operator === "*") {
    const repeated = repeat(left, right, budget) ?? repeat(right, left, budget);
    if (repeated !== null) return repeated;
  }
  const x = tryNumber(left);
  const y = tryNumber(right);
  if (x === null || y === null) {
    if (operator === "+" && left instanceof Text) {
      throw new TemplateError(`can only concatenate str (not "${typeName(right)}") to str`);
    }
    const name = operator === "**" ? "** or pow()" : operator;
    throw new TemplateError(`unsupported operand type(s) for ${name}: '${typeName(left)}' and '${typeName(right)}'`);
  }
  if (typeof x === "bigint" && typeof y === "bigint" && operator !== "/") return integers(operator, x, y, budget);
  return floats(operator, Number(x), Number(y));
}

function add(left: Value, right: Value, budget: Budget): Value | null {
  if (left instanceof Text && right instanceof Text) {
    budget.make(left.s.length + right.s.length);
    if (left.isMarkup === right.isMarkup) return left.concat(right);
    return (left.isMarkup ? left : escapeMarkup(left)).concat(right.isMarkup ? right : escapeMarkup(right));
  }
  if (left instanceof List && right instanceof List) {
    budget.make(left.items.length + right.items.length);
    budget.step((left.items.length + right.items.length) / 8);
    return new List([...left.items, ...right.items]);
  }
  if (left instanceof Tuple && right instanceof Tuple) {
    budget.make(left.items.length + right.items.length);
    return new Tuple([...left.items, ...right.items]);
  }
  return null;
}

function repeat(sequence: Value, count: Value, budget: Budget): Value | null {
  if (typeof count !== "bigint" && typeof count !== "boolean") return null;
  const times = Math.max(0, toIndex(count));
  if (sequence instanceof Text) {
    budget.make(sequence.s.length * times);
    return sequence.repeat(times);
  }
  if (!(sequence instanceof List || sequence instanceof Tuple)) return null;
  budget.step(sequence.items.length * times);
  const items: Value[] = [];
  for (let i = 0; i < times; i++) for (const item of sequence.items) items.push(item);
  return sequence instanceof List ? new List(items) : new Tuple(items);
}

function integers(operator: string, x: bigint, y: bigint, budget: Budget): Value {
  switch (operator) {
    case "+":
      return x + y;
    case "-":
      return x - y;
    case "*":
      budget.step((bits(x) * bits(y)) / 65_536);
      checkBits(bits(x) + bits(y));
      return x * y;
    case "//":
      if (y === 0n) throw new TemplateError("integer division or modulo by zero");
      return floorDivide(x, y);
    case "%":
      if (y === 0n) throw new TemplateError("integer modulo by zero");
      return x - floorDivide(x, y) * y;
    default:
      if (y < 0n) return floats("**", Number(x), Number(y));
      checkBits(bits(x) * Number(y));
      return x ** y;
  }
}

function floorDivide(x: bigint, y: bigint): bigint {
  const quotient = x / y;
  return x % y !== 0n && x < 0n !== y < 0n ? quotient - 1n : quotient;
}

const bits = (x: bigint): number => (x === 0n || x === 1n ? 0 : x.toString(16).length * 4);

function checkBits(count: number): void {
  if (count > MAX_BITS) throw new TemplateError(`a number of ${count} bits is more than the ${MAX_BITS} allowed`);
}

function floats(operator: string, x: number, y: number): number {
  switch (operator) {
    case "+":
      return x + y;
    case "-":
      return x - y;
    case "*":
      return x * y;
    case "**":
      if (x === 0 && y < 0) throw new TemplateError("0.0 cannot be raised to a negative power");
      if (Number.isFinite(x) && Number.isFinite(y) && !Number.isFinite(x ** y)) {
        throw new TemplateError("the result of ** is out of range");
      }
      return x ** y;
  }
  if (y === 0) throw new TemplateError(operator === "/" ? "division by zero" : "float floor division by zero");
  if (operator === "/") return x / y;
  let remainder = x % y;
  if (remainder === 0)
    remainder = 0 * y; // of the divisor's sign
  else if (remainder < 0 !== y < 0) remainder += y;
  if (operator === "%") return remainder;
  const quotient = Math.floor((x - remainder) / y + 0.5);
  return quotient === 0 ? 0 * (x / y) : quotient;
}

export function unary(operator: string, value: Value): Value {
  if (value instanceof Undefined) value.fail();
  const number = tryNumber(value);
  if (number === null) throw new TemplateError(`bad operand type for unary ${operator}: '${typeName(value)}'`);
  return operator === "-" ? -number : number;
}

export function comparison(operator: string, left: Value, right: Value): boolean {
  switch (operator) {
    case "==":
      return equals(left, right);
    case "!=":
      return !equals(left, right);
    case "in":
      return contains(right, left);
    case "not in":
      return !contains(right, left);
    case "<":
      return compare(left, right, "<") < 0;
    case "<=":
      return compare(left, right, "<=") <= 0;
    case ">":
      return compare(left, right, ">") > 0;
    default:
      return compare(left, right, ">=") >= 0;
  }
}

/** The ~ operator. */
export function concatenate(values: readonly Value[], budget: Budget): Text {
  const texts = values.map(str);
  budget.make(texts.reduce((sum, text) => sum + text.s.length, 0));
  return Text.join(texts);
}
