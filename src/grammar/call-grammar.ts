// Tool calls as grammar: one to some calls of the given tools, with arguments valid under their schemas.

import { RequestError } from "../core/errors.js";
import { literal, type RuleSet, repeat } from "./rules.js";
import { schemaRule } from "./schema-grammar.js";

/** The parts of a forced call around its name and arguments. */
export interface CallShape {
  readonly open: string;
  readonly separator: string;
  readonly close: string;
  readonly argumentsKey: "arguments" | "parameters";
  /** Around all calls together. */
  readonly before: string;
  readonly after: string;
}

/** What the source of a constraint of the kind `tool_calls` says, as JSON. */
export interface CallsSource {
  readonly shape: CallShape;
  readonly maxCalls: number;
  /** `param`: the field that errors about the schema of its arguments name. */
  readonly tools: readonly { readonly name: string; readonly parameters: unknown; readonly param: string }[];
}

/** Adds the rules of 1 to `maxCalls` calls and returns the name of theirs. */
export function callsRule(rules: RuleSet, { shape, maxCalls, tools }: CallsSource): string {
  const alternatives = tools.map(({ name, parameters, param }, i) => {
    const head = literal(`${shape.open}{"name": ${JSON.stringify(name)}, "${shape.argumentsKey}": `);
    return `${head} ${argumentsRule(rules, parameters, `tool_${i}`, param)} ${literal(`}${shape.close}`)}`;
  });
  const call = rules.add("call", alternatives.join(" | "));
  const more = maxCalls > 1 ? repeat(`(${literal(shape.separator)} ${call})`, 0, maxCalls - 1) : "";
  return rules.add("calls", `${quoted(shape.before)} ${call} ${more} ${quoted(shape.after)}`);
}

function argumentsRule(rules: RuleSet, schema: unknown, hint: string, param: string): string {
  try {
    return schemaRule(rules, schema, hint);
  } catch (error) {
    if (!(error instanceof RequestError)) throw error;
    throw new RequestError("invalid_schema", { ...error.details, param });
  }
}

function quoted(text: string): string {
  return text === "" ? "" : literal(text);
}
