import assert from "node:assert/strict";
import { test } from "node:test";
import { type Render, readFixture, render, renderAll } from "../../test/templates/renders.js";
import { Budget, TemplateError } from "./errors.js";
import { FILTERS } from "./filters/filters.js";
import { TESTS } from "./filters/tests.js";
import { JinjaTemplate } from "./template.js";
import { readJson } from "./values/json.js";
import { CONTENT, OWN, type Text } from "./values/text.js";
import { Dict, fromOutside } from "./values/values.js";

// What Python's jinja2 made of the same templates (test/fixtures/jinja/make.py).
const goldens = JSON.parse(readFixture("goldens.json")) as {
  constructs: (string | null)[];
  chats: Record<string, (string | null)[]>;
};

/** null: the template fails. */
const textOf = (render: Render): string | null => ("text" in render ? render.text : null);

const renderWith = (source: string, context: Record<string, unknown>, origin = CONTENT): Text =>
  new JinjaTemplate(source).render(Object.entries(context).map(([name, value]) => [name, fromOutside(value, origin)]));

test("every construct renders as in jinja2, or fails as it does", () => {
  const file = readFixture("constructs.json");
  const { templates } = JSON.parse(file) as { templates: string[] };
  const context = () => (readJson(file, CONTENT) as Dict).getName("context")!;
  assert.equal(templates.length, goldens.constructs.length);
  for (const [i, source] of templates.entries())
    assert.equal(textOf(render(source, context())), goldens.constructs[i], source);
});

interface Grid {
  readonly values: readonly string[];
  readonly forms: readonly string[];
}

const grids = JSON.parse(readFixture("grids.json")) as Grid[];
const gridGoldens = (JSON.parse(readFixture("grid-goldens.json")) as (string | null)[][]).values();
for (const { values, forms } of grids) {
  const rows = forms.map((form) => [form, gridGoldens.next().value!] as const);
  test(`as jinja2 does it, with ${values.length} values: ${forms[0]} and ${forms.length - 1} more`, () => {
    for (const [form, expected] of rows) {
      const got = values.map((value) => textOf(render(`{% set v = ${value} %}{{ ${form} }}`, new Dict())));
      assert.deepEqual(got, expected, form);
    }
  });
}

test("chat templates of many shapes render every conversation as in jinja2", () => {
  for (const [name, expected] of Object.entries(goldens.chats)) {
    assert.deepEqual(renderAll(readFixture(`chats/${name}`)).map(textOf), expected, name);
  }
});

test("%g drops zeros of a fraction, never of a whole number", () => {
  const text = renderWith("{{ '%g|%#g|%g|%.3g|%g' % (100.0, 1.5, 1200000.0, 0.00001234, 2.50) }}", {});
  assert.equal(text.s, "100|1.50000|1.2e+06|1.23e-05|2.5"); // as Python writes them
});

test("a sign is that of the number, whatever the format", () => {
  assert.equal(
    renderWith("{{ '{:d}|{:+}|{: }|{:.1f}|{:06d}'.format(-3, 3, 3, -0.0, -42) }}", {}).s,
    "-3|+3| 3|-0.0|-00042",
  );
});

test("islower and isupper need a letter of their case, and none of the other", () => {
  const source = "{% for s in words %}{{ s.islower() }} {{ s.isupper() }};{% endfor %}";
  const words = ["ab1", "AB1", "aB", "12", ""];
  assert.equal(renderWith(source, { words }).s, "True False;False True;False False;False False;False False;");
});

test("rsplit takes words from the end, the first one whole", () => {
  const text = renderWith("{{ 'ab c'.rsplit() | join('/') }} {{ 'ab cd e'.rsplit(none, 1) | join('/') }}", {});
  assert.equal(text.s, "ab/c ab cd/e");
});

test("strip takes both sides, lstrip and rstrip their own", () => {
  const text = renderWith("[{{ x.strip() }}] [{{ x.lstrip() }}] [{{ x.rstrip() }}] [{{ y.rstrip('-') }}]", {
    x: " a ",
    y: "--b--",
  });
  assert.equal(text.s, "[a] [a ] [ a] [--b]");
});

test("rfind looks from the end, and finds a text at its very beginning", () => {
  const text = renderWith(
    "{{ 'ab'.rfind('ab') }} {{ 'ab'.rfind('abc') }} {{ 'aba'.rfind('a') }} {{ 'ab'.rfind('x') }}",
    {},
  );
  assert.equal(text.s, "0 -1 2 -1");
});

