// Attributes and items: what `value.name` and `value[key]` give. As in Jinja's sandbox, names that begin with an underscore and
// methods that change a list or dict are out of reach.

import { bind, indexOr } from "../arguments.js";
import { TemplateError } from "../errors.js";
import { equals, iterate, toIndex } from "./semantics.js";
import { Text, unitsOf } from "./text.js";
import { type MethodContext, TEXT_METHODS } from "./text-methods.js";
import { clampIndex, unitRange } from "./text-search.js";
import {
  type Arguments,
  Callable,
  Dict,
  DictView,
  List,
  Opaque,
  Range,
  Tuple,
  typeName,
  Undefined,
  type Value,
} from "./values.js";

type Method<T> = (self: T, args: Arguments) => Value;

const indexOf: Method<List | Tuple> = (self, args) => {
  const [item, start, stop] = bind("index", args, ["value", "start", "stop"], 1);
  const { length } = self.items;
  const from = clampIndex(indexOr(start, 0), length);
  const to = clampIndex(indexOr(stop, length), length);
  const at = self.items.findIndex((other, i) => i >= from && i < to && equals(other, item!));
  if (at < 0) throw new TemplateError("the value is not in the list");
  return BigInt(at);
};
const countOf: Method<List | Tuple> = (self, args) => {
  const [item] = bind("count", args, ["value"], 1);
  return BigInt(self.items.filter((other) => equals(other, item!)).length);
};
/** The one way to change a list that Jinja 3.1's sandbox leaves open. */
const pop: Method<List> = (self, args) => {
  const index = indexOr(bind("pop", args, ["index"])[0], -1);
  const at = index < 0 ? index + self.items.length : index;
  if (at < 0 || at >= self.items.length) throw new TemplateError("pop index out of range");
  return self.items.splice(at, 1)[0]!;
};

const LIST_METHODS = new Map<string, Method<List>>([
  ["index", indexOf],
  ["count", countOf],
  ["copy", (self) => new List([...self.items])],
  ["pop", pop],
]);
const TUPLE_METHODS = new Map<string, Method<Tuple>>([
  ["index", indexOf],
  ["count", countOf],
]);
const DICT_METHODS = new Map<string, Method<Dict>>([
  ["keys", (self) => new DictView("keys", self)],
  ["values", (self) => new DictView("values", self)],
  ["items", (self) => new DictView("items", self)],
  ["copy", (self) => Dict.of(self.entries())],
  [
    "get",
    (self, args) => {
      const [key, fallback] = bind("get", args, ["key", "default"], 1);
      const found = self.get(key!);
      return found === undefined ? (fallback ?? null) : found;
    },
  ],
]);
const CHANGING = {
  list: new Set(["append", "reverse", "insert", "sort", "extend", "remove"]),
  dict: new Set(["clear", "pop", "popitem", "setdefault", "update"]),
};

/** undefined: there is no such attribute. */
function attributeOf(value: Value, name: string, context: MethodContext): Value | undefined {
  const method = <T>(
    methods: ReadonlyMap<string, (self: T, args: Arguments, context: MethodContext) => Value>,
    self: T,
  ) => {
    const found = methods.get(name);
    if (found === undefined) return undefined;
    const description = `<built-in method ${name} of ${typeName(value)} object>`;
    return new Callable(name, (args) => found(self, args, context), description);
  };
  if (value instanceof Text) return method(TEXT_METHODS, value);
  if (value instanceof List) return CHANGING.list.has(name) ? unsafe(value, name) : method(LIST_METHODS, value);
  if (value instanceof Dict) return CHANGING.dict.has(name) ? unsafe(value, name) : method(DICT_METHODS, value);
  if (value instanceof Tuple) return method(TUPLE_METHODS, value);
  if (value instanceof Opaque) return value.attribute(name);
  if (value instanceof Callable) return value.attributes.get(name);
  return undefined;
}

