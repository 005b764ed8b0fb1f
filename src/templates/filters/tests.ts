// The tests after `is`.

import { bind } from "../arguments.js";
import { TemplateError } from "../errors.js";
import { comparison } from "../values/operators.js";
import { isTrue, tryIterate, tryNumber } from "../values/semantics.js";
import { str } from "../values/show.js";
import { Text } from "../values/text.js";
import {
  type Arguments,
  Callable,
  Dict,
  List,
  Opaque,
  Range,
  Tuple,
  typeName,
  Undefined,
  type Value,
} from "../values/values.js";
import { FILTERS } from "./filters.js";

/** Of a value alone, or of a value and another. */
type Test = (value: Value, other: Value) => boolean;

const compareBy =
  (operator: string): Test =>
  (value, other) =>
    comparison(operator, value, other);

function modulo(value: Value, by: Value): bigint | number {
  if (value instanceof Undefined) value.fail();
  if (by instanceof Undefined) by.fail();
  const number = tryNumber(value);
  const divisor = tryNumber(by);
  if (number === null || divisor === null) {
    throw new TemplateError(`unsupported operand type(s) for %: '${typeName(value)}' and '${typeName(by)}'`);
  }
  if (isZero(divisor)) throw new TemplateError("integer modulo by zero");
  if (typeof number === "bigint" && typeof divisor === "bigint") return number % divisor;
  return Number(number) % Number(divisor);
}

const isZero = (number: bigint | number): boolean => number === 0n || number === 0;

/** Of what is no string, what it is shown as counts. */
function isCased(value: Value, some: RegExp, none: RegExp): boolean {
  const text = str(value).s;
  return some.test(text) && !none.test(text);
}

/** Undefined is, as in jinja2: to call it is an error of its own. */
const isCallable = (value: Value): boolean =>
  value instanceof Callable ||
  value instanceof Undefined ||
  (value instanceof Opaque && value.typeName === "LoopContext");

const byName: readonly [string, Test][] = [
  ["defined", (value) => !(value instanceof Undefined)],
  ["undefined", (value) => value instanceof Undefined],
  ["none", (value) => value === null],
  ["boolean", (value) => typeof value === "boolean"],
  ["true", (value) => value === true],
  ["false", (value) => value === false],
  ["integer", (value) => typeof value === "bigint"],
  ["float", (value) => typeof value === "number"],
  ["number", (value) => tryNumber(value) !== null],
  ["string", (value) => value instanceof Text],
  ["mapping", (value) => value instanceof Dict],
  ["iterable", (value) => tryIterate(value) !== null],
  ["sequence", (value) => [Text, List, Tuple, Dict, Range, Undefined].some((kind) => value instanceof kind)],
  ["callable", isCallable],
  [
    "sameas",
    (value, other) => value === other || (value instanceof Text && other instanceof Text && value.s === other.s),
  ],
  ["escaped", (value) => value instanceof Text && value.isMarkup],
  ["lower", (value) => isCased(value, /\p{Ll}/u, /[\p{Lu}\p{Lt}]/u)],
  ["upper", (value) => isCased(value, /\p{Lu}/u, /\p{Ll}/u)],
  ["even", (value) => isZero(modulo(value, 2n))],
  ["odd", (value) => Math.abs(Number(modulo(value, 2n))) === 1],
  ["divisibleby", (value, by) => isZero(modulo(value, by))],
  ["in", (value, other) => comparison("in", value, other)],
  ["filter", (value) => value instanceof Text && FILTERS.has(value.s)],
  ["test", (value) => value instanceof Text && TESTS.has(value.s)],
  ...(
    [
      ["==", ["eq", "equalto", "=="]],
      ["!=", ["ne", "!="]],
      [">", ["gt", "greaterthan", ">"]],
      [">=", ["ge", ">="]],
      ["<", ["lt", "lessthan", "<"]],
      ["<=", ["le", "<="]],
    ] as const
  ).flatMap(([operator, names]) => names.map((name) => [name, compareBy(operator)] as [string, Test])),
];

export const TESTS: ReadonlyMap<string, Test> = new Map(byName);

/** What they call the other value; that of comparisons has no name. */
const PARAMETERS: Readonly<Record<string, string>> = { sameas: "other", divisibleby: "num", in: "seq" };

export function runTest(name: string, value: Value, args: Arguments): boolean {
  const test = TESTS.get(name);
  if (test === undefined) throw new TemplateError(`No test named '${name}' found.`);
  const parameters = test.length > 1 ? [PARAMETERS[name] ?? null] : [];
  const [other = null] = bind(name, args, parameters, parameters.length);
  return isTrue(test(value, other));
}