test("int reads a text in its base, with or without the base's prefix", () => {
  const text = renderWith(
    "{{ '0o17'|int(0, 8) }} {{ '17'|int(0, 8) }} {{ '0b11'|int(0, 2) }} {{ '-0xFF'|int(0, 16) }} {{ '0o18'|int(7, 8) }}",
    {},
  );
  assert.equal(text.s, "15 15 3 -255 7");
});

test("escaped is what a filter has escaped, and nothing else", () => {
  const text = renderWith("{{ 'a' is escaped }} {{ ('<'|escape) is escaped }} {{ 1 is escaped }}", {});
  assert.equal(text.s, "False True False");
});

test("of equals min and max take the first, and case does not count unless it is asked for", () => {
  const text = renderWith(
    "{{ ['b', 'a', 'A']|min }} {{ ['b', 'B', 'a']|max }} {{ ['a', 'A']|min(case_sensitive=true) }}",
    {},
  );
  assert.equal(text.s, "a b A");
});

test("operators name themselves and the types they cannot take, as Python does", () => {
  for (const [source, name] of [
    ["none - 1", "-: 'NoneType' and 'int'"],
    ["[] ** 'a'", "** or pow(): 'list' and 'str'"],
  ])
    assert.throws(() => renderWith(`{{ ${source} }}`, {}), {
      message: `unsupported operand type(s) for ${name}`,
    });
});

test("no filter takes more arguments than it has, nor names it does not know, and the error says which and how many", () => {
  // These hand theirs on: to a format, another filter or a test.
  const takesAny = new Set(["format", "map", "select", "reject", "selectattr", "rejectattr"]);
  for (const name of FILTERS.keys()) {
    if (takesAny.has(name)) continue;
    const shown = name === "d" ? "default" : name;
    const refused = (args: string, message: string) =>
      assert.throws(() => renderWith(`{{ 'a' | ${name}(${args}) }}`, {}), {
        name: "TemplateError",
        message: new RegExp(`^${shown}\\(\\) ${message}$`),
      });
    refused("1, 2, 3, 4, 5", "takes (no arguments|at most \\d arguments?) \\(5 given\\)");
    refused("nope=1", "got an unexpected keyword argument 'nope'");
  }
  for (const [call, message] of [
    ["upper(1)", "upper() takes no arguments (1 given)"],
    ["count(1, 2)", "count() takes no arguments (2 given)"],
    ["trim('a', 'b')", "trim() takes at most 1 argument (2 given)"],
    ["round(1, 'ceil', 2)", "round() takes at most 2 arguments (3 given)"],
  ])
    assert.throws(() => renderWith(`{{ 'a' | ${call} }}`, {}), { message });
});

test("no test takes more arguments than it has, nor fewer, nor names it does not know", () => {
  const refused = (call: string, message: string) =>
    assert.throws(() => renderWith(`{{ 'a' is ${call} }}`, {}), { name: "TemplateError", message }, call);
  for (const name of TESTS.keys()) {
    if (!/^\w+$/.test(name)) continue; // for select alone
    const takesOne = TESTS.get(name)!.length > 1;
    const takes = takesOne ? "at most 1 argument" : "no arguments";
    refused(`${name}(1, 2)`, `${name}() takes ${takes} (2 given)`);
    refused(`${name}(nope=1)`, `${name}() got an unexpected keyword argument 'nope'`);
    if (!takesOne) refused(`${name} 1`, `${name}() takes no arguments (1 given)`);
  }
  refused("divisibleby", "divisibleby() missing required argument 'num'");
  refused("divisibleby(1, num=1)", "divisibleby() got multiple values for argument 'num'");
  refused("eq()", "eq() missing an argument");
  refused("eq(b='a')", "eq() got an unexpected keyword argument 'b'");
  assert.throws(() => renderWith("{{ [1] | select('>', 1, 2) | list }}", {}), {
    message: ">() takes at most 1 argument (2 given)",
  });
});

test("a filter of what is not there names it", () => {
  for (const filter of ["dictsort", "reverse", "abs"]) {
    assert.throws(() => renderWith(`{{ missing | ${filter} }}`, {}), /'missing' is undefined/, filter);
  }
  for (const sum of ["1 + missing", "missing + 1", "'a' + missing", "2 * missing", "missing % 2", "-missing"])
    assert.throws(() => renderWith(`{{ ${sum} }}`, {}), /'missing' is undefined/, sum);
});

