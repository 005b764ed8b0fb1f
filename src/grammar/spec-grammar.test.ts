// Constraints as grammar, to the letter (test/fixtures/grammars; make.mjs there writes them anew). That such grammars take what they
// should and nothing else is tried with a matcher in the tests beside.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import type { ConstraintSpec } from "./constraint.js";
import { grammarOf } from "./spec-grammar.js";

const fixture = (name: string): unknown =>
  JSON.parse(readFileSync(new URL(`../../../test/fixtures/grammars/${name}`, import.meta.url), "utf8"));
const cases = fixture("cases.json") as [ConstraintSpec["kind"], string][];
const grammars = fixture("grammars.json") as string[];

function written(kind: ConstraintSpec["kind"], source: string): string {
  try {
    return grammarOf({ kind, source });
  } catch (error) {
    return `! ${(error as Error).message}`;
  }
}

for (const kind of new Set(cases.map(([kind]) => kind))) {
  test(`${kind}: every grammar, or why there is none`, () => {
    assert.equal(cases.length, grammars.length);
    for (const [i, [own, source]] of cases.entries())
      if (own === kind) assert.equal(written(kind, source), grammars[i], source);
  });
}

test("a grammar asked for again is the one made before, among the last ones", () => {
  const first = written("json_schema", '{"const": "once"}');
  for (let i = 0; i < 80; i++) assert.match(written("json_schema", `{"const": ${i}}`), /^root ::= /);
  assert.equal(written("json_schema", '{"const": "once"}'), first);
});

test("a source has its longest length", () => {
  assert.match(written("grammar", "x".repeat(200_000)), /^x/);
  assert.match(written("grammar", "x".repeat(200_001)), /^! .*200001 characters.*at most 200000 characters/);
  assert.match(written("json_schema", "{"), /^! .*it is not JSON/);
  const values = (count: number) => written("json_schema", JSON.stringify({ enum: Array(count).fill(1) }));
  assert.match(values(2000), /^root/);
  assert.match(values(2001), /^! .*enum has 2001 values, at most 2000 are taken/);
});

test("every keyword that leads into another schema counts as one of forty levels", () => {
  const LEAF = { type: "string" };
  const ways: Record<string, (inner: object) => object> = {
    "properties/a": (inner) => ({ properties: { a: inner } }),
    additionalProperties: (inner) => ({ additionalProperties: inner, type: "object" }),
    items: (inner) => ({ items: inner }),
    "prefixItems/0": (inner) => ({ prefixItems: [inner] }),
    "anyOf/1": (inner) => ({ anyOf: [{ type: "null" }, inner] }),
    "oneOf/0": (inner) => ({ oneOf: [inner], title: "x" }),
    "allOf/0": (inner) => ({ allOf: [inner] }),
  };
  const nested = (levels: number, way: (inner: object) => object, leaf: object = LEAF): string => {
    let schema = leaf;
    for (let i = 0; i < levels; i++) schema = way(schema);
    return JSON.stringify(schema);
  };
  for (const [place, way] of Object.entries(ways)) {
    assert.match(written("json_schema", nested(40, way)), /^root/, place);
    const path = `#${`/${place}`.repeat(41)}`;
    assert.match(written("json_schema", nested(41, way)), /^! .*nested deeper than 40/, place);
    assert.ok(written("json_schema", nested(41, way)).includes(`(at ${path})`), place);
  }
  const names = { type: "object", propertyNames: { pattern: "a" }, additionalProperties: LEAF };
  assert.match(written("json_schema", nested(39, ways.items!, names)), /^root/);
  assert.match(
    written("json_schema", nested(40, ways.items!, names)),
    /nested deeper than 40 \(at #.*\/propertyNames\)/,
  );
  const chain = (length: number) => {
    const $defs = Object.fromEntries(
      Array.from({ length }, (_, i) => [i, { items: i + 1 === length ? LEAF : { $ref: `#/$defs/${i + 1}` } }]),
    );
    return written("json_schema", JSON.stringify({ $ref: "#/$defs/0", $defs }));
  };
  assert.match(chain(20), /^root/);
  assert.match(chain(21), /nested deeper than 40 \(at #\/\$defs\/20\/items\)/);
});

test("strings of any length, in as few rules as can be", () => {
  const named = (schema: object) =>
    [...written("json_schema", JSON.stringify(schema)).matchAll(/^(\w+) ::=/gm)].map(([, name]) => name);
  const ends = (min: number, max: number | null) => {
    const grammar = written(
      "json_schema",
      JSON.stringify({ type: "string", minLength: min, ...(max === null ? {} : { maxLength: max }) }),
    );
    return /^json_string_\w+ ::= (.*)$/m.exec(grammar)![1];
  };
  assert.equal(named({ type: "string", maxLength: 96 }).includes("up_to_96"), true);
  assert.deepEqual(
    [
      ends(0, 96),
      ends(1, 96),
      ends(0, 97),
      ends(1, 97),
      ends(64, 128),
      ends(65, 129),
      ends(130, null),
      ends(128, null),
    ],
    [
      '"\\"" up_to_96',
      '"\\"" from_1_to_96',
      '"\\"" long_97',
      '"\\"" exactly_1 long_96',
      '"\\"" exactly_64 long_64',
      '"\\"" exactly_64 exactly_1 long_64',
      '"\\"" exactly_64 exactly_64 exactly_2 json_rest',
      '"\\"" exactly_64 exactly_64 json_rest',
    ],
  );
  const long = written("json_schema", JSON.stringify({ type: "string", maxLength: 200 }));
  for (const line of [
    "long_200 ::= up_to_63 | exactly_64 long_136",
    "long_136 ::= up_to_63 | exactly_64 long_72",
    "long_72 ::= up_to_63 | exactly_64 up_to_8",
  ])
    assert.ok(long.includes(`\n${line}`), line);
});
