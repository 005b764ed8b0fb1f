// A Jinja template in the environment that Hugging Face's tokenizers give chat templates: trim_blocks, lstrip_blocks, break and
// continue, the generation tag, tojson without HTML escapes, raise_exception, strftime_now, and the sandbox that keeps values from
// being changed. Renders what Python's jinja2 renders, or fails where it fails.

import { Budget, spend, TemplateError } from "./errors.js";
import { Evaluator } from "./evaluator.js";
import { FILTERS } from "./filters/filters.js";
import { TESTS } from "./filters/tests.js";
import { makeGlobals } from "./globals.js";
import { Scope } from "./scope.js";
import type { Node } from "./syntax/nodes.js";
import { parseTemplate } from "./syntax/parser.js";
import { Text } from "./values/text.js";
import type { Value } from "./values/values.js";

const KNOWN = { filters: new Set(FILTERS.keys()), tests: new Set(TESTS.keys()) };

export class JinjaTemplate {
  readonly #nodes: readonly Node[];

  /** Throws TemplateError for what is no template. */
  constructor(source: string) {
    this.#nodes = guardStack(() => parseTemplate(source, KNOWN));
  }

  /** Throws TemplateError when the template fails, refuses or runs away; LongRendering when it takes more than the glance it was given. */
  render(
    variables: Iterable<readonly [string, Value]>,
    now: () => Date = () => new Date(),
    { isGlance = false } = {},
  ): Text {
    const scope = new Scope(null);
    for (const [name, value] of makeGlobals(now)) scope.set(name, value);
    for (const [name, value] of variables) scope.set(name, value);
    return guardStack(() => {
      const evaluator = new Evaluator(new Budget(isGlance));
      return spend(evaluator.budget, () => {
        const out: Text[] = [];
        evaluator.run(this.#nodes, scope, out);
        return Text.join(out);
      });
    });
  }
}

function guardStack<T>(body: () => T): T {
  try {
    return body();
  } catch (error) {
    if (error instanceof RangeError) throw new TemplateError("the template is nested too deeply");
    throw error;
  }
}
