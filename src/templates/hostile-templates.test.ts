// Templates that would hang the process or take its memory: each ends, soon, in a text or a TemplateError.

import assert from "node:assert/strict";
import { test } from "node:test";
import { TemplateError } from "./errors.js";
import { FILTERS } from "./filters/filters.js";
import { JinjaTemplate } from "./template.js";
import { TEXT_METHODS } from "./values/text-methods.js";

/** The budget's own limit is 4 s; what hangs is ended here. */
const MOST_MS = 120_000;

function render(source: string): "text" | "refused" {
  const before = performance.now();
  try {
    new JinjaTemplate(source).render([]);
    return "text";
  } catch (error) {
    assert.ok(error instanceof TemplateError, `${source.slice(0, 200)}: ${error}`);
    return "refused";
  } finally {
    const tookMs = performance.now() - before;
    assert.ok(tookMs < MOST_MS, `${source.slice(0, 200)} took ${tookMs} ms`);
  }
}

const doubled = (start: string, grow: string, use: string): string =>
  `{% set ns = namespace(t=${start}) %}{% for i in range(40) %}{% set ns.t = ${grow} %}{% endfor %}${use}`;

const RUNAWAYS: Readonly<Record<string, string>> = {
  "a tuple doubled": doubled("(1,)", "ns.t + ns.t", ""),
  "a list doubled": doubled("[1]", "ns.t + ns.t", ""),
  "indent in a loop": '{% for i in range(200) %}{% set x = "a\\nb"|indent(100000000) %}{% endfor %}',
  "tojson's indent": "{{ [1]|tojson(indent=100000000) }}",
  "digits of a number": "{{ '%.500000000d' % 1 }}",
  expandtabs: '{{ "\\t".expandtabs(1000000000) }}',
  "a tree shown": doubled("[1]", "[ns.t, ns.t]", "{{ ns.t }}"),
  "a tree compared": doubled("[1]", "[ns.t, ns.t]", "{{ ns.t == [ns.t[0], ns.t[1]] and ns.t < ns.t }}"),
  "a tree as JSON": doubled('{"a": 1}', '{"a": ns.t, "b": ns.t}', "{{ ns.t|tojson }}"),
  "a tree as a key": doubled("(1,)", "(ns.t, ns.t)", "{{ {ns.t: 1}|length }}"),
  "trees made unique": doubled("(1,)", "(ns.t, ns.t)", "{{ [ns.t, ns.t]|unique|list|length }}"),
  "upper in a loop": '{% set x = "a" * 30000000 %}{% for i in range(10000) %}{% set y = x|upper %}{% endfor %}',
  "replace that grows": '{% set x = "a" * 30000000 %}{{ x|replace("a", x) }}',
  "a split of a large text":
    '{% set x = "a " * 10000000 %}{% for i in range(1000) %}{% set y = x.split() %}{% endfor %}',
  "count of a long part": '{% set x = "a" * 30000000 %}{{ x.count("a" * 15000000 + "b") }}',
};

for (const [name, source] of Object.entries(RUNAWAYS)) {
  test(`a template that runs away is stopped: ${name}`, () => {
    assert.equal(render(source), "refused");
  });
}

test("filters that no public template uses are refused by name, when a template is read or, in a condition, reached", () => {
  const call = (name: string): string => `{{ "abc"|${name}(0) }}`;
  const names = "batch center filesizeformat forceescape groupby pprint random slice striptags truncate";
  for (const name of `${names} urlencode urlize wordcount wordwrap xmlattr`.split(" ")) {
    assert.ok(!FILTERS.has(name));
    const refused = { name: "TemplateError", message: new RegExp(`'${name}' is not supported`) };
    assert.throws(() => new JinjaTemplate(call(name)), refused);
    assert.throws(() => new JinjaTemplate(`{{ ["a"]|map("${name}")|list }}`).render([]), refused);
    assert.throws(() => new JinjaTemplate(`{% if true %}${call(name)}{% endif %}`).render([]), refused);
    assert.equal(new JinjaTemplate(`{% if false %}${call(name)}{% endif %}`).render([]).s, "");
  }
});

test("rounding to more places than a float has gives zero at once", () => {
  assert.equal(render("{{ 1.5|round(-100000000) }}"), "text");
});

const VALUES = ["''", '"a b\\nc\\t<"', "[1, 2]", "{}", "1", "-1.5", "none"];
const ARGUMENTS = ["0", "-1", "1000000000", "''", "none"];

test("every filter and every method of str ends, whatever its arguments", () => {
  let numRefused = 0;
  for (const value of VALUES)
    for (const first of ARGUMENTS)
      for (const more of ["", ", 0", ", 1000000000", ", ''"]) {
        for (const name of FILTERS.keys())
          if (render(`{{ (${value})|${name}(${first}${more}) }}`) === "refused") numRefused++;
        if (!value.startsWith("'") && !value.startsWith('"')) continue;
        for (const name of TEXT_METHODS.keys())
          if (render(`{{ (${value}).${name}(${first}${more}) }}`) === "refused") numRefused++;
      }
  assert.ok(numRefused > 1000);
});

test("what conversations need is within the limits", () => {
  const text = "word ".repeat(200_000);
  const source = `{% set x = "${text}" %}{% for i in range(20) %}{{ x.split("</think>")[-1]|trim|replace("a", "b") }}{% endfor %}`;
  assert.equal(render(source), "text");
});