test("an attribute that is not there is named with its owner's type, None by its name", () => {
  const refused = (source: string, message: RegExp) => assert.throws(() => renderWith(source, { none: null }), message);
  refused("{{ none.split(',') }}", /^TemplateError: 'None' has no attribute 'split'$/);
  refused("{{ none[0][1] }}", /^TemplateError: None has no element 0$/);
  refused("{{ 'a'.b.c }}", /^TemplateError: 'str object' has no attribute 'b'$/);
});

test("what runs away ends with an error", () => {
  const fails = (source: string, message: RegExp) =>
    assert.throws(
      () => renderWith(source, {}),
      (error: Error) => error instanceof TemplateError && message.test(error.message),
    );
  const loop = "{% for i in range(100000) %}";
  fails(`${loop}${loop}{% endfor %}{% endfor %}`, /runs away/);
  fails("{% for i in range(100000000) %}{% endfor %}", /Range too big/);
  fails("{{ 'x' * 10000000000 }}", /runs away/);
  fails(`{% set ns = namespace(s='xxxxxxxx') %}${loop}{% set ns.s = ns.s + ns.s %}{% endfor %}`, /runs away/);
  fails(`${loop}{{ 'x' * 100000 }}{% endfor %}`, /runs away/);
  fails("{{ '%999999999d' % 1 }}{{ '{:>999999999}'.format(1) }}{{ 'a'.center(999999999) }}", /runs away/);
  fails("{{ [0] * 100000000 }}", /runs away/);
  fails("{{ 9 ** (9 ** 9) }}", /bits/);
  fails("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", /recursion/);
  fails(`{{ ${"(".repeat(100_000)}1${")".repeat(100_000)} }}`, /nested too deeply/);
  fails(
    `{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}`,
    /deeply/,
  );
});

test("limits hold to the last step, character and bit", () => {
  const budget = new Budget();
  budget.step(7_999_999);
  budget.step();
  assert.throws(() => budget.step(), /more than 8000000 steps/);
  assert.throws(() => new Budget().make(2 ** 25 + 1), /a text of 33554433 characters, more than 33554432/);
  const texts = new Budget();
  for (let i = 0; i < 8; i++) texts.make(2 ** 25);
  assert.throws(() => texts.make(1), /more than 268435456 characters of text/);
  const copies = new Budget();
  for (let i = 0; i < 15; i++) copies.scan(2 ** 25);
  assert.throws(() => copies.scan(2 ** 25), /more than 8000000 steps/);
  assert.equal(renderWith("{{ 2 ** 16384 > 0 and 2 ** 8192 * 2 ** 8184 > 0 }}", {}).s, "True");
  assert.throws(() => renderWith("{{ 2 ** 16385 > 0 }}", {}), /a number of 65540 bits is more than the 65536 allowed/);
  assert.throws(() => renderWith("{% set a = 2 ** 16384 %}{% set b = a * a * a * a %}{{ b * 16 }}", {}), /bits/);
  assert.equal(renderWith("{{ range(100000)|length }}", {}).s, "100000");
  assert.throws(() => renderWith("{{ range(100001)|length }}", {}), /MAX_RANGE \(100000\)/);
});

test("every text is counted before it is made", () => {
  const HALF = "{% set half = 'x' * 16777216 %}{% set full = half + half %}";
  for (const made of [
    ...["'x' * 33554433", "'a'.zfill(33554433)", "'a'.center(33554433)", "'a'.ljust(33554433)", "'a'.rjust(33554433)"],
    ...["'%33554433d' % 1", "'{:33554433}'.format(1)", "full + 'y'", "full ~ 'y'", "[half, half] | join('y')"],
    ...["'y'.join([half, half])", "'x'.join([full])"],
  ])
    assert.throws(
      () => renderWith(`${HALF}{{ (${made}) | length }}`, {}),
      /a text of (33554433|33554434) characters, more than 33554432/,
      made,
    );
  const shown = "{% for i in range(16) %}{{ full }}{% endfor %}";
  assert.throws(() => renderWith(`${HALF}${shown}`, {}), /more than 268435456 characters of text/);
  assert.throws(() => renderWith("{{ ([0] * 4000000 + [0] * 4000001) | length }}", {}), /more than 8000000 steps/);
});

test("each item that a filter selects or maps is a step", () => {
  const chain = (count: number) => `{{ range(1, 1001)${" | select | map('abs')".repeat(count)} | list | length }}`;
  const looped = (turns: number) => `{% for i in range(${turns}) %}${chain(50)}{% endfor %}`;
  // 1,000 items by 100 filters and three nodes in each turn.
  assert.equal(renderWith(looped(1), {}).s, "1000");
  assert.throws(() => renderWith(looped(81), {}), /runs away/); // by its steps, or on a slow machine by its time
});

