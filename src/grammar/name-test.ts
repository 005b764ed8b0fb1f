// Which names propertyNames lets described properties have. They are known, so that all of them can be tried, where the grammar of a
// key would be narrower than the schema: a pattern need only match somewhere. Keywords that are not known here are refused, whatever
// the names are.

import { RequestError } from "../core/errors.js";
import { parseRegex, type RegexNode } from "./regex-parser.js";
import { searchRegex } from "./regex-search.js";
import {
  countOf,
  failSchema as fail,
  isSchemaObject,
  knownTypes,
  refuseKeywords,
  resolvePointer,
  type Schema,
} from "./schema-shape.js";
import { formatRegex } from "./string-formats.js";

export type NameTest = (name: string) => boolean;

const MAX_DEPTH = 40;
const MAX_WORK = 2_000_000; // of patterns, over all of a schema's names: a few tenths of a second
const CHOICES = ["anyOf", "oneOf", "allOf"];
const KEYWORDS = "$ref type nullable const enum minLength maxLength pattern format".split(" ").concat(CHOICES);

/** The tests of one document. */
export class NameTests {
  readonly #document: unknown;
  readonly #budget = { work: MAX_WORK };
  /** Of what is referred to; null while it is being made. */
  readonly #byPointer = new Map<string, NameTest | null>();

  constructor(document: unknown) {
    this.#document = document;
  }

  of(schema: unknown, path: string, depth = 0): NameTest {
    if (depth > MAX_DEPTH) fail(path, `it is nested deeper than ${MAX_DEPTH}`);
    if (typeof schema === "boolean") return () => schema;
    if (!isSchemaObject(schema)) return fail(path, "a schema must be an object");
    if (schema.type !== undefined && !knownTypes(schema, path).includes("string")) return () => false;
    refuseKeywords(schema, KEYWORDS, path);
    const tests = [valuesTest(schema, path), lengthTest(schema, path), this.#pattern(schema, path)];
    for (const keyword of CHOICES) tests.push(this.#choice(schema[keyword], keyword, path, depth));
    if (schema.$ref !== undefined) tests.push(this.#reference(schema.$ref, path, depth));
    const needed = tests.filter((test) => test !== null);
    return (name) => needed.every((test) => test(name));
  }

  #choice(options: unknown, keyword: string, path: string, depth: number): NameTest | null {
    if (options === undefined) return null;
    if (!Array.isArray(options) || options.length === 0)
      return fail(path, `${keyword} must be a list of at least one schema`);
    const tests = options.map((option, i) => this.of(option, `${path}/${keyword}/${i}`, depth + 1));
    return (name) => {
      const numHolding = tests.filter((test) => test(name)).length;
      if (keyword === "anyOf") return numHolding > 0;
      return numHolding === (keyword === "oneOf" ? 1 : tests.length);
    };
  }

  #reference(pointer: unknown, path: string, depth: number): NameTest {
    if (typeof pointer !== "string" || !/^#(\/|$)/.test(pointer))
      return fail(path, `$ref ${String(pointer)} is not local`);
    const known = this.#byPointer.get(pointer);
    if (known === null) fail(path, `$ref ${pointer} refers to itself with nothing between`);
    if (known !== undefined) return known;
    this.#byPointer.set(pointer, null);
    const made = once(this.of(resolvePointer(this.#document, pointer, path), pointer, depth + 1));
    this.#byPointer.set(pointer, made);
    return made;
  }

  #pattern(schema: Schema, path: string): NameTest | null {
    const node = patternOf(schema, path);
    if (node === null) return null;
    return (name) =>
      searchRegex(node, name, this.#budget) ??
      fail(path, "the pattern takes too long to try on the described properties");
  }
}

/** References to references may ask for the same name more often than anybody can wait for. */
function once(test: NameTest): NameTest {
  let last: { readonly name: string; readonly holds: boolean } | null = null;
  return (name) => {
    if (last?.name !== name) last = { name, holds: test(name) };
    return last.holds;
  };
}

function valuesTest({ const: only, enum: values }: Schema, path: string): NameTest | null {
  if (values !== undefined && (!Array.isArray(values) || values.length === 0))
    return fail(path, "enum must be a list of at least one value");
  if (only === undefined && values === undefined) return null;
  const names = new Set<unknown>((values as unknown[] | undefined) ?? [only]);
  return (name) => names.has(name) && (only === undefined || name === only);
}

/** JSON Schema counts code points, JavaScript counts UTF-16 units: both must do. */
function lengthTest(schema: Schema, path: string): NameTest | null {
  const min = countOf(schema, "minLength", path) ?? 0;
  const max = countOf(schema, "maxLength", path) ?? Number.POSITIVE_INFINITY;
  return (name) => [...name].length >= min && name.length <= max;
}

/** As in values, a format speaks where there is no pattern, or none that is understood. */
function patternOf({ pattern, format }: Schema, path: string): RegexNode | null {
  const known = formatRegex(format);
  const ofFormat = known === undefined ? null : parseRegex(`^(${known})$`);
  if (pattern === undefined) return ofFormat;
  if (typeof pattern !== "string") return fail(path, "pattern must be a string");
  try {
    return parseRegex(pattern);
  } catch (error) {
    if (!(error instanceof RequestError)) throw error;
    return ofFormat ?? fail(path, `pattern: ${String(error.details.reason)}`);
  }
}