function unsafe(value: Value, name: string): Undefined {
  return new Undefined(`access to attribute '${name}' of '${typeName(value)}' object is unsafe.`);
}

function missing(value: Value, key: Value, name: string): Undefined {
  const owner = value === null ? "None" : `${typeName(value)} object`;
  if (key instanceof Text) return new Undefined(`'${owner}' has no attribute '${name}'`);
  return new Undefined(`${owner} has no element ${name}`);
}

/** `value.name`: an attribute, else the item of that name. */
export function getAttribute(value: Value, name: string, context: MethodContext): Value {
  if (value instanceof Undefined) value.fail();
  const key = Text.own(name);
  const item = itemOf(value, key);
  if (name.startsWith("__")) return item === undefined ? unsafe(value, name) : item;
  const found = attributeOf(value, name, context);
  if (found !== undefined) return found;
  return item === undefined ? missing(value, key, name) : item;
}

/** `value[key]`: the item, else the attribute of that name. */
export function getItem(value: Value, key: Value, context: MethodContext): Value {
  if (value instanceof Undefined) value.fail();
  const found = itemOf(value, key);
  if (found !== undefined) return found;
  if (key instanceof Text && key.s.startsWith("__")) return unsafe(value, key.s);
  if (key instanceof Text) {
    const attribute = attributeOf(value, key.s, context);
    return attribute === undefined ? missing(value, key, key.s) : attribute;
  }
  return missing(value, key, String(key));
}

function itemOf(value: Value, key: Value): Value | undefined {
  if (value instanceof Dict) return isHashable(key) ? value.get(key) : undefined;
  if (typeof key !== "bigint" && typeof key !== "boolean") return undefined;
  const at = (length: number): number => {
    const index = toIndex(key);
    return index < 0 ? index + length : index;
  };
  if (value instanceof List || value instanceof Tuple) return value.items[at(value.items.length)];
  if (value instanceof Text) {
    const index = at(value.length);
    if (index < 0 || index >= value.length) return undefined;
    return value.units(unitsOf(value.s, index), unitsOf(value.s, index + 1));
  }
  if (value instanceof Range) {
    const index = at(value.length);
    return index >= 0 && index < value.length ? value.at(index) : undefined;
  }
  return undefined;
}

const isHashable = (key: Value): boolean => !(key instanceof List || key instanceof Dict);

export function getSlice(value: Value, start: Value, stop: Value, step: Value): Value {
  if (value instanceof Undefined) value.fail();
  const isSequence = value instanceof Text || value instanceof List || value instanceof Tuple || value instanceof Range;
  // Unlike an item, which may be absent: Python's own slicing, which fails.
  if (!isSequence) throw new TemplateError(`'${typeName(value)}' object cannot be sliced`);
  const stride = step === null ? 1 : toIndex(step);
  if (stride === 0) throw new TemplateError("slice step cannot be zero");
  if (value instanceof Text && stride === 1) {
    return value.units(...unitRange(value, start === null ? 0 : toIndex(start), stop === null ? null : toIndex(stop)));
  }
  const items = [...iterate(value)];
  const { length } = items;
  const picked: Value[] = [];
  if (stride > 0) {
    const end = stop === null ? length : clampIndex(toIndex(stop), length);
    for (let i = start === null ? 0 : clampIndex(toIndex(start), length); i < end; i += stride) picked.push(items[i]!);
  } else {
    const bound = (index: Value, fallback: number): number => {
      if (index === null) return fallback;
      const at = toIndex(index);
      return at < 0 ? Math.max(-1, at + length) : Math.min(at, length - 1);
    };
    const end = bound(stop, -1);
    for (let i = bound(start, length - 1); i > end; i += stride) picked.push(items[i]!);
  }
  if (value instanceof Text) return Text.join(picked as Text[]).asMarkup(value.isMarkup);
  return value instanceof Tuple ? new Tuple(picked) : new List(picked);
}
