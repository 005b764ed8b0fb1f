import assert from "node:assert/strict";
import { test } from "node:test";
import { accepts, byteCompiler, seeded } from "../../test/support/byte-matcher.js";
import type { ConstraintSpec } from "./constraint.js";
import type { NumberBounds } from "./number-regex.js";

const compiler = await byteCompiler();

function schema(type: string, bounds: NumberBounds): ConstraintSpec {
  return { kind: "json_schema", source: JSON.stringify({ type, ...bounds }) };
}

function isWithin(value: number, bounds: NumberBounds): boolean {
  return (
    value >= (bounds.minimum ?? Number.NEGATIVE_INFINITY) &&
    value <= (bounds.maximum ?? Number.POSITIVE_INFINITY) &&
    value > (bounds.exclusiveMinimum ?? Number.NEGATIVE_INFINITY) &&
    value < (bounds.exclusiveMaximum ?? Number.POSITIVE_INFINITY)
  );
}

test("an integer range takes exactly its integers", () => {
  const cases: NumberBounds[] = [
    { minimum: 0, maximum: 7 },
    { minimum: -13, maximum: 109 },
    { minimum: 95, maximum: 105 },
    { minimum: -105, maximum: -95 },
    { minimum: 100, maximum: 100 },
    { exclusiveMinimum: 0, exclusiveMaximum: 20 },
    { minimum: 1.5, maximum: 12.5 },
    { exclusiveMinimum: -3.5, maximum: 0 },
    { minimum: 17 },
    { maximum: -1 },
  ];
  for (const bounds of cases) {
    const spec = schema("integer", bounds);
    for (let value = -130; value <= 130; value++) {
      if (value === 0 && Object.is(value, -0)) continue;
      assert.equal(accepts(compiler, spec, String(value)), isWithin(value, bounds), `${value} in ${spec.source}`);
    }
  }
});

test("a number range takes decimals exactly up to its bounds", () => {
  const cases: NumberBounds[] = [
    { minimum: 0, maximum: 1 },
    { exclusiveMinimum: 0, exclusiveMaximum: 1 },
    { minimum: -1.5, maximum: 3.25 },
    { exclusiveMinimum: -0.25, maximum: 10 },
    { minimum: 0.125 },
    { maximum: -2.5 },
    { minimum: 2.5, maximum: 2.5 },
    { minimum: -3.1000000000000005, maximum: 2.00000000000001 },
    { exclusiveMinimum: 1e-7, maximum: 3 },
  ];
  const random = seeded(7);
  for (const bounds of cases) {
    const spec = schema("number", bounds);
    for (let i = 0; i < 300; i++) {
      const value = ((random() - 0.5) * 12).toFixed(Math.floor(random() * 5));
      if (/^-0\.?0*$/.test(value)) continue;
      const isAccepted = accepts(compiler, spec, value);
      if (isAccepted || !value.endsWith("0"))
        assert.equal(isAccepted, isWithin(Number(value), bounds), `${value} in ${spec.source}`);
    }
    for (const bound of Object.values(bounds)) {
      const text = String(Number(bound.toFixed(6)));
      assert.equal(accepts(compiler, spec, text), isWithin(Number(text), bounds), `${text} in ${spec.source}`);
    }
  }
});

test("whatever a free number spells is finite, and leading zeros are not JSON", () => {
  const spec = schema("number", {});
  for (const text of ["0", "-1", "12.5", "1e99", "-1.25E-7", "999999999999999"])
    assert.ok(accepts(compiler, spec, text));
  for (const text of ["01", "1.", ".5", "1e999", "+1", "--1", "NaN", ""]) assert.ok(!accepts(compiler, spec, text));
});

test("bounds that exclude everything are refused", () => {
  for (const bounds of [
    { minimum: 2, maximum: 1 },
    { exclusiveMinimum: 1, exclusiveMaximum: 2 },
  ] as NumberBounds[])
    assert.throws(() => compiler.compile(schema("integer", bounds)), /its bounds exclude all numbers/);
});
