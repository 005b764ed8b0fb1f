import assert from "node:assert/strict";
import { test } from "node:test";
import { z } from "zod";
import { accepts, byteCompiler, draw, seeded } from "../../test/support/byte-matcher.js";
import { randomSchema } from "../../test/support/random-schema.js";
import type { ConstraintSpec } from "./constraint.js";

const compiler = await byteCompiler();

function spec(schema: unknown): ConstraintSpec {
  return { kind: "json_schema", source: JSON.stringify(schema) };
}

test("objects: order of the schema, required always, optional at choice, nothing undescribed", () => {
  const schema = spec({
    properties: { a: { type: "null" }, b: { type: "boolean" }, c: { type: "null" } },
    required: ["b"],
  });
  for (const text of [
    '{"b": true}',
    '{"a": null, "b": false}',
    '{"a": null, "b": true, "c": null}',
    '{"b": true, "c": null}',
  ])
    assert.ok(accepts(compiler, schema, text), text);
  for (const text of [
    "{}",
    '{"a": null}',
    '{"b": true, "a": null}',
    '{"b": true, "d": 1}',
    '{"b": true, }',
    '{"b":true}',
  ])
    assert.ok(!accepts(compiler, schema, text), text);
});

test("propertyNames holds for every key where no property is described", () => {
  const schema = spec({
    type: "object",
    propertyNames: { pattern: "^[ab]{2}$" },
    additionalProperties: { type: "null" },
  });
  assert.ok(accepts(compiler, schema, '{"ab": null, "bb": null}'));
  assert.ok(!accepts(compiler, schema, '{"abc": null}'));
});

test("oneOf of disjoint schemas takes each of them", () => {
  const schema = spec({ oneOf: [{ type: "boolean" }, { type: "array", items: { type: "null" } }] });
  for (const text of ["true", "[null, null]", "[]"]) assert.ok(accepts(compiler, schema, text), text);
  assert.ok(!accepts(compiler, schema, "null"));
});

test("additional properties never repeat a described one", () => {
  const schema = spec({
    properties: { ab: { type: "null" }, a: { type: "null" } },
    additionalProperties: { type: "integer" },
  });
  for (const text of ['{"ab": null, "x": 1}', '{"abc": 1}', '{"": 1}', '{"b": 1, "aa": 2}', "{}"])
    assert.ok(accepts(compiler, schema, text), text);
  for (const text of ['{"ab": 1}', '{"a": 1}', '{"a": null, "ab": 1}', '{"\\u0061": 1}', '{"x": null}'])
    assert.ok(!accepts(compiler, schema, text), text);
});

test("arrays, tuples, enums, types, references", () => {
  const takes = (schema: unknown, good: string[], bad: string[]) => {
    for (const text of good) assert.ok(accepts(compiler, spec(schema), text), `${JSON.stringify(schema)} ${text}`);
    for (const text of bad) assert.ok(!accepts(compiler, spec(schema), text), `${JSON.stringify(schema)} not ${text}`);
  };
  const integers = { items: { type: "integer" } };
  takes({ ...integers, minItems: 1, maxItems: 2 }, ["[1]", "[1, 2]"], ["[]", "[1, 2, 3]", "[1,2]", '["a"]']);
  takes({ ...integers, maxItems: 0 }, ["[]"], ["[1]"]);
  takes({ prefixItems: [{ const: 1 }, { const: 2 }], items: false }, ["[1, 2]"], ["[1]", "[1, 2, 3]"]);
  takes({ enum: [1, "a", null, { k: [1] }] }, ["1", '"a"', "null", '{"k": [1]}'], ["a", "2"]);
  takes({ type: ["string", "null"], maxLength: 1 }, ['""', '"a"', "null"], ['"ab"', "1"]);
  takes({ type: "string", nullable: true }, ['"a"', "null"], ["1"]);
  takes({ anyOf: [{ type: "boolean" }, { const: 5 }] }, ["true", "5"], ["6"]);
  takes({ $defs: { n: { type: "null" } }, items: { $ref: "#/$defs/n" } }, ["[null]", "[]"], ["[1]"]);
  takes(
    {
      $ref: "#/$defs/tree",
      $defs: { tree: { properties: { kids: { items: { $ref: "#/$defs/tree" } } }, required: ["kids"] } },
    },
    ['{"kids": []}', '{"kids": [{"kids": []}]}'],
    ["{}", '{"kids": [1]}'],
  );
  takes(true, ["1", '{"a": [true, null, "x"]}'], ["{", "tru"]);
  takes(
    { type: "string", minLength: 1, maxLength: 2 },
    ['"é"', '"\\n中"', '"\\u00e9"'],
    ['""', '"abc"', '"\t"', '"\\ud800"'],
  );
});

