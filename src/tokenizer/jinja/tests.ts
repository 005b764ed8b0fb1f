// The tests after `is`.

import { TemplateError } from "./errors.js";
import { FILTERS } from "./filters.js";
import { comparison } from "./operators.js";
import { isTrue, tryIterate, tryNumber } from "./semantics.js";
import { Text } from "./text.js";
import { Callable, Dict, List, Opaque, Range, Tuple, typeName, Undefined, type Value } from "./values.js";

type Test = (value: Value, ...args: Value[]) => boolean;

const compareBy =
  (operator: string): Test =>
  (value, other = null) =>
    comparison(operator, value, other);

function modulo(value: Value, by: bigint): bigint | number {
  if (value instanceof Undefined) value.fail();
  const number = tryNumber(value);
  if (number === null) throw new TemplateError(`unsupported operand type(s) for %: '${typeName(value)}' and 'int'`);
  if (by === 0n) throw new TemplateError("integer modulo by zero");
  return typeof number === "bigint" ? number % by : number % Number(by);
}

const isZero = (number: bigint | number): boolean => number === 0n || number === 0;
const isCallable = (value: Value): boolean =>
  value instanceof Callable || (value instanceof Opaque && value.typeName === "LoopContext");

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
    (value, other = null) => value === other || (value instanceof Text && other instanceof Text && value.s === other.s),
  ],
  ["escaped", (value) => value instanceof Text && value.isMarkup],
  ["lower", (value) => value instanceof Text && /\p{Ll}/u.test(value.s) && !/[\p{Lu}\p{Lt}]/u.test(value.s)],
  ["upper", (value) => value instanceof Text && /\p{Lu}/u.test(value.s) && !/\p{Ll}/u.test(value.s)],
  ["even", (value) => isZero(modulo(value, 2n))],
  ["odd", (value) => Math.abs(Number(modulo(value, 2n))) === 1],
  ["divisibleby", (value, by = null) => isZero(modulo(value, BigInt(tryNumber(by) ?? 0n)))],
  ["in", (value, other = null) => comparison("in", value, other)],
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

export function runTest(name: string, value: Value, args: readonly Value[]): boolean {
  const test = TESTS.get(name);
  if (test === undefined) throw new TemplateError(`No test named '${name}' found.`);
  return isTrue(test(value, ...args));
}
