// JSON on one line as grammar: any value, any object, strings. One space after each comma and colon and none elsewhere, so that
// no output can wander off into white space.

import { boundedRest, exactlyMany } from "./bounded-string.js";
import { charAlternatives } from "./char-set.js";
import { ANY, BEYOND_BASIC_PLANE, type CodePoints, subtract } from "./code-points.js";
import { FREE_NUMBER } from "./number-regex.js";
import { regexNode } from "./regex-node.js";
import { regularRule } from "./regular-rule.js";
import type { RuleSet } from "./rules.js";

/** What may stand in a JSON string as it is. */
export const PLAIN: CodePoints = subtract(ANY, [
  [0, 0x1f],
  [0x22, 0x22],
  [0x5c, 0x5c],
]);

// Not a surrogate: a pair of escapes could otherwise be cut in half.
const ESCAPES = [
  '"\\\\" ["\\\\/bfnrt]',
  '"\\\\u" [0-9a-cefA-CEF] [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F]',
  '"\\\\u" [dD] [0-7] [0-9a-fA-F] [0-9a-fA-F]',
];
const ANY_CHAR = [...charAlternatives(PLAIN), ...ESCAPES];
/**
 * Without the characters beyond the basic plane. JSON Schema counts code points, JavaScript counts UTF-16 units: in strings of
 * bounded length only characters that both count as one are offered.
 */
const BASIC_CHAR = [...charAlternatives(subtract(PLAIN, BEYOND_BASIC_PLANE)), ...ESCAPES];

export function stringRule(rules: RuleSet, minLength = 0, maxLength: number | null = null): string {
  if (minLength === 0 && maxLength === null) return rules.define("json_string", `"\\"" ${freeRest(rules)}`);
  const rest =
    maxLength === null
      ? `${exactlyMany(rules, BASIC_CHAR, minLength)} ${freeRest(rules)}`
      : boundedRest(rules, BASIC_CHAR, minLength, maxLength);
  return rules.define(`json_string_${minLength}_${maxLength ?? "any"}`, `"\\"" ${rest}`);
}

/** Characters to the closing quote. */
function freeRest(rules: RuleSet): string {
  return rules.define("json_rest", ['"\\""', ...ANY_CHAR.map((char) => `${char} json_rest`)].join(" | "));
}

export function valueRule(rules: RuleSet): string {
  if (rules.has("json_value")) return "json_value";
  rules.define("json_value", 'json_object | json_array | json_string | json_number | "true" | "false" | "null"');
  rules.define("json_number", regularRule(rules, "number", regexNode(FREE_NUMBER, false)));
  rules.define("json_array", '"[" (json_value (", " json_value)*)? "]"');
  stringRule(rules);
  rules.define("json_member", 'json_string ": " json_value');
  rules.define("json_object", '"{" (json_member (", " json_member)*)? "}"');
  return "json_value";
}

export function objectRule(rules: RuleSet): string {
  valueRule(rules);
  return "json_object";
}

/** A value of an enum or a const, written as the grammar writes all else. */
export function jsonText(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(jsonText).join(", ")}]`;
  if (typeof value === "object" && value !== null)
    return `{${Object.entries(value)
      .map(([key, item]) => `${JSON.stringify(key)}: ${jsonText(item)}`)
      .join(", ")}}`;
  return JSON.stringify(value);
}
