// Questions about a JSON schema that need no grammar: which keywords it has, which types, where a reference leads, whether
// two alternatives can both hold, or a schema and the type beside it.

import { RequestError } from "../core/errors.js";

export type Schema = Readonly<Record<string, unknown>>;

/** Keywords that restrict values. One that is not handled where it stands is refused; all others are annotations. */
const RESTRICTING = new Set(
  `$ref $dynamicRef $recursiveRef type const enum anyOf oneOf allOf not if then else minimum maximum exclusiveMinimum
  exclusiveMaximum multipleOf minLength maxLength pattern format items prefixItems additionalItems minItems maxItems uniqueItems
  contains minContains maxContains properties required additionalProperties patternProperties propertyNames minProperties
  maxProperties dependencies dependentRequired dependentSchemas unevaluatedItems unevaluatedProperties nullable`.split(
    /\s+/,
  ),
);
/** Values of restricting keywords that restrict nothing. */
const IDLE: Readonly<Record<string, readonly unknown[]>> = {
  uniqueItems: [false],
  unevaluatedProperties: [true, false], // false: see closingOf
  unevaluatedItems: [true, false],
  minProperties: [0],
  nullable: [false],
  additionalItems: [true, false],
};
const TYPE_OF_KEYWORD: Readonly<Record<string, string>> = {
  properties: "object",
  required: "object",
  additionalProperties: "object",
  propertyNames: "object",
  items: "array",
  prefixItems: "array",
  minItems: "array",
  maxItems: "array",
  minLength: "string",
  maxLength: "string",
  pattern: "string",
  format: "string",
  minimum: "number",
  maximum: "number",
  exclusiveMinimum: "number",
  exclusiveMaximum: "number",
};

const MAX_COUNT = 100_000; // of minLength, maxItems and their like
const TYPES = ["object", "array", "string", "number", "integer", "boolean", "null"];

export function failSchema(path: string, reason: string): never {
  throw new RequestError("invalid_schema", { path, reason });
}

/** Of a schema that no value satisfies. Where something else may stand in its place, or nothing, it is left out. */
export class Contradiction extends RequestError {}

export function contradict(path: string, reason: string): never {
  throw new Contradiction("invalid_schema", { path, reason });
}

/** What is made; undefined where no value satisfies what it is made of. */
export function ifPossible<T>(make: () => T, note?: (reason: Contradiction) => void): T | undefined {
  try {
    return make();
  } catch (error) {
    if (!(error instanceof Contradiction)) throw error;
    note?.(error);
    return undefined;
  }
}

