// A JSON schema as grammar. Whatever the grammar accepts is valid under the schema; a keyword that it could not honour is
// refused by name, never ignored. Properties come in the order of the schema, required ones always, others at the model's choice.
// What no value satisfies is left out where something else may stand there, or nothing; else the schema is refused.

import { objectRule, stringRule, valueRule } from "./json-grammar.js";
import { type NameTest, NameTests } from "./name-test.js";
import { otherKeyRule } from "./other-key.js";
import type { RegularNode } from "./regular-node.js";
import { regularRule } from "./regular-rule.js";
import { regularSchema, typedNode } from "./regular-schema.js";
import { literal, type RuleSet, repeat } from "./rules.js";
import {
  Contradiction,
  closingOf,
  contradict,
  countOf,
  disjointOr,
  failSchema as fail,
  ifPossible,
  isSchemaObject,
  knownTypes,
  narrowed,
  refuseKeywords,
  resolvePointer,
  type Schema,
  typesOf,
} from "./schema-shape.js";

const MAX_DEPTH = 40; // the matcher's stack is small; deeper schemas overflow it
const MAX_SIZE = 400_000; // characters of grammar
const ALL_TYPES = ["object", "array", "string", "number", "boolean", "null"];

/** Adds the schema's rules and returns the name of the rule that matches a value. */
export function schemaRule(rules: RuleSet, document: unknown, hint = "schema"): string {
  return new SchemaGrammar(rules, document, hint).rule(document, "#", 0);
}

class SchemaGrammar {
  readonly #rules: RuleSet;
  readonly #document: unknown;
  readonly #hint: string;
  readonly #nameTests: NameTests;
  /** Rules of what is referred to, by how the reference closes it and its pointer. */
  readonly #byReference = new Map<string, string>();
  /** Of those that no value satisfies, why. */
  readonly #impossible = new Map<string, Contradiction>();
  /** References being expanded with no character between them: meeting one again would never end. */
  #leading: readonly string[] = [];

  constructor(rules: RuleSet, document: unknown, hint: string) {
    this.#rules = rules;
    this.#document = document;
    this.#hint = hint;
    this.#nameTests = new NameTests(document);
  }

