// Schemas that no value satisfies, whole or in part: what is impossible is left out where something else may stand there, or nothing;
// where nothing is left the schema is refused, with the place.

import assert from "node:assert/strict";
import { test } from "node:test";
import { accepts, byteCompiler, draw, seeded } from "../../test/support/byte-matcher.js";
import type { ConstraintSpec } from "./constraint.js";
import { Contradiction } from "./schema-shape.js";

const compiler = await byteCompiler();
const NEVER = { type: "string", anyOf: [{ type: "integer" }] };
const NULL = { type: "null" };

function spec(schema: unknown): ConstraintSpec {
  return { kind: "json_schema", source: JSON.stringify(schema) };
}

function takes(schema: unknown, good: string[], bad: string[]): void {
  for (const text of good) assert.ok(accepts(compiler, spec(schema), text), `${JSON.stringify(schema)} ${text}`);
  for (const text of bad) assert.ok(!accepts(compiler, spec(schema), text), `${JSON.stringify(schema)} not ${text}`);
}

test("a schema that no value satisfies is refused, and the place is named", () => {
  const cases: [unknown, RegExp][] = [
    [NEVER, /: its type integer is not the type string that must hold too \(at #\/anyOf\/0\)\.$/],
    [
      { type: ["string", "null"], allOf: [{ type: ["integer", "array"] }] },
      /its type integer or array is not the type/,
    ],
    [
      { type: "string", anyOf: [{ type: "integer" }, { const: 5 }] },
      /: no alternative of anyOf can hold: its type integer .* \(at #\/anyOf\/0\), no value of enum is of the type \(at #\/anyOf\/1\) \(at #\)/,
    ],
    [
      { type: "string", oneOf: [{ type: "integer" }, { type: "null" }] },
      /no alternative of oneOf can hold: its type integer/,
    ],
    [{ type: "string", anyOf: [{ anyOf: [{ type: "integer" }] }] }, /\(at #\/anyOf\/0\/anyOf\/0\)/],
    [{ type: "string", anyOf: [{ type: "integer", nullable: true }] }, /its type integer is not the type string/],
    [{ anyOf: [false, { type: "integer", minimum: 2, maximum: 1 }] }, /can hold: false accepts no value/],
    [{ type: ["string", "number"], minLength: 2, maxLength: 1, minimum: 2, maximum: 1 }, /minLength 2 exceeds/],
    [{ properties: { a: NEVER }, required: ["a"] }, /its type integer .* \(at #\/properties\/a\/anyOf\/0\)/],
    [{ type: "array", items: NEVER, minItems: 1 }, /its type integer .* \(at #\/items\/anyOf\/0\)/],
    [{ prefixItems: [NULL, NEVER], minItems: 2 }, /its type integer .* \(at #\/prefixItems\/1\/anyOf\/0\)/],
    [{ items: false, minItems: 1 }, /minItems 1 exceeds the items that are described/],
    [{ $ref: "#/$defs/a", $defs: { a: NEVER } }, /its type integer .* \(at #\/\$defs\/a\/anyOf\/0\)/],
    [{ type: "foo", anyOf: [{ type: "string" }] }, /the type "foo" is not known \(at #\)/],
    [
      { type: "string", anyOf: [{ type: "foo" }, { type: "string" }] },
      /the type "foo" is not known \(at #\/anyOf\/0\)/,
    ],
    [
      {
        properties: { a: { properties: { abc: NULL }, required: ["abc"], propertyNames: { maxLength: 1 } } },
        required: ["a"],
      },
      /: propertyNames excludes the required property "abc" \(at #\/properties\/a\)\.$/,
    ],
    [{ properties: { a: NULL }, propertyNames: { not: {} } }, /keyword not is not .* \(at #\/propertyNames\)/],
    [{ properties: { a: NULL }, propertyNames: { minimum: 1 } }, /keyword minimum is not .* \(at #\/propertyNames\)/],
    [{ properties: { a: NULL }, propertyNames: { pattern: "(?=a)" } }, /look-ahead .* \(at #\/propertyNames\)/],
    [
      { properties: { a: NULL }, propertyNames: { anyOf: [{ type: "foo" }] } },
      /"foo" .* \(at #\/propertyNames\/anyOf\/0\)/,
    ],
    [{ properties: { a: NULL }, propertyNames: 5 }, /a schema must be an object \(at #\/propertyNames\)/],
    [{ properties: { a: NULL }, propertyNames: { enum: [] } }, /enum must be a list .* \(at #\/propertyNames\)/],
    [{ properties: { a: NULL }, propertyNames: { maxLength: -1 } }, /maxLength must be a whole number/],
    [{ properties: { a: NULL }, propertyNames: { $ref: "x" } }, /\$ref x is not local \(at #\/propertyNames\)/],
    [
      {
        properties: { a: NULL },
        propertyNames: { $ref: "#/$defs/x" },
        $defs: { x: { allOf: [{ $ref: "#/$defs/x" }] } },
      },
      /\$ref #\/\$defs\/x refers to itself with nothing between \(at #\/\$defs\/x\/allOf\/0\)/,
    ],
    [{ type: "object", propertyNames: 5 }, /a schema must be an object \(at #\/propertyNames\)/],
  ];
  for (const [schema, message] of cases)
    assert.throws(() => compiler.compile(spec(schema)), message, JSON.stringify(schema));
});

test("an alternative that contradicts the type beside the choice, or itself, is left out", () => {
  takes({ type: "string", anyOf: [{ type: "integer" }, { type: "string" }] }, ['"a"'], ["1"]);
  takes({ type: "string", oneOf: [{ type: "integer" }, { type: "string" }] }, ['"a"'], ["1"]);
  takes(
    { type: "string", oneOf: [{ type: "integer" }, { type: "string", maxLength: 1 }, false] },
    ['"a"'],
    ["1", '"bc"'],
  );
  takes({ type: "string", anyOf: [{ const: 1 }, { enum: ["a", 2] }] }, ['"a"'], ["1", "2"]);
  takes({ type: "integer", anyOf: [{ type: "number" }, NULL] }, ["1"], ["1.5", "null"]);
  takes({ type: "number", anyOf: [{ type: "integer" }] }, ["1"], ["1.5"]);
  takes({ type: ["string", "null"], anyOf: [{ type: ["integer", "string"] }, NULL] }, ['"a"', "null"], ["1"]);
  takes({ anyOf: [{ type: "string", minLength: 2, maxLength: 1 }, NULL] }, ["null"], ['"a"', '""']);
  takes({ anyOf: [{ properties: { a: NEVER }, required: ["a"] }, NULL] }, ["null"], ["{}", '{"a": 1}']);
  const closed = { properties: {}, required: ["a"], additionalProperties: false };
  takes({ anyOf: [closed, NULL] }, ["null"], ["{}"]);
  takes({ type: ["string", "integer"], minimum: 2, maximum: 1 }, ['"a"'], ["1", "2"]);
});

test("null among the types beside a choice is a value of what is nullable in it, else it is none", () => {
  takes({ type: "string", anyOf: [{ type: "string", nullable: true }] }, ['"a"'], ["null"]);
  takes({ type: ["string", "null"], anyOf: [{ type: "integer", nullable: true }] }, ["null"], ["1", '"a"']);
  takes({ type: ["string", "null"], anyOf: [{ enum: ["a"], nullable: true }] }, ["null", '"a"'], ['"b"']);
  takes({ type: "string", nullable: true, anyOf: [{ type: "integer" }] }, ["null"], ["1", '"a"']);
  takes({ type: "integer", minimum: 2, maximum: 1, nullable: true }, ["null"], ["1", "2"]);
});

test("what an object or array may be without is left out where it is impossible", () => {
  for (const never of [NEVER, false, { $ref: "#/$defs/never" }]) {
    const $defs = { never: NEVER };
    takes({ properties: { a: never, b: NULL }, $defs }, ["{}", '{"b": null}'], ['{"a": 1}', '{"a": "a"}']);
    takes({ properties: { a: never }, $defs }, ["{}"], ['{"a": 1}', '{"b": 1}']);
    const open = { properties: { a: never }, additionalProperties: true, $defs };
    takes(open, ["{}", '{"b": 1}'], ['{"a": 1}', '{"a": "a"}']);
    takes({ type: "object", additionalProperties: never, $defs }, ["{}"], ['{"a": 1}']);
    takes({ type: "array", items: never, $defs }, ["[]"], ["[1]"]);
    takes({ prefixItems: [NULL, never, NULL], items: NULL, $defs }, ["[null]"], ["[null, 1]", "[null, null]"]);
    takes({ prefixItems: [NULL], items: never, $defs }, ["[null]"], ["[null, 1]"]);
  }
  for (const propertyNames of [false, NEVER, { type: "integer" }, { const: 1 }])
    takes({ type: "object", propertyNames }, ["{}"], ['{"a": 1}', "{1: 1}", '{"1": 1}']);
  takes({ type: "object", propertyNames: { type: "string", nullable: true } }, ['{"a": 1}'], ["{null: 1}"]);
});

test("a described property whose name propertyNames excludes is left out; where it is required no object is left", () => {
  const properties = { abc: NULL, d: NULL };
  const $defs = { short: { maxLength: 1 } };
  const onlyD: unknown[] = [
    { maxLength: 1 },
    { type: "string", maxLength: 1 },
    { type: ["integer", "string"], pattern: "^.$" },
    { pattern: "^d" },
    { pattern: "[^a-c]", maxLength: 3 },
    { const: "d" },
    { enum: ["d", "e", 5] },
    { enum: ["d", "abc"], maxLength: 2 },
    { anyOf: [{ const: "d" }, { type: "integer", minimum: 5 }, false] },
    { oneOf: [{ maxLength: 2 }, { type: "null" }] },
    { oneOf: [{ minLength: 2 }, true] },
    { allOf: [true, { pattern: "d" }] },
    { $ref: "#/$defs/short" },
    { type: "string", $ref: "#/$defs/short" },
    { const: "d", nullable: true, description: "a letter" },
  ];
  for (const propertyNames of onlyD) {
    const schema = { type: "object", properties, propertyNames, $defs };
    takes(schema, ["{}", '{"d": null}'], ['{"abc": null}', '{"abc": null, "d": null}']);
    takes({ ...schema, required: ["d"] }, ['{"d": null}'], ["{}", '{"abc": null, "d": null}']);
    takes({ anyOf: [{ ...schema, required: ["abc"] }, NULL], $defs }, ["null"], ["{}", '{"d": null}', '{"abc": null}']);
  }
  // A pattern need not match the whole of a name; a length counts characters; an unknown format says nothing.
  const both = [
    true,
    {},
    { type: "string" },
    { minLength: 1 },
    { pattern: "c|d" },
    { format: "x" },
    { format: "constructor" },
  ];
  for (const propertyNames of both)
    takes({ properties, propertyNames }, ["{}", '{"abc": null, "d": null}'], ['{"e": null}']);
  for (const propertyNames of [false, NEVER, { type: "integer" }, { const: 1 }, { minLength: 4 }, { format: "date" }])
    takes({ properties, propertyNames }, ["{}"], ['{"abc": null}', '{"d": null}']);
  const dated = { properties: { "2024-05-01": NULL, "2024-13-01": NULL }, propertyNames: { format: "date" } };
  takes(dated, ["{}", '{"2024-05-01": null}'], ['{"2024-13-01": null}']);
  const free = { properties, propertyNames: { type: "string" }, additionalProperties: NULL };
  takes(free, ['{"abc": null, "e": null}'], ['{"abc": 1}']);
});

test("names are tried in a moment, whatever propertyNames is", () => {
  // Two references to two references each, and so on; an expression that other matchers try in every way.
  const $defs: Record<string, unknown> = { r0: { pattern: "^(((a*)*)*)*$" } };
  for (let i = 1; i < 18; i++)
    $defs[`r${i}`] = { anyOf: [{ $ref: `#/$defs/r${i - 1}` }, { $ref: `#/$defs/r${i - 1}` }] };
  const name = "a".repeat(40);
  const schema = { properties: { [name]: NULL, [`${name}!`]: NULL }, propertyNames: { $ref: "#/$defs/r17" }, $defs };
  takes(schema, ["{}", `{"${name}": null}`], [`{"${name}!": null}`]);
  const long = { properties: { ["a".repeat(20_000)]: NULL }, propertyNames: { pattern: "^(a*)*b" } };
  assert.throws(() => compiler.compile(spec(long)), /the pattern takes too long .* \(at #\/propertyNames\)/);
});

test("what refers to something impossible is impossible too, wherever it is used", () => {
  // While a is read, b refers to it; then a turns out to be impossible.
  const a = { type: "object", properties: { b: { $ref: "#/$defs/b" }, c: NEVER }, required: ["b", "c"] };
  const b = { anyOf: [NULL, { $ref: "#/$defs/a" }] };
  const $defs = { a, b };
  takes({ type: "array", items: { $ref: "#/$defs/b" }, $defs }, ["[]", "[null, null]"], ['[{"b": null}]']);
  takes({ anyOf: [{ $ref: "#/$defs/a" }, { $ref: "#/$defs/b" }], $defs }, ["null"], ["{", '{"b": null}']);
  takes({ prefixItems: [{ $ref: "#/$defs/b" }, { $ref: "#/$defs/b" }], $defs }, ["[null, null]"], ["[null, {"]);
});

test("of random schemas with contradictions, what is taken is valid, and what is refused for one has no value", () => {
  const random = seeded(5);
  const counts = { taken: 0, refused: 0, drawn: 0 };
  for (let i = 0; i < 400; i++) {
    const root = { ...randomSchema(random, 0), $defs: { x: randomSchema(random, 1), y: randomSchema(random, 2) } };
    const isValid = (value: unknown) => holds(root, value, root.$defs);
    const refusal = refusalOf(root);
    if (refusal instanceof Contradiction) {
      for (const value of VALUES) assert.ok(!isValid(value), `${refusal.message} ${JSON.stringify({ root, value })}`);
      counts.refused++;
    }
    if (refusal !== null) continue;
    const constraint = compiler.compile(spec(root));
    const drawn = draw(constraint, random, 2000);
    constraint.dispose();
    if (drawn !== null) {
      assert.ok(isValid(JSON.parse(drawn)), `${JSON.stringify(root)} ${drawn}`);
      counts.drawn++;
    }
    for (const value of VALUES) {
      const text = JSON.stringify(value, null, " ").replaceAll(/\n */g, "").replaceAll(",", ", ");
      if (!accepts(compiler, spec(root), text)) continue;
      assert.ok(isValid(value), `${JSON.stringify(root)} ${text}`);
      counts.taken++;
    }
  }
  assert.ok(counts.taken > 100 && counts.refused > 30 && counts.drawn > 100, JSON.stringify(counts));
});

function refusalOf(schema: unknown): Error | null {
  try {
    compiler.compile(spec(schema)).dispose();
    return null;
  } catch (error) {
    if (error instanceof Contradiction || /refers to itself|keyword type is not supported/.test(String(error)))
      return error as Error;
    throw error;
  }
}

type Node = Record<string, unknown>;
const VALUES: readonly unknown[] = [null, 1, 4, 2.5, "", "abc", [], [1], [1, "abc"], [null], {}, { a: 1 }, { b: null }];
const NAMES = ["null", "integer", "number", "string", "array", "object"];

/** References lead to deeper levels or to their own. */
function randomSchema(random: () => number, level: number): Node {
  const pick = <T>(...of: readonly T[]): T => of[Math.floor(random() * of.length)]!;
  const inner = (): unknown => (random() < 0.15 ? pick(true, false) : randomSchema(random, level + 1));
  const leaf = (): Node =>
    pick<Node>(
      { type: pick(...NAMES) },
      { type: [pick(...NAMES), "string"] },
      { const: pick(...VALUES.slice(0, 6)) },
      { type: pick(...NAMES), enum: [pick(...VALUES.slice(0, 6)), "abc"] },
      { type: "integer", minimum: 2, maximum: pick(1, 4) },
      { type: "string", minLength: 2, maxLength: pick(1, 3) },
      { type: pick(...NAMES), nullable: true },
      { $ref: `#/$defs/${level < 2 ? pick("x", "y") : "y"}` },
    );
  if (level > 2) return leaf();
  const choice = { [pick("anyOf", "anyOf", "allOf")]: [inner()] } as Record<string, unknown[]>;
  choice.anyOf?.push(inner());
  // A type beside a reference is refused.
  const isTyped =
    random() < 0.7 && Object.values(choice)[0]!.every((one) => typeof one !== "object" || !("$ref" in one!));
  const required = random() < 0.5 ? { required: ["a"] } : {};
  const closed = { properties: { a: inner(), b: inner() }, additionalProperties: false };
  const named = random() < 0.3 ? { propertyNames: inner() } : {};
  return pick<() => Node>(
    leaf,
    () => ({ ...(isTyped ? { type: pick(...NAMES) } : {}), ...choice }),
    () => ({ type: "object", ...closed, ...required, ...named }),
    () => ({ type: "array", items: inner(), minItems: pick(0, 1) }),
    () => ({ type: "array", prefixItems: [inner(), inner()], items: false, minItems: pick(0, 1, 2) }),
  )();
}

/** By the words of the specification; null is a value of all that is nullable. */
function holds(schema: unknown, value: unknown, $defs: Readonly<Node>): boolean {
  if (typeof schema === "boolean") return schema;
  const { type, enum: values, properties, prefixItems, ...node } = schema as Node & { enum?: unknown[] };
  const inner = (one: unknown, of: unknown): boolean => holds(one, of, $defs);
  if (node.nullable === true && value === null) return true;
  if (typeof node.$ref === "string" && !inner($defs[node.$ref.split("/")[2]!], value)) return false;
  const kind = Array.isArray(value) ? "array" : value === null ? "null" : typeof value;
  const kinds = [kind, ...(Number.isInteger(value) ? ["integer"] : [])];
  if (type !== undefined && ![type].flat().some((name) => kinds.includes(name as string))) return false;
  if ("const" in node && JSON.stringify(node.const) !== JSON.stringify(value)) return false;
  if (values !== undefined && !values.some((one) => one === value)) return false;
  if (node.anyOf !== undefined && !(node.anyOf as unknown[]).some((one) => inner(one, value))) return false;
  if (node.allOf !== undefined && !(node.allOf as unknown[]).every((one) => inner(one, value))) return false;
  if (typeof value === "number" && (value < Number(node.minimum) || value > Number(node.maximum))) return false;
  if (typeof value === "string" && (value.length < Number(node.minLength) || value.length > Number(node.maxLength)))
    return false;
  if (Array.isArray(value)) {
    const first = (prefixItems ?? []) as unknown[];
    if (value.length < Number(node.minItems)) return false;
    return value.every((item, i) => inner(i < first.length ? first[i] : (node.items ?? true), item));
  }
  if (kind !== "object" || properties === undefined) return true;
  const described = properties as Node;
  if (node.required !== undefined && !Object.hasOwn(value as object, "a")) return false;
  return Object.entries(value as object).every(
    ([key, item]) =>
      Object.hasOwn(described, key) && inner(described[key], item) && inner(node.propertyNames ?? true, key),
  );
}