export function isSchemaObject(value: unknown): value is Schema {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function refuseKeywords(schema: Schema, handled: readonly string[], path: string): void {
  for (const [keyword, value] of Object.entries(schema)) {
    if (!RESTRICTING.has(keyword) || handled.includes(keyword) || IDLE[keyword]?.includes(value) === true) continue;
    throw new RequestError("invalid_schema", { path, reason: `the keyword ${keyword} is not supported here` });
  }
}

/**
 * The keywords by which a schema refuses all members that it does not describe. What it describes, it may describe by reference or
 * by choice: beside either they mean what they would mean within each schema that it leads to.
 */
export function closingOf(schema: Schema): Schema {
  const isClosing = (keyword: string) => schema[keyword] === false;
  return Object.fromEntries(["unevaluatedProperties", "unevaluatedItems"].filter(isClosing).map((key) => [key, false]));
}

/** A keyword that counts; null: it is not there. */
export function countOf(schema: Schema, keyword: string, path: string): number | null {
  const value = schema[keyword];
  if (value === undefined) return null;
  if (!Number.isInteger(value) || (value as number) < 0)
    failSchema(path, `${keyword} must be a whole number of at least 0`);
  if ((value as number) > MAX_COUNT) failSchema(path, `${keyword} ${value} exceeds ${MAX_COUNT}`);
  return value as number;
}

/** The types a schema names, or the one its keywords speak of; none: any value. */
export function typesOf(schema: Schema, path: string): readonly string[] {
  const { type } = schema;
  if (typeof type === "string") return [type];
  if (Array.isArray(type) && type.length > 0 && type.every((name) => typeof name === "string")) return type;
  if (type !== undefined)
    throw new RequestError("invalid_schema", { path, reason: "type must be a name or a list of names" });
  for (const keyword of Object.keys(schema)) {
    const implied = TYPE_OF_KEYWORD[keyword];
    if (implied !== undefined) return [implied];
  }
  return [];
}

/** The schema where its values must be of one of `types` too. Null is a value of what is nullable, but only among such types. */
export function narrowed(schema: Schema, types: readonly string[], path: string): Schema {
  const { nullable, ...others } = schema;
  const rest = nullable === true && types.includes("null") ? { ...others, nullable } : others;
  if (schema.type === undefined) return { type: types, ...rest };
  const own = knownTypes(schema, path);
  const type = [...new Set(own.flatMap((name) => types.flatMap((other) => common(name, other) ?? [])))];
  if (type.length > 0) return { ...rest, type };
  if (rest.nullable === true) return { type: "null" };
  return contradict(path, `its type ${own.join(" or ")} is not the type ${types.join(" or ")} that must hold too`);
}

/** The types a schema names. */
export function knownTypes(schema: Schema, path: string): readonly string[] {
  const types = typesOf(schema, path);
  const unknown = types.find((type) => !TYPES.includes(type));
  if (unknown !== undefined) failSchema(path, `the type ${JSON.stringify(unknown)} is not known`);
  return types;
}

/** The type of the values that are of both; null: there are none. */
function common(a: string, b: string): string | null {
  if (a === b) return a;
  return [a, b].sort().join() === "integer,number" ? "integer" : null;
}

export function resolvePointer(document: unknown, pointer: string, path: string): unknown {
  let target = document;
  for (const part of pointer.split("/").slice(1)) {
    const key = decodeURIComponentSafe(part).replaceAll("~1", "/").replaceAll("~0", "~");
    const isThere = typeof target === "object" && target !== null && Object.hasOwn(target, key);
    if (!isThere) throw new RequestError("invalid_schema", { path, reason: `$ref ${pointer} leads nowhere` });
    target = (target as Record<string, unknown>)[key];
  }
  return target;
}

function decodeURIComponentSafe(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** oneOf asks for exactly one: calls `refuse` unless the alternatives visibly exclude each other. */
export function disjointOr(options: readonly unknown[], document: unknown, refuse: (reason: string) => never): void {
  const resolved = options.map((option) => follow(option, document));
  for (let i = 0; i < resolved.length; i++) {
    for (let j = i + 1; j < resolved.length; j++) {
      if (!areDisjoint(resolved[i], resolved[j]))
        refuse(
          `oneOf: alternatives ${i} and ${j} may both hold; use anyOf, or tell them apart by type or a const property`,
        );
    }
  }
}

function follow(schema: unknown, document: unknown): unknown {
  let target = schema;
  for (let hops = 0; hops < 10 && isSchemaObject(target) && typeof target.$ref === "string"; hops++)
    target = resolvePointer(document, target.$ref, "oneOf");
  return target;
}

function areDisjoint(a: unknown, b: unknown): boolean {
  if (a === false || b === false) return true;
  if (!isSchemaObject(a) || !isSchemaObject(b)) return false;
  const valuesA = valuesOf(a);
  const valuesB = valuesOf(b);
  if (valuesA !== null && valuesB !== null) return !valuesA.some((value) => valuesB.includes(value));
  const typesA = kindsOf(a);
  const typesB = kindsOf(b);
  if (typesA.length > 0 && typesB.length > 0 && !typesA.some((type) => typesB.includes(type))) return true;
  if (!isSchemaObject(a.properties) || !isSchemaObject(b.properties)) return false;
  const requiredA = Array.isArray(a.required) ? a.required : [];
  const requiredB = Array.isArray(b.required) ? b.required : [];
  const [propsA, propsB] = [a.properties, b.properties];
  return requiredA.some((name) => requiredB.includes(name) && areDisjoint(propsA[name], propsB[name]));
}

/** The serialised values of an enum or const. */
function valuesOf(schema: Schema): readonly string[] | null {
  if (schema.const !== undefined) return [JSON.stringify(schema.const)];
  return Array.isArray(schema.enum) ? schema.enum.map((value) => JSON.stringify(value)) : null;
}

/** Types with integer counted as number, since both can hold. */
function kindsOf(schema: Schema): readonly string[] {
  if (schema.nullable === true) return [];
  return typesOf(schema, "oneOf").map((type) => (type === "integer" ? "number" : type));
}
