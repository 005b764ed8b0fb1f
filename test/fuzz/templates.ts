// Chat templates made of every filter, method and test with hostile subjects and arguments: each rendering ends in a text or a
// TemplateError, within the budget.

import { TemplateError } from "../../src/templates/errors.js";
import { FILTERS } from "../../src/templates/filters/filters.js";
import { TESTS } from "../../src/templates/filters/tests.js";
import { JinjaTemplate } from "../../src/templates/template.js";
import { TEXT_METHODS } from "../../src/templates/values/text-methods.js";
import { seeded } from "../support/byte-matcher.js";
import { pick, type Random } from "./mutate.js";

/** The budget ends a rendering after 4 s; a busy machine may need more to notice. */
const MOST_MS = 15_000;
const FILTER_NAMES = [...FILTERS.keys()];
const TEST_NAMES = [...TESTS.keys()].filter((name) => /^\w+$/.test(name));
const TEXT_NAMES = [...TEXT_METHODS.keys()];
const OTHER_NAMES = ["index", "count", "copy", "pop", "keys", "values", "items", "get", "append", "__class__"];
const TEXTS = ["''", "'a'", "'a b\\nc\\t<é💥'", "'%s %500d'", "'{0} {x!r:>99}'", "'__class__'", "'long ' * 50000"];
const VALUES = [
  ...["0", "-1", "1", "1000000000", "10 ** 400", "1e308", "-0.5", "1e308 * 10", "none", "true", "missing"],
  ...TEXTS,
  ...["[]", "[1, 2]", "[[[[[]]]]]", "[[1, 'a'], [2, none]]", "(1,) * 9000", "range(99999)", "{}"],
  ...[
    "{'a': 1}",
    "{'a': [{'b': ()}], 2: none}",
    "['a', 1, none, {}]",
    "namespace(a=1)",
    "cycler(1)",
    "joiner()",
    "range",
  ],
];
const NAMES = ["width", "attribute", "default", "indent", "length", "reverse", "count", "start", "x"];

export class TemplateFuzzer {
  /** What is wrong with how the template was rendered; null when nothing is. */
  try(seed: number): string | null {
    const source = templateOf(seeded(seed));
    const startMs = performance.now();
    try {
      new JinjaTemplate(source).render([]);
    } catch (error) {
      if (!(error instanceof TemplateError)) return `${source}: ${(error as Error).stack ?? error}`;
    }
    const tookMs = performance.now() - startMs;
    return tookMs < MOST_MS ? null : `${source}: ${tookMs} ms`;
  }
}

function templateOf(random: Random): string {
  const value = chain(random, 0);
  const kind = random();
  if (kind < 0.6) return `{{ ${value} }}`;
  if (kind < 0.7)
    return `{% for i in range(${pick(random, ["3", "1000", "99999"])}) %}{% set x = ${value} %}{% endfor %}`;
  if (kind < 0.8) return `{% for i in ${value} %}{{ i }}{{ loop.cycle(i, ${chain(random, 2)}) }}{% endfor %}`;
  if (kind < 0.9) {
    const grow = pick(random, [`ns.t ~ ns.t`, `[ns.t, ns.t]`, `{1: ns.t, 2: ns.t}`, `(ns.t, ${chain(random, 2)})`]);
    const use = `ns.t|${call(random, pick(random, FILTER_NAMES), 2)}`;
    return `{% set ns = namespace(t=${value}) %}{% for i in range(40) %}{% set ns.t = ${grow} %}{% endfor %}{{ ${use} }}`;
  }
  return `{% if ${value} is ${call(random, pick(random, TEST_NAMES), 1)} %}1{% endif %}`;
}

/** A value, and what is done with it, one thing after another. */
function chain(random: Random, depth: number): string {
  let text = `(${pick(random, random() < 0.5 ? TEXTS : VALUES)})`;
  const length = depth > 1 ? 0 : 1 + Math.floor(random() * 2.5);
  for (let i = 0; i < length; i++) {
    const kind = random();
    if (kind < 0.55) text += `|${call(random, pick(random, FILTER_NAMES), depth)}`;
    else if (kind < 0.85)
      text = `(${text}).${call(random, pick(random, random() < 0.8 ? TEXT_NAMES : OTHER_NAMES), depth)}`;
    else if (kind < 0.92)
      text = `(${text})[${argument(random, depth)}:${argument(random, depth)}:${argument(random, depth)}]`;
    else text = `(${text} ${pick(random, ["*", "+", "~", "**", "%", "//", "in", "=="])} ${argument(random, depth)})`;
  }
  return text;
}

function call(random: Random, name: string, depth: number): string {
  const given = Array.from({ length: Math.floor(random() ** 2 * 4) }, () => argument(random, depth));
  if (random() < 0.1) given.push(`${pick(random, NAMES)}=${argument(random, depth)}`);
  return given.length === 0 && random() < 0.5 && FILTERS.has(name) ? name : `${name}(${given.join(", ")})`;
}

/** Of filters that apply others (map, select) the name of one, else a value. */
function argument(random: Random, depth: number): string {
  if (random() < 0.15) return `'${pick(random, [...FILTER_NAMES, ...TEST_NAMES])}'`;
  return random() < 0.85 ? pick(random, VALUES) : chain(random, depth + 1);
}
