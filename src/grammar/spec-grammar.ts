// A constraint as the EBNF text that the matcher compiles. A hostile source may take long: this runs in a matcher's thread.

import { RequestError } from "../core/errors.js";
import { RecentMap } from "../core/recent-map.js";
import { type CallsSource, callsRule } from "./call-grammar.js";
import type { ConstraintSpec } from "./constraint.js";
import { valueRule } from "./json-grammar.js";
import { regexNode } from "./regex-node.js";
import { regularRule } from "./regular-rule.js";
import { RuleSet } from "./rules.js";
import { schemaRule } from "./schema-grammar.js";

const MAX_SOURCE = 200_000; // characters
/** A request's grammar is asked for several times on its way. */
const MAX_RECENT = 32;
const recent = new RecentMap<string, string>(MAX_RECENT);

/** Throws RequestError for what cannot be promised. The root rule is `root`. */
export function grammarOf(spec: ConstraintSpec): string {
  const key = `${spec.kind} ${spec.source}`;
  let grammar = recent.get(key);
  if (grammar === undefined) {
    grammar = makeGrammar(spec);
    recent.set(key, grammar);
  }
  return grammar;
}

function makeGrammar(spec: ConstraintSpec): string {
  if (spec.source.length > MAX_SOURCE)
    throw new RequestError("invalid_value", {
      value: `${spec.source.length} characters`,
      expected: `at most ${MAX_SOURCE} characters`,
    });
  const rules = new RuleSet();
  switch (spec.kind) {
    case "grammar":
      return spec.source;
    case "regex":
      return `root ::= ${regularRule(rules, "regex", regexNode(spec.source, false))}\n${rules}`;
    case "json":
      return `root ::= ${valueRule(rules)}\n${rules}`;
    case "json_schema":
      return `root ::= ${schemaRule(rules, parseSchema(spec.source))}\n${rules}`;
    case "tool_calls":
      return `root ::= ${callsRule(rules, JSON.parse(spec.source) as CallsSource)}\n${rules}`;
    case "any":
      throw new Error("any text has no grammar");
  }
}

function parseSchema(source: string): unknown {
  try {
    return JSON.parse(source);
  } catch (error) {
    throw new RequestError("invalid_schema", { path: "#", reason: `it is not JSON: ${(error as Error).message}` });
  }
}