test("calls and values have two hundred levels, and as many again when they are done", () => {
  const calls = (depth: number) =>
    renderWith(`{% macro f(n) %}{{ f(n - 1) if n > 1 else 'x' }}{% endmacro %}{{ f(${depth}) }}{{ f(${depth}) }}`, {})
      .s;
  assert.equal(calls(200), "xx");
  assert.throws(() => calls(201), /maximum recursion depth exceeded/);
  const nested = (wrap: string, levels: number, show: string) =>
    renderWith(
      `{% set ns = namespace(v=1) %}{% for i in range(${levels}) %}{% set ns.v = ${wrap} %}{% endfor %}{{ ${show} }}`,
      {},
    ).s;
  for (const wrap of ["[ns.v]", "(ns.v,)", "{'a': ns.v}", "{'a': 0, 'b': ns.v}"]) {
    assert.match(nested(wrap, 200, "ns.v"), /1/, wrap);
    assert.throws(() => nested(wrap, 201, "ns.v"), /nested too deeply to be shown/, wrap);
    assert.match(nested(wrap, 200, "ns.v | tojson"), /1/, wrap);
    assert.throws(() => nested(wrap, 201, "ns.v | tojson"), /nested too deeply for JSON/, wrap);
  }
  assert.match(nested("(ns.v,)", 199, "{ns.v: 0}"), /1/);
  assert.throws(() => nested("(ns.v,)", 200, "{ns.v: 0}"), /nested too deeply to be shown/);
  assert.match(nested("[ns.v]", 198, "namespace(a=ns.v)"), /^<Namespace \{'a': .*1/);
  assert.throws(() => nested("[ns.v]", 199, "namespace(a=ns.v)"), /nested too deeply to be shown/);
});

test("what is no template is told with its line", () => {
  const lineOf = (source: string) => {
    try {
      new JinjaTemplate(source);
      return null;
    } catch (error) {
      return Number(/\(line (\d+)\)$/.exec((error as Error).message)?.[1]);
    }
  };
  assert.deepEqual(
    [
      ...["{{ }}", "a\n{{ }}", "\n\n{{ 1\n+ }}", "{# a\nb #}{{ }}", "{% raw %}\n\n{% endraw %}{{ }}", "{% if 1 %}\n\n"],
      ...["a\n{{ 'x", "{{ 1\n\n$ }}", "\n{# a", "\n\n{% raw %}", "{% nosuch %}", "x\r\ny\r{{ }}"],
      ...[
        "{{ 1 }}\n{% nosuch %}",
        "{% if 1 %}\n{{ 1\n}}\n\n{% endif %}\n{{ }}",
        "{{ 'a\nb' }}{{ }}",
        "{% raw %}a{% endraw %}\n{{ }}",
      ],
    ].map(lineOf),
    [1, 2, 4, 2, 3, 2, 2, 1, 2, 3, 1, 3, 2, 6, 2, 2],
  );
});

test("every character knows whether the template or the request wrote it", () => {
  const origins = (source: string, content: unknown): string => {
    const text = renderWith(source, { content });
    return text
      .chars()
      .map((char) => (char.origins[0] === OWN ? "." : char.s))
      .join("");
  };
  assert.equal(origins("<{{ content }}>", "hi"), ".hi.");
  assert.equal(origins("{{ '<' + content.strip() + '>' }}", " hi "), ".hi.");
  assert.equal(origins("{{ content | upper ~ '!' }}", "hi"), "HI.");
  assert.equal(origins("{{ content.split(',') | join(';') }}", "a,b"), "a.b");
  assert.equal(origins("{{ content | replace('a', 'xy') }}", "bab"), "b..b");
  assert.equal(origins("{{ content | tojson }}", { k: 'a"b' }), '..k....a\\"b..');
  assert.equal(origins("{{ '%s/%5s' % (content, content) }}{{ '{:*^5}'.format(content) }}", "ab"), "ab....ab.ab..");
  assert.equal(origins("{{ content[::-1] }}{{ content[1:] }}{{ content[0] }}", "abc"), "cbabca");
  assert.equal(origins("{% set x %}[{{ content | trim }}]{% endset %}{{ x | indent(2, true) }}", "a\nb"), "...a...b.");
  assert.equal(origins("{{ content }}", ["a", 1]), "..a.....");
  assert.equal(origins("{% for c in content %}{{ c }}-{% endfor %}{{ content | length }}", "é😀"), "é.😀..");
});
