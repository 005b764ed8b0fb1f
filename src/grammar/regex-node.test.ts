import assert from "node:assert/strict";
import { test } from "node:test";
import { accepts, byteCompiler, draw, seeded } from "../../test/support/byte-matcher.js";

const compiler = await byteCompiler();

const EXPRESSIONS = [
  "[a-z]+@[a-z]+\\.com",
  "(ab|cd){2,3}x?",
  "^\\d{4}-\\d{2}$",
  "[^a-c\\]]{1,3}",
  "a.c",
  "(?:x|(?<name>y))*z",
  "\\w\\s\\W\\S\\D",
  "[\\u4e00-\\u4e10é]+",
  "\\$\\{\\x41\\}",
  "",
  "a{2,}b{0}",
  "(|a)b",
  "\\t\\n\\r\\f\\v\\0",
  "[-a][b-]",
  "x{,3}",
  "2[5-9][0-9]\\.[0-9]{2}|2[5-9][0-9]",
];

/** A lone brace is only a literal without the u flag. */
function wholeOf(source: string): RegExp {
  return new RegExp(`^(?:${source})$`, source.includes("{,") ? "" : "u");
}

test("a grammar of an expression takes what the expression matches as a whole", () => {
  const samples = [
    "",
    "a@b.com",
    "A@b.com",
    "abcd",
    "abababx",
    "ab",
    "2024-05",
    "20245",
    "ddd",
    "a]",
    "abc",
    "a\nc",
    "acc",
    "xyxz",
  ];
  samples.push(
    "a !b!",
    "z\t.x-",
    "中",
    "一丁é",
    "$" + "{A}",
    "aa",
    "aaab",
    "aaaab",
    "b",
    "-b",
    "a-",
    "x{,3}",
    "x{,3",
    "291",
    "291.23",
    "291.23.40",
    "😀😀",
    "\t\n\r\f\v\0",
  );
  for (const source of EXPRESSIONS) {
    const whole = wholeOf(source);
    for (const text of samples)
      assert.equal(
        accepts(compiler, { kind: "regex", source }, text),
        whole.test(text),
        `${source} on ${JSON.stringify(text)}`,
      );
  }
});

test("alternatives that begin and end alike are kept apart: every text of up to six letters, for random sets of words", () => {
  const random = seeded(17);
  const texts = [""];
  for (let i = 0; i < 63; i++) texts.push(`${texts[i]}a`, `${texts[i]}b`); // breadth first: all up to length 6
  for (let round = 0; round < 60; round++) {
    const words = Array.from({ length: 5 }, () => texts[1 + Math.floor(random() * 126)]!);
    const source = words.join("|");
    for (const text of texts)
      assert.equal(accepts(compiler, { kind: "regex", source }, text), words.includes(text), `${source} on ${text}`);
  }
});

test("texts drawn from the grammar match the expression", () => {
  const random = seeded(11);
  for (const source of EXPRESSIONS) {
    for (let i = 0; i < 20; i++) {
      const constraint = compiler.compile({ kind: "regex", source });
      const text = draw(constraint, random);
      constraint.dispose();
      assert.ok(text !== null && wholeOf(source).test(text), `${source}: ${text}`);
    }
  }
});

test("inside JSON a pattern's characters are written as JSON writes them", () => {
  const spec = {
    kind: "json_schema",
    source: JSON.stringify({ type: "string", pattern: '^[a"\\\\\\n]{1,3}$' }),
  } as const;
  for (const value of ['"', "\\", "\n", 'a"a', "aaa"]) assert.ok(accepts(compiler, spec, JSON.stringify(value)), value);
  assert.ok(!accepts(compiler, spec, '"\n"'), "a raw line break is not JSON");
  assert.ok(!accepts(compiler, spec, JSON.stringify("b")));
});

test("what a grammar cannot express is refused by name", () => {
  const cases: [string, RegExp][] = [
    ["(?=a)b", /look-ahead is not supported/],
    ["\\ud800", /surrogates are not characters/],
    ["\\udfff", /surrogates are not characters/],
    ["(?<!a)b", /look-behind is not supported/],
    ["(a)\\1", /back references are not supported/],
    ["\\bfoo", /word boundaries are not supported/],
    ["\\p{L}", /Unicode properties are not supported/],
    ["\\q", /the escape \\q is not supported/],
    ["(?i)a", /group flags are not supported/],
    ["(a", /expected "\)"/],
    ["a)", /closing parenthesis/],
    ["[b-a]", /out of order/],
    ["[a", /ends too early/],
    ["*a", /nothing to repeat/],
    ["a{3,2}", /out of order/],
    ["a{999999}", /exceeds 100000/],
    ["a^b", /\^ can only stand at the beginning/],
    ["a$b", /\$ can only stand at the end/],
    ["a**", /cannot be repeated/],
    [`${"(".repeat(60)}a${")".repeat(60)}`, /nested deeper/],
  ];
  for (const [source, message] of cases)
    assert.throws(() => compiler.compile({ kind: "regex", source }), message, source);
});

test("expressions too large for an automaton still match what they say", () => {
  const cases: [string, string[], string[]][] = [
    ["(a?){1500}", ["", "a", "a".repeat(1500)], ["a".repeat(1501), "b"]],
    ["[a-z]{2000,}x?", ["q".repeat(2000), `${"q".repeat(2500)}`], ["q".repeat(1999), "Q".repeat(2000)]],
    ["(a|b)*a(a|b){12}", ["abbbbbbbbbbbb", "babbbbbbbbbbbb"], ["bbbbbbbbbbbbb", "abbb"]],
  ];
  for (const [source, good, bad] of cases) {
    for (const text of good)
      assert.ok(accepts(compiler, { kind: "regex", source }, text), `${source} on ${text.length}`);
    for (const text of bad)
      assert.ok(!accepts(compiler, { kind: "regex", source }, text), `${source} not on ${text.length}`);
  }
});

test("long runs of one set are counted in blocks, exactly", () => {
  const long = "ab c".repeat(1100);
  for (const [source, ending] of [
    ["[a-z ]{1,4000}", ""],
    ["[a-z ]{100,250}!", "!"],
    ["x?[a-d ]{130}", ""],
    ["[^!]{97,}!", "!"],
    ["[a-zé中 ]{0,111}[0-9]{2}", "77"],
  ] as const) {
    const whole = wholeOf(source);
    for (const length of [
      0, 1, 15, 16, 17, 96, 97, 99, 100, 110, 111, 112, 129, 130, 131, 249, 250, 251, 3999, 4000, 4001,
    ]) {
      const text = long.slice(0, length) + ending;
      assert.equal(accepts(compiler, { kind: "regex", source }, text), whole.test(text), `${source}, ${length}`);
    }
    assert.equal(accepts(compiler, { kind: "regex", source }, `A${ending}`), whole.test(`A${ending}`));
  }
  assert.ok(accepts(compiler, { kind: "regex", source: "[a-zé中 ]{0,111}[0-9]{2}" }, `${"é中".repeat(55)}12`));
});
