// What a template computes with, in Python's types: None is null, bool is boolean, int is bigint, float is number, str is Text,
// and the classes below are the rest.

import { make, scan, step, TemplateError } from "../errors.js";
import { CONTENT, Text } from "./text.js";

export type Value =
  | null
  | boolean
  | bigint
  | number
  | Text
  | List
  | Tuple
  | Dict
  | DictView
  | Iterator
  | Range
  | Undefined
  | Callable
  | Opaque;

export class List {
  readonly items: Value[];

  constructor(items: Value[]) {
    make(items.length);
    step(items.length / 8);
    this.items = items;
  }
}

export class Tuple {
  readonly items: readonly Value[];

  constructor(items: readonly Value[]) {
    make(items.length);
    step(items.length / 8);
    this.items = items;
  }
}

/** Keys keep the order in which they came, and 1, 1.0 and True are the same key. */
export class Dict {
  readonly #entries = new Map<string, [Value, Value]>();

  static of(entries: Iterable<readonly [Value, Value]>): Dict {
    const dict = new Dict();
    for (const [key, value] of entries) dict.set(key, value);
    return dict;
  }

  get size(): number {
    return this.#entries.size;
  }

  get(key: Value): Value | undefined {
    return this.#entries.get(hashOf(key))?.[1];
  }

  getName(name: string): Value | undefined {
    return this.#entries.get(`s${name}`)?.[1];
  }

  has(key: Value): boolean {
    return this.#entries.has(hashOf(key));
  }

  set(key: Value, value: Value): void {
    const hash = hashOf(key);
    const entry = this.#entries.get(hash);
    if (entry === undefined) this.#entries.set(hash, [key, value]);
    else entry[1] = value;
  }

  entries(): [Value, Value][] {
    step(this.#entries.size);
    return [...this.#entries.values()];
  }

  keys(): Value[] {
    return this.entries().map(([key]) => key);
  }

  values(): Value[] {
    return this.entries().map(([, value]) => value);
  }
}

/** dict.keys(), .values(), .items(). */
export class DictView {
  readonly kind: "keys" | "values" | "items";
  readonly dict: Dict;

  constructor(kind: "keys" | "values" | "items", dict: Dict) {
    this.kind = kind;
    this.dict = dict;
  }

  get items(): Value[] {
    if (this.kind === "keys") return this.dict.keys();
    if (this.kind === "values") return this.dict.values();
    return this.dict.entries().map((entry) => new Tuple(entry));
  }
}

/** A generator: what was taken from it is gone. */
export class Iterator implements Iterable<Value> {
  readonly #source: globalThis.Iterator<Value>;

  readonly typeName: string;

  constructor(source: Iterable<Value>, typeName = "generator") {
    this.typeName = typeName;
    this.#source = source[Symbol.iterator]();
  }

  *[Symbol.iterator](): globalThis.Iterator<Value> {
    for (let next = this.#source.next(); !next.done; next = this.#source.next()) yield next.value;
  }

  tryNext(): Value | undefined {
    const next = this.#source.next();
    return next.done ? undefined : next.value;
  }
}

export class Range {
  readonly length: number;

  readonly start: number;
  readonly stop: number;
  readonly step: number;

  constructor(start: number, stop: number, step: number) {
    this.start = start;
    this.stop = stop;
    this.step = step;
    this.length = Math.max(0, Math.ceil((stop - start) / step));
  }

  at(index: number): bigint {
    return BigInt(this.start + index * this.step);
  }

  *[Symbol.iterator](): globalThis.Iterator<Value> {
    for (let i = 0; i < this.length; i++) yield this.at(i);
  }
}

/** Jinja's Undefined: empty when printed or iterated, an error in any other use. */
export class Undefined {
  readonly reason: string;

  constructor(reason: string) {
    this.reason = reason;
  }

  fail(): never {
    throw new TemplateError(this.reason);
  }
}

export interface Arguments {
  readonly positional: Value[];
  readonly named: Map<string, Value>;
}

export class Callable {
  readonly name: string;
  readonly call: (args: Arguments) => Value;
  /** Shown by str(). */
  readonly description: string;
  readonly attributes: ReadonlyMap<string, Value>;

  constructor(
    name: string,
    call: (args: Arguments) => Value,
    description = `<function ${name}>`,
    attributes: ReadonlyMap<string, Value> = new Map(),
  ) {
    this.name = name;
    this.call = call;
    this.description = description;
    this.attributes = attributes;
  }
}

/** namespace(), loop, cycler and joiner: objects with attributes. */
export abstract class Opaque {
  abstract readonly typeName: string;
  abstract attribute(name: string): Value | undefined;
  abstract describe(): string;
}

export class Namespace extends Opaque {
  readonly typeName = "Namespace";
  readonly attributes = new Map<string, Value>();

  attribute(name: string): Value | undefined {
    return this.attributes.get(name);
  }

  describe(): string {
    return "<Namespace>";
  }
}

function hashOf(key: Value): string {
  step();
  if (key instanceof Text) {
    scan(key.s.length);
    return `s${key.s}`;
  }
  if (key === null) return "None";
  if (typeof key === "boolean") return key ? "n1" : "n0";
  if (typeof key === "bigint") return `n${key}`;
  if (typeof key === "number") return Number.isInteger(key) ? `n${BigInt(key)}` : `n${key}`;
  if (key instanceof Tuple) {
    const parts = key.items.map(hashOf);
    make(parts.reduce((sum, part) => sum + part.length + 8, 0));
    return `(${parts.map((part) => `${part.length}:${part}`).join("")})`; // by length: quoting would double what is nested
  }
  if (key instanceof Undefined) return "undefined";
  throw new TemplateError(`unhashable type: '${typeName(key)}'`);
}

export function typeName(value: Value): string {
  if (value === null) return "NoneType";
  if (typeof value === "boolean") return "bool";
  if (typeof value === "bigint") return "int";
  if (typeof value === "number") return "float";
  if (value instanceof Text) return value.isMarkup ? "Markup" : "str";
  if (value instanceof List) return "list";
  if (value instanceof Tuple) return "tuple";
  if (value instanceof Dict) return "dict";
  if (value instanceof DictView) return `dict_${value.kind}`;
  if (value instanceof Range) return "range";
  if (value instanceof Undefined) return "Undefined";
  if (value instanceof Callable) return "function";
  return value.typeName;
}

/** A JavaScript value from outside as a template's; its strings get `origin`. Whole numbers are ints, as in JSON. */
export function fromOutside(value: unknown, origin: string = CONTENT): Value {
  if (value === null || value === undefined) return null;
  if (typeof value === "boolean" || typeof value === "bigint") return value;
  if (typeof value === "number") return Number.isInteger(value) ? BigInt(value) : value;
  if (typeof value === "string") return Text.of(value, origin);
  if (isValue(value)) return value;
  if (Array.isArray(value)) return new List(value.map((item) => fromOutside(item, origin)));
  if (typeof value !== "object") throw new TemplateError(`a ${typeof value} cannot be given to a template`);
  const dict = new Dict();
  for (const [key, item] of Object.entries(value)) {
    if (item !== undefined) dict.set(Text.of(key, origin), fromOutside(item, origin));
  }
  return dict;
}

function isValue(value: unknown): value is Value {
  return [Text, List, Tuple, Dict, Callable, Opaque, Undefined].some((kind) => value instanceof kind);
}