test("a string of bounded length holds no raw control character and no character that JavaScript counts as two", () => {
  const schema = spec({ type: "string", maxLength: 3 });
  for (const text of ['"\u0000"', '"\u001f"', '"a\nb"', '"😀"']) assert.ok(!accepts(compiler, schema, text), text);
});

test("what cannot be promised is refused by keyword and place", () => {
  const cases: [unknown, RegExp][] = [
    [{ type: "integer", multipleOf: 5 }, /multipleOf is not supported here \(at #\)/],
    [{ properties: { a: { not: {} } } }, /keyword not is not supported here \(at #\/properties\/a\)/],
    [{ type: "array", uniqueItems: true }, /uniqueItems/],
    [{ patternProperties: { x: {} }, type: "object" }, /patternProperties/],
    [{ allOf: [{ type: "string" }, { maxLength: 3 }] }, /allOf with more than one/],
    [{ oneOf: [{ type: "string" }, { maxLength: 3 }] }, /alternatives 0 and 1 may both hold/],
    [{ type: "foo" }, /type "foo" is not known/],
    [{ type: [] }, /type must be a name/],
    [{ enum: [] }, /enum must be a list/],
    [{ $ref: "#" }, /refers to itself/],
    [{ anyOf: [{ $ref: "#/anyOf/0" }] }, /refers to itself/],
    [{ $ref: "#/nowhere" }, /leads nowhere/],
    [{ $ref: "http://example.com/x" }, /is not local/],
    [{ type: "string", minLength: 5, maxLength: 2 }, /minLength 5 exceeds maxLength 2/],
    [{ type: "string", maxLength: 1e9 }, /exceeds 100000/],
    [{ type: "string", pattern: "(?=a)" }, /pattern: look-ahead is not supported/],
    [{ type: "string", pattern: "a", maxLength: 3 }, /put the length into the pattern/],
    [{ type: "object", required: ["x"], properties: {} }, /required property "x" is not described/],
    [
      { properties: { a: {} }, propertyNames: { maxLength: 3 }, additionalProperties: true },
      /propertyNames beside properties is not supported/,
    ],
    [false, /false accepts no value/],
    [7, /a schema must be an object/],
    [{ enum: [1], minimum: 2 }, /keyword minimum is not supported here/],
  ];
  for (const [schema, message] of cases) assert.throws(() => compiler.compile(spec(schema)), message);
  let deep: unknown = { type: "null" };
  for (let i = 0; i < 500; i++) deep = { properties: { a: deep } };
  assert.throws(() => compiler.compile(spec(deep)), /nested deeper than 40/);
  assert.throws(() => compiler.compile({ kind: "json_schema", source: "{" }), /it is not JSON/);
});

test("texts drawn from random schemas parse and validate", () => {
  const random = seeded(3);
  for (let i = 0; i < 150; i++) {
    const schema = randomSchema(random);
    const constraint = compiler.compile(spec(schema));
    const text = draw(constraint, random, 20_000);
    constraint.dispose();
    assert.ok(text !== null, `no end: ${JSON.stringify(schema)}`);
    const checked = z.fromJSONSchema(schema as z.core.JSONSchema.BaseSchema).safeParse(JSON.parse(text));
    assert.ok(checked.success, `${JSON.stringify(schema)}\n${text}\n${checked.error}`);
  }
});

test("a format that is not known says nothing, whatever objects inherit under its name", () => {
  for (const format of ["phone", "constructor", "toString", "__proto__"])
    assert.ok(accepts(compiler, spec({ type: "string", format }), '"any"'), format);
});

test("every string format and the schemas zod makes of its types", () => {
  const shape = z.object({
    email: z.email(),
    uuid: z.uuid(),
    datetime: z.iso.datetime(),
    date: z.iso.date(),
    time: z.iso.time(),
    duration: z.iso.duration(),
    url: z.url(),
    ipv4: z.ipv4(),
    ipv6: z.ipv6(),
    record: z.record(z.string(), z.number()),
    tuple: z.tuple([z.string(), z.int()]),
    union: z.discriminatedUnion("kind", [
      z.object({ kind: z.literal("x") }),
      z.object({ kind: z.literal("y"), v: z.boolean() }),
    ]),
    optional: z.enum(["p", "q"]).optional(),
    positive: z.number().positive(),
    short: z.string().max(5).min(2),
  });
  const random = seeded(5);
  for (let i = 0; i < 20; i++) {
    const constraint = compiler.compile(spec(z.toJSONSchema(shape)));
    const text = draw(constraint, random, 50_000);
    constraint.dispose();
    const checked = shape.safeParse(JSON.parse(text!));
    assert.ok(checked.success, `${text}\n${checked.error}`);
  }
});
