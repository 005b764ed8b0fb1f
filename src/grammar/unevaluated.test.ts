// unevaluatedProperties and unevaluatedItems: false, where what they close is described by reference or by choice.

import assert from "node:assert/strict";
import { test } from "node:test";
import { accepts, byteCompiler, seeded } from "../../test/support/byte-matcher.js";
import type { ConstraintSpec } from "./constraint.js";

const compiler = await byteCompiler();
const CLOSED = { unevaluatedProperties: false, unevaluatedItems: false };
const NULL = { type: "null" };

function spec(schema: unknown): ConstraintSpec {
  return { kind: "json_schema", source: JSON.stringify(schema) };
}

/** A schema that only refers to `target`, with `siblings` beside the reference. */
function reference(siblings: object, target: unknown, $defs: object = {}): ConstraintSpec {
  return spec({ $ref: "#/$defs/target", ...siblings, $defs: { target, ...$defs } });
}

function takes(schema: ConstraintSpec, good: string[], bad: string[]): void {
  for (const text of good) assert.ok(accepts(compiler, schema, text), `${schema.source} ${text}`);
  for (const text of bad) assert.ok(!accepts(compiler, schema, text), `${schema.source} not ${text}`);
}

test("beside a reference they refuse what its target does not evaluate", () => {
  takes(reference(CLOSED, { type: "object" }), ["{}"], ['{"x": 1}', "[]"]);
  takes(reference(CLOSED, { type: "array" }), ["[]"], ["[1]", "{}"]);
  takes(reference(CLOSED, { properties: { a: NULL } }), ["{}", '{"a": null}'], ['{"x": 1}', '{"a": null, "x": 1}']);
  takes(reference(CLOSED, { type: "object", additionalProperties: NULL }), ['{"x": null}'], ['{"x": 1}']);
  takes(reference(CLOSED, { prefixItems: [NULL] }), ["[null]"], ["[null, 1]"]);
  takes(reference(CLOSED, { prefixItems: [NULL], items: { const: 1 } }), ["[null]", "[null, 1, 1]"], ["[null, 2]"]);
  takes(reference(CLOSED, { type: "object", propertyNames: { pattern: "^a$" } }), ["{}"], ['{"a": 1}']);
  takes(reference(CLOSED, { enum: [{}, { k: 1 }, [], [1], 1] }), ["{}", "[]", "1"], ['{"k": 1}', "[1]"]);
  takes(reference({ ...CLOSED, nullable: true }, { type: "object" }), ["{}", "null"], ['{"x": 1}']);
});

test("of a target that describes nothing they leave all that has no members", () => {
  for (const target of [true, {}]) {
    takes(reference(CLOSED, target), ["{}", "[]", '"a"', "-1.5", "true", "null"], ['{"x": 1}', "[1]"]);
    takes(reference({ unevaluatedProperties: false }, target), ["{}", '[{"x": 1}]'], ['{"x": 1}']);
    takes(reference({ unevaluatedItems: false }, target), ["[]", '{"x": [1]}'], ["[1]"]);
    takes(reference({ unevaluatedItems: true, unevaluatedProperties: true }, target), ["[1]", '{"x": 1}'], ["x"]);
  }
});

test("they hold through further references and choices, unless the target evaluates the rest itself", () => {
  const open = { open: { type: "object" }, any: true };
  const targets = [
    { $ref: "#/$defs/open" },
    { allOf: [{ $ref: "#/$defs/open" }] },
    { anyOf: [{ $ref: "#/$defs/any" }, NULL] },
    { oneOf: [NULL, { type: "object" }] },
    { type: "object", anyOf: [true] },
  ];
  for (const target of targets) {
    takes(reference(CLOSED, target, open), ["{}"], ['{"x": 1}']);
    takes(reference({}, target, open), ["{}", '{"x": 1}'], ["x"]);
    takes(spec({ ...target, ...CLOSED, $defs: open }), ["{}"], ['{"x": 1}']);
  }
  takes(reference(CLOSED, { type: "object", unevaluatedProperties: true }), ['{"x": 1}'], ["[]"]);
  takes(reference(CLOSED, { $ref: "#/$defs/any", unevaluatedItems: true }, open), ["[1]"], ['{"x": 1}']);
});

test("one target is closed for one reference and open for another, itself included", () => {
  const both = { a: { $ref: "#/$defs/o", ...CLOSED }, b: { $ref: "#/$defs/o" } };
  const schema = spec({ properties: both, $defs: { o: { type: "object" } } });
  takes(schema, ['{"a": {}, "b": {"x": 1}}'], ['{"a": {"x": 1}, "b": {}}']);
  const tree = { anyOf: [{ type: "object" }, { type: "array", items: { $ref: "#/$defs/target" } }] };
  takes(reference(CLOSED, tree), ["{}", '[{"x": 1}, [{}]]'], ['{"x": 1}']);
  const closedTree = {
    anyOf: [{ type: "object" }, { items: { $ref: "#/$defs/target", unevaluatedProperties: false } }],
  };
  takes(reference({}, closedTree), ['{"x": 1}', "[{}, [{}]]"], ['[{"x": 1}]', '[[{"x": 1}]]']);
});

