// The schemas whose values are a regular set: constants, numbers within bounds, booleans, null, strings with a pattern or a known
// format. They are kept as sets as long as possible, since alternatives among them must be joined (see automaton.ts).

import { RequestError } from "../core/errors.js";
import { jsonText } from "./json-grammar.js";
import { integerRegex, type NumberBounds, numberRegex } from "./number-regex.js";
import { regexNode } from "./regex-node.js";
import { type RegularNode, textNode } from "./regular-node.js";
import { contradict, failSchema as fail, ifPossible, refuseKeywords, type Schema, typesOf } from "./schema-shape.js";
import { formatRegex } from "./string-formats.js";

const MAX_VALUES = 2000;
const NUMBER_KEYWORDS = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"];

/** null: the schema's values are no regular set, or it names several types. */
export function regularSchema(schema: Schema, path: string): RegularNode | null {
  if (schema.nullable !== true) return withoutNull(schema, path);
  const node = ifPossible(() => withoutNull(schema, path));
  if (node === null) return null;
  return { kind: "choice", nodes: [...(node === undefined ? [] : [node]), textNode("null")] };
}

function withoutNull(schema: Schema, path: string): RegularNode | null {
  if (
    schema.$ref !== undefined ||
    schema.anyOf !== undefined ||
    schema.oneOf !== undefined ||
    schema.allOf !== undefined
  )
    return null;
  if (schema.const !== undefined || schema.enum !== undefined) return valuesNode(schema, path);
  const types = typesOf(schema, path);
  if (types.length !== 1) return null;
  const used = new Set(["type", "nullable"]);
  const node = typedNode(types[0]!, schema, path, used);
  if (node !== null) refuseKeywords(schema, [...used], path);
  return node;
}

/** The schema's values of one type; adds the keywords it heeds to `used`. null: no regular set. */
export function typedNode(type: string, schema: Schema, path: string, used: Set<string>): RegularNode | null {
  switch (type) {
    case "null":
      return textNode("null");
    case "boolean":
      return { kind: "choice", nodes: [textNode("true"), textNode("false")] };
    case "integer":
    case "number": {
      for (const keyword of NUMBER_KEYWORDS) used.add(keyword);
      const regex = (type === "integer" ? integerRegex : numberRegex)(boundsOf(schema, path));
      return regexNode(regex ?? contradict(path, "its bounds exclude all numbers"), false);
    }
    case "string":
      return stringNode(schema, path, used);
    default:
      return null;
  }
}

function valuesNode(schema: Schema, path: string): RegularNode {
  refuseKeywords(schema, ["const", "enum", "type", "nullable"], path);
  let values: unknown = schema.const !== undefined ? [schema.const] : schema.enum;
  if (!Array.isArray(values) || values.length === 0) return fail(path, "enum must be a list of at least one value");
  if (values.length > MAX_VALUES) fail(path, `enum has ${values.length} values, at most ${MAX_VALUES} are taken`);
  const types = schema.type === undefined ? null : typesOf(schema, path);
  if (types !== null) values = values.filter((value) => types.some((type) => isOfType(value, type)));
  if ((values as unknown[]).length === 0) contradict(path, "no value of enum is of the type");
  const texts = (values as unknown[]).filter((value) => !hasUnevaluated(value, schema)).map(jsonText);
  if (texts.length === 0) contradict(path, "every value of enum has members that nothing evaluates");
  return { kind: "choice", nodes: texts.map(textNode) };
}

/** Whether the schema refuses undescribed members and the value has some: enum and const describe none. */
function hasUnevaluated(value: unknown, schema: Schema): boolean {
  if (typeof value !== "object" || value === null) return false;
  const keyword = Array.isArray(value) ? "unevaluatedItems" : "unevaluatedProperties";
  return schema[keyword] === false && Object.keys(value).length > 0;
}

function stringNode(schema: Schema, path: string, used: Set<string>): RegularNode | null {
  const { pattern, format } = schema;
  const known = formatRegex(format);
  if (pattern === undefined && known === undefined) return null;
  for (const keyword of ["pattern", "format"]) used.add(keyword);
  if (schema.minLength !== undefined || schema.maxLength !== undefined)
    fail(path, "minLength and maxLength beside pattern or format are not supported; put the length into the pattern");
  const quote = textNode('"');
  return { kind: "sequence", nodes: [quote, patternNode(pattern, known, path), quote] };
}

function patternNode(pattern: unknown, format: string | undefined, path: string): RegularNode {
  if (pattern === undefined) return regexNode(format!, true);
  if (typeof pattern !== "string") return fail(path, "pattern must be a string");
  try {
    return regexNode(pattern, true);
  } catch (error) {
    // Schema generators put a format's own definition beside it, often one with look-ahead: then the format speaks.
    if (format !== undefined) return regexNode(format, true);
    if (error instanceof RequestError) return fail(path, `pattern: ${String(error.details.reason)}`);
    throw error;
  }
}

function boundsOf(schema: Schema, path: string): NumberBounds {
  const bounds: Record<string, number> = {};
  for (const keyword of NUMBER_KEYWORDS) {
    const value = schema[keyword];
    if (value === undefined) continue;
    if (typeof value !== "number" || !Number.isFinite(value)) return fail(path, `${keyword} must be a number`);
    bounds[keyword] = value;
  }
  return bounds;
}

function isOfType(value: unknown, type: string): boolean {
  if (type === "integer") return Number.isInteger(value);
  if (type === "null") return value === null;
  if (type === "array") return Array.isArray(value);
  // JSON Schema's names of the other types are JavaScript's.
  return typeof value === type && value !== null && !Array.isArray(value);
}
