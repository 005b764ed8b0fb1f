// Arguments of a call matched with a function's parameters, by place or by name.

import { TemplateError } from "./errors.js";
import { isTrue, toIndex } from "./values/semantics.js";
import { Text } from "./values/text.js";
import { type Arguments, typeName, type Value } from "./values/values.js";

/** The values in the order of `parameters`, undefined where none was given. Those without a name are given by place alone. */
export function bind(
  name: string,
  args: Arguments,
  parameters: readonly (string | null)[],
  numNeeded = 0,
): (Value | undefined)[] {
  if (args.positional.length > parameters.length) {
    throw new TemplateError(`${name}() takes ${atMost(parameters.length)} (${args.positional.length} given)`);
  }
  const values: (Value | undefined)[] = [...args.positional];
  for (const [key, value] of args.named) {
    const at = parameters.indexOf(key);
    if (at < 0) throw new TemplateError(`${name}() got an unexpected keyword argument '${key}'`);
    if (values[at] !== undefined) throw new TemplateError(`${name}() got multiple values for argument '${key}'`);
    values[at] = value;
  }
  for (let i = 0; i < numNeeded; i++) {
    if (values[i] !== undefined) continue;
    const missing = parameters[i] === null ? "an argument" : `required argument '${parameters[i]}'`;
    throw new TemplateError(`${name}() missing ${missing}`);
  }
  return values;
}

function atMost(count: number): string {
  return count === 0 ? "no arguments" : `at most ${count} argument${count === 1 ? "" : "s"}`;
}

export function toText(value: Value | undefined, what: string): Text {
  if (value instanceof Text) return value;
  throw new TemplateError(`${what} must be str, not ${value === undefined ? "nothing" : typeName(value)}`);
}

export const indexOr = (value: Value | undefined, fallback: number): number =>
  value === undefined ? fallback : toIndex(value);

export const trueOr = (value: Value | undefined, fallback: boolean): boolean =>
  value === undefined ? fallback : isTrue(value);