test("where it cannot be told what is evaluated the schema is refused", () => {
  const cases: [ConstraintSpec, RegExp][] = [
    [reference(CLOSED, { $dynamicRef: "#node" }), /\$dynamicRef is not supported here \(at #\/\$defs\/target\)/],
    [reference(CLOSED, { $recursiveRef: "#" }), /\$recursiveRef is not supported here/],
    [reference({ ...CLOSED, $dynamicRef: "#node" }, {}), /\$dynamicRef is not supported here/],
    [reference({ ...CLOSED, properties: {} }, {}), /properties is not supported here/],
    [reference(CLOSED, { anyOf: [NULL, { $ref: "#/$defs/target", ...CLOSED }] }), /refers to itself/],
    [reference({}, { anyOf: [NULL, { $ref: "#", ...CLOSED }] }), /refers to itself/],
    [reference({ unevaluatedProperties: NULL }, { type: "object" }), /unevaluatedProperties is not supported here/],
    [reference(CLOSED, { type: "object", unevaluatedProperties: NULL }), /unevaluatedProperties is not supported/],
    [reference(CLOSED, { patternProperties: { a: NULL } }), /patternProperties is not supported here/],
    [reference(CLOSED, { type: "array", contains: NULL }), /contains is not supported here/],
    [reference(CLOSED, { const: { k: 1 } }), /every value of enum has members that nothing evaluates/],
    [reference(CLOSED, { minItems: 1 }), /minItems 1 exceeds the items that are described/],
  ];
  for (const [schema, message] of cases) assert.throws(() => compiler.compile(schema), message, schema.source);
});

test("of random targets they take the documents whose members are all evaluated, and no others", () => {
  const documents = [
    "{}",
    '{"a": null}',
    '{"x": null}',
    '{"x": 1}',
    "[]",
    "[null]",
    "[null, null]",
    "[1]",
    "1",
    "null",
  ];
  const random = seeded(11);
  const counts = { taken: 0, closedOff: 0 };
  for (let i = 0; i < 60; i++) {
    const $defs = { inner: randomTarget(random, 1), leaf: randomTarget(random, 2) };
    const target = randomTarget(random, 0);
    const [open, closed] = [reference({}, target, $defs), reference(CLOSED, target, $defs)];
    for (const text of documents) {
      if (!accepts(compiler, open, text)) continue;
      const value: unknown = JSON.parse(text);
      const evaluated = evaluatedBy(target, value, $defs);
      assert.ok(evaluated !== null, `${open.source} ${text}`);
      const isAll = typeof value !== "object" || Object.keys(value ?? {}).every((key) => evaluated.has(key));
      assert.equal(accepts(compiler, closed, text), isAll, `${closed.source} ${text}`);
      counts[isAll ? "taken" : "closedOff"]++;
    }
  }
  assert.ok(counts.taken > 50 && counts.closedOff > 50, JSON.stringify(counts));
});

type Target = Record<string, unknown>;
type Defs = Readonly<Record<string, Target>>;

/** References lead to deeper levels alone. */
function randomTarget(random: () => number, level: number): Target {
  const leaves: Target[] = [
    {},
    { type: "object" },
    { type: "array" },
    { type: ["array", "object", "integer"] },
    { type: "object", properties: { a: NULL } },
    { type: "object", additionalProperties: NULL },
    { type: "object", unevaluatedProperties: true },
    { type: "array", prefixItems: [NULL] },
    { type: "array", items: NULL },
  ];
  const leaf = leaves[Math.floor(random() * leaves.length)]!;
  if (level === 2 || random() < 0.3) return leaf;
  const further = { $ref: level === 0 && random() < 0.5 ? "#/$defs/inner" : "#/$defs/leaf" };
  return [further, { allOf: [further] }, { anyOf: [leaf, further] }][Math.floor(random() * 3)]!;
}

/** The members of a value that the target evaluates, by the words of the specification; null: it does not hold. */
function evaluatedBy(target: Target, value: unknown, $defs: Defs): Set<string> | null {
  const evaluated = new Set<string>();
  const branches = [...((target.anyOf ?? target.allOf ?? []) as Target[])];
  if (typeof target.$ref === "string") branches.push($defs[target.$ref.split("/")[2]!]!);
  const held = branches.map((branch) => evaluatedBy(branch, value, $defs)).filter((keys) => keys !== null);
  if (branches.length > 0 && held.length === 0) return null;
  for (const keys of held) for (const key of keys) evaluated.add(key);
  const type = Array.isArray(value)
    ? "array"
    : value === null
      ? "null"
      : typeof value === "number"
        ? "integer"
        : "object";
  if (target.type !== undefined && ![target.type].flat().includes(type)) return null;
  for (const [key, item] of Object.entries(value ?? {})) {
    const isNamed = Object.hasOwn((target.properties ?? target.prefixItems ?? {}) as object, key);
    const rest = target.additionalProperties ?? target.items;
    if ((isNamed || rest !== undefined) && item !== null) return null; // each of them describes null
    if (isNamed || rest !== undefined || target.unevaluatedProperties === true) evaluated.add(key);
  }
  return evaluated;
}