  rule(schema: unknown, path: string, depth: number): string {
    if (depth > MAX_DEPTH) fail(path, `it is nested deeper than ${MAX_DEPTH}`);
    if (this.#rules.size > MAX_SIZE) fail(path, "it is too large");
    if (schema === true) return valueRule(this.#rules);
    if (schema === false) contradict(path, "false accepts no value");
    if (!isSchemaObject(schema)) fail(path, "a schema must be an object");
    return this.#rules.add(this.#hint, this.#body(schema, path, depth));
  }

  #body(schema: Schema, path: string, depth: number): string {
    const node = regularSchema(schema, path);
    if (node !== null) return this.#regular([node]);
    if (schema.nullable !== true) return this.#withoutNull(schema, path, depth);
    const body = ifPossible(() => this.#withoutNull(schema, path, depth));
    return body === undefined ? '"null"' : `${body} | "null"`;
  }

  #withoutNull(schema: Schema, path: string, depth: number): string {
    if (schema.$ref !== undefined) {
      refuseKeywords(schema, ["$ref", "nullable"], path);
      return this.#reference(schema.$ref, closingOf(schema), path, depth);
    }
    const choice = schema.anyOf ?? schema.oneOf ?? schema.allOf;
    if (choice !== undefined) return this.#choice(schema, choice, path, depth);
    let types = typesOf(schema, path);
    if (types.length === 0) {
      refuseKeywords(schema, ["nullable"], path);
      if (Object.keys(closingOf(schema)).length === 0) return valueRule(this.#rules);
      types = ALL_TYPES;
    }
    const used = new Set<string>(["type", "nullable"]);
    const nodes: RegularNode[] = [];
    const bodies: string[] = [];
    const reasons: Contradiction[] = [];
    const add = (type: string): void => {
      const node = typedNode(type, schema, path, used);
      if (node !== null) nodes.push(node);
      else bodies.push(this.#structured(type, schema, path, depth, used));
    };
    for (const type of types)
      ifPossible(
        () => add(type),
        (reason) => reasons.push(reason),
      );
    refuseKeywords(schema, [...used], path);
    if (reasons.length === types.length) throw reasons[0];
    return [...bodies, ...(nodes.length > 0 ? [this.#regular(nodes)] : [])].join(" | ");
  }

  /** One rule for all of them, so that no two of its alternatives begin alike. */
  #regular(nodes: readonly RegularNode[]): string {
    return regularRule(this.#rules, this.#hint, { kind: "choice", nodes });
  }

  #reference(pointer: unknown, closing: Schema, path: string, depth: number): string {
    if (typeof pointer !== "string" || !/^#(\/|$)/.test(pointer)) fail(path, `$ref ${String(pointer)} is not local`);
    if (this.#leading.includes(pointer)) fail(path, `$ref ${pointer} refers to itself with nothing between`);
    const key = `${Object.keys(closing)} ${pointer}`;
    const known = this.#byReference.get(key);
    if (known !== undefined) return known;
    const impossible = this.#impossible.get(key);
    if (impossible !== undefined) throw impossible;
    const target = resolvePointer(this.#document, pointer, path);
    const name = this.#rules.freshName(this.#hint);
    const numBefore = this.#byReference.size;
    this.#byReference.set(key, name);
    this.#rules.define(name, "pending"); // the name is taken before the body refers to it
    const outer = this.#leading;
    this.#leading = [...outer, pointer];
    const made = ifPossible(
      () => this.#target(target, closing, pointer, depth),
      (reason) => this.#impossible.set(key, reason),
    );
    this.#leading = outer;
    this.#rules.replace(name, made ?? '""');
    if (made !== undefined) return name;
    // What was made meanwhile may refer to it: it is made anew where it is needed, and this rule is left to nobody.
    for (const later of [...this.#byReference.keys()].slice(numBefore)) this.#byReference.delete(later);
    throw this.#impossible.get(key)!;
  }

  #target(target: unknown, closing: Schema, pointer: string, depth: number): string {
    if (target === true) return this.#body(closing, pointer, depth + 1);
    if (isSchemaObject(target)) return this.#body({ ...closing, ...target }, pointer, depth + 1);
    return target === false
      ? contradict(pointer, "false accepts no value")
      : fail(pointer, "a schema must be an object");
  }

  #choice(schema: Schema, options: unknown, path: string, depth: number): string {
    const keyword = schema.anyOf !== undefined ? "anyOf" : schema.oneOf !== undefined ? "oneOf" : "allOf";
    refuseKeywords(schema, [keyword, "type", "nullable"], path);
    if (!Array.isArray(options) || options.length === 0) fail(path, `${keyword} must be a list of at least one schema`);
    if (keyword === "allOf" && options.length > 1) fail(path, "allOf with more than one schema is not supported");
    if (keyword === "oneOf") disjointOr(options, this.#document, (reason) => fail(path, reason));
    // A type beside the choice holds for each of its schemas, and so does what closes them.
    const types = schema.type === undefined ? null : knownTypes(schema, path);
    const nodes: RegularNode[] = [];
    const names: string[] = [];
    const reasons: Contradiction[] = [];
    const add = (option: unknown, at: string): void => {
      const own = option === true ? {} : option;
      const typed = isSchemaObject(own) && types !== null ? narrowed(own, types, at) : own;
      const merged = isSchemaObject(typed) ? { ...closingOf(schema), ...typed } : typed;
      const node = isSchemaObject(merged) ? regularSchema(merged, at) : null;
      if (node !== null) nodes.push(node);
      else names.push(this.rule(merged, at, depth + 1));
    };
    for (const [i, option] of (options as unknown[]).entries())
      ifPossible(
        () => add(option, `${path}/${keyword}/${i}`),
        (reason) => reasons.push(reason),
      );
    if (reasons.length === options.length) throw noneOf(keyword, reasons, path);
    if (nodes.length > 0) names.push(this.#regular(nodes));
    return names.join(" | ");
  }

  #structured(type: string, schema: Schema, path: string, depth: number, used: Set<string>): string {
    const take = (...keywords: string[]): void => {
      for (const keyword of keywords) used.add(keyword);
    };
    switch (type) {
      case "string":
        take("minLength", "maxLength", "format"); // a format that is not known is an annotation
        return this.#string(schema, path);
      case "array":
        take("items", "prefixItems", "minItems", "maxItems");
        return this.#inBrackets(() => this.#array(schema, path, depth));
      case "object":
        take("properties", "required", "additionalProperties", "propertyNames");
        return this.#inBrackets(() => this.#object(schema, path, depth));
      default:
        return fail(path, `the type ${JSON.stringify(type)} is not known`);
    }
  }

  #inBrackets(build: () => string): string {
    const outer = this.#leading;
    this.#leading = [];
    try {
      return build();
    } finally {
      this.#leading = outer;
    }
  }

  #string(schema: Schema, path: string): string {
    const min = countOf(schema, "minLength", path) ?? 0;
    const max = countOf(schema, "maxLength", path);
    if (max !== null && max < min) contradict(path, `minLength ${min} exceeds maxLength ${max}`);
    return stringRule(this.#rules, min, max);
  }

  #array(schema: Schema, path: string, depth: number): string {
    const min = countOf(schema, "minItems", path) ?? 0;
    const max = countOf(schema, "maxItems", path);
    if (max !== null && max < min) contradict(path, `minItems ${min} exceeds maxItems ${max}`);
    const isOldTuple = Array.isArray(schema.items);
    const prefix = (isOldTuple ? schema.items : schema.prefixItems) ?? [];
    if (!Array.isArray(prefix)) fail(path, "prefixItems must be a list");
    if (max !== null && max < prefix.length)
      fail(path, `maxItems ${max} is less than its ${prefix.length} prefixItems`);
    const fixed = this.#prefix(prefix, min, path, depth);
    const isCut = fixed.length < prefix.length;
    const rest = isCut ? false : isOldTuple ? undefined : orClosed(schema.items, schema.unevaluatedItems);
    const hasRest = rest !== false && (rest !== undefined || fixed.length === 0);
    const restMin = Math.max(0, min - fixed.length);
    if (!hasRest && restMin > 0)
      (rest === false ? contradict : fail)(path, `minItems ${min} exceeds the items that are described`);
    const restMax = !hasRest ? 0 : max === null ? null : max - fixed.length;
    const only = fixed.length === 0 ? '"[]"' : `"[" ${fixed.join(' ", " ')} "]"`;
    if (restMax === 0) return only;
    const item = orLeftOut(restMin > 0, () => this.rule(rest ?? true, `${path}/items`, depth + 1));
    if (item === undefined) return only;
    const more = (least: number, most: number | null) => repeat(`(", " ${item})`, least, most);
    if (fixed.length > 0) return `"[" ${fixed.join(' ", " ')} ${more(restMin, restMax)} "]"`;
    const list = `${item} ${more(Math.max(0, restMin - 1), restMax === null ? null : restMax - 1)}`;
    return restMin > 0 ? `"[" ${list} "]"` : `"[" (${list})? "]"`;
  }

  /** The first items, up to one that no value can be: arrays end before it. */
  #prefix(items: readonly unknown[], min: number, path: string, depth: number): string[] {
    const rules: string[] = [];
    for (const [i, item] of items.entries()) {
      const rule = orLeftOut(i < min, () => this.rule(item, `${path}/prefixItems/${i}`, depth + 1));
      if (rule === undefined) break;
      rules.push(rule);
    }
    return rules;
  }

  #object(schema: Schema, path: string, depth: number): string {
    const properties = schema.properties ?? {};
    if (!isSchemaObject(properties)) fail(path, "properties must be an object");
    const required = schema.required ?? [];
    if (!Array.isArray(required)) fail(path, "required must be a list of names");
    const additional = orClosed(schema.additionalProperties, schema.unevaluatedProperties);
    const names = Object.keys(properties);
    for (const name of required)
      if (!names.includes(name as string))
        (additional === false ? contradict : fail)(
          path,
          `the required property ${JSON.stringify(name)} is not described`,
        );
    if (names.length === 0 && additional === undefined && schema.propertyNames === undefined)
      return objectRule(this.#rules);

    const members: string[] = [];
    const isRequired: boolean[] = [];
    const isAllowed = this.#nameTest(schema, names, path);
    for (const name of names) {
      const isNeeded = required.includes(name);
      if (!isAllowed(name)) {
        if (isNeeded) contradict(path, `propertyNames excludes the required property ${JSON.stringify(name)}`);
        continue;
      }
      const make = () => this.rule(properties[name], `${path}/properties/${name}`, depth + 1);
      const value = orLeftOut(isNeeded, make);
      if (value === undefined) continue;
      members.push(`${literal(`${JSON.stringify(name)}: `)} ${value}`);
      isRequired.push(isNeeded);
    }
    const isOpen = additional !== undefined ? additional !== false : names.length === 0;
    const other = isOpen ? ifPossible(() => this.#otherMember(schema, names, additional ?? true, path, depth)) : null;
    return this.#members(members, isRequired, other ?? null);
  }

  #nameTest({ propertyNames }: Schema, names: readonly string[], path: string): NameTest {
    if (propertyNames === undefined || names.length === 0) return () => true;
    return this.#nameTests.of(propertyNames, `${path}/propertyNames`);
  }

  #otherMember(schema: Schema, names: readonly string[], additional: unknown, path: string, depth: number): string {
    const { propertyNames } = schema;
    const isFree = propertyNames === undefined || propertyNames === true || isPlainStringSchema(propertyNames);
    if (!isFree && names.length > 0) fail(path, "propertyNames beside properties is not supported");
    const at = `${path}/propertyNames`;
    const key = isFree
      ? otherKeyRule(this.#rules, this.#hint, names)
      : this.rule(
          isSchemaObject(propertyNames) ? narrowed(propertyNames, ["string"], at) : propertyNames,
          at,
          depth + 1,
        );
    return `${key} ": " ${this.rule(additional, `${path}/additionalProperties`, depth + 1)}`;
  }

  /**
   * `from` matches one of the members i.. and what may follow it; `rest` what may follow member i - 1. Each member is a rule of its
   * own and no rule that may be empty leads to another: the matcher prepares hundreds of optional members in a moment that way.
   */
  #members(members: readonly string[], isRequired: readonly boolean[], other: string | null): string {
    const rules = this.#rules;
    let rest = other === null ? null : rules.add(this.#hint, `(", " ${other})*`); // null: nothing
    let from = other === null ? null : rules.add(this.#hint, `${other} ${rest}`);
    let canEnd = true;
    for (let i = members.length - 1; i >= 0; i--) {
      const member = rules.add(this.#hint, members[i]!);
      const here = `${member} ${rest ?? ""}`.trim();
      canEnd &&= !isRequired[i];
      from = rules.add(this.#hint, isRequired[i] || from === null ? here : `${here} | ${from}`);
      rest = rules.add(this.#hint, canEnd ? `"" | ", " ${from}` : `", " ${from}`);
    }
    if (from === null) return '"{}"';
    return canEnd ? `"{" (${from})? "}"` : `"{" ${from} "}"`;
  }
}

/** What is made; undefined where it is impossible and not needed. */
function orLeftOut(isNeeded: boolean, make: () => string): string | undefined {
  return isNeeded ? make() : ifPossible(make);
}

/** Why none of a choice's schemas can hold: of one alone its own reason, of more the first few. */
function noneOf(keyword: string, reasons: readonly Contradiction[], path: string): Contradiction {
  if (reasons.length === 1) return reasons[0]!;
  const shown = reasons.slice(0, 3).map(({ details }) => `${details.reason} (at ${details.path})`);
  return new Contradiction("invalid_schema", {
    path,
    reason: `no alternative of ${keyword} can hold: ${shown.join(", ")}`,
  });
}

/** What is said of further members, where nothing is that they must all be described. */
function orClosed(further: unknown, unevaluated: unknown): unknown {
  return further === undefined && unevaluated === false ? false : further;
}

function isPlainStringSchema(schema: unknown): boolean {
  return isSchemaObject(schema) && schema.type === "string" && Object.keys(schema).length === 1;
}
