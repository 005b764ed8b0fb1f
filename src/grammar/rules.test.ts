import assert from "node:assert/strict";
import { test } from "node:test";
import { anyOf, literal, RuleSet, repeat } from "./rules.js";

test("a rule keeps its first body, what is made of the same twice is made once, and sizes add up", () => {
  const rules = new RuleSet();
  assert.equal(rules.define("a", "xyz"), "a");
  rules.define("a", "other");
  assert.equal(rules.add("b", '"q"'), "b_1");
  assert.equal(rules.add("c", '"q"'), "b_1");
  assert.equal(rules.add("d", "a"), "a", "a rule's name needs no rule of its own");
  assert.deepEqual([rules.has("a"), rules.has("c_2"), rules.size], [true, false, 6]);
  rules.replace("a", "z");
  assert.equal(rules.size, 7);
  assert.equal(rules.toString(), 'a ::= z\nb_1 ::= "q"');
});

test("literals, repetitions and alternatives in their shortest spelling", () => {
  assert.equal(literal('aZ09 "\\é\u{1f409}'), '"aZ09 \\u0022\\u005c\\u00e9\\U0001f409"');
  assert.equal(literal("Az"), '"Az"');
  assert.equal(literal("/:@[`{\uffff\u{10000}"), '"\\u002f\\u003a\\u0040\\u005b\\u0060\\u007b\\uffff\\U00010000"');
  const cases: [number, number | null, string][] = [
    [0, 0, '""'],
    [1, 1, "x"],
    [0, null, "x*"],
    [1, null, "x+"],
    [2, null, "x{2,}"],
    [0, 1, "x?"],
    [2, 2, "x{2}"],
    [0, 2, "x{0,2}"],
    [1, 2, "x{1,2}"],
  ];
  for (const [min, max, spelling] of cases) assert.equal(repeat("x", min, max), spelling);
  assert.deepEqual([anyOf(["x"]), anyOf(["x", "y"]), anyOf(["x", "y", "z"])], ["x", "(x | y)", "(x | y | z)"]);
});
