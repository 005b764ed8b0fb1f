// Filters on sequences and mappings.

import { bind, toText, trueOr } from "../arguments.js";
import { TemplateError } from "../errors.js";
import { binary } from "../values/operators.js";
import { compare, isTrue, iterate, lengthOf } from "../values/semantics.js";
import { str } from "../values/show.js";
import { EMPTY, Text } from "../values/text.js";
import {
  type Arguments,
  Dict,
  DictView,
  Iterator,
  List,
  Tuple,
  typeName,
  Undefined,
  type Value,
} from "../values/values.js";
import { attributeGetter, type Filter, type FilterContext, ignoreCase } from "./filter.js";

/** None is an item like any other. */
function orUndefined(item: Value | undefined, reason: string): Value {
  return item === undefined ? new Undefined(reason) : item;
}

function sorted(items: readonly Value[], key: (item: Value) => Value, isReversed: boolean): Value[] {
  const keyed = items.map((item) => ({ item, key: key(item) }));
  keyed.sort((a, b) => (isReversed ? compare(b.key, a.key, "<") : compare(a.key, b.key, "<")));
  return keyed.map(({ item }) => item);
}

const sort: Filter = (value, args, context) => {
  const [reverse, isCased, attribute] = bind("sort", args, ["reverse", "case_sensitive", "attribute"]);
  const change = trueOr(isCased, false) ? (item: Value) => item : ignoreCase;
  const names = attribute instanceof Text ? attribute.s.split(",").map((name) => Text.own(name)) : [attribute];
  const getters = names.map((name) => attributeGetter(name, context));
  return new List(
    sorted([...iterate(value)], (item) => new List(getters.map((get) => change(get(item)))), trueOr(reverse, false)),
  );
};

const dictsort: Filter = (value, args) => {
  const [isCased, by, reverse] = bind("dictsort", args, ["case_sensitive", "by", "reverse"]);
  if (value instanceof Undefined) value.fail();
  if (!(value instanceof Dict)) throw new TemplateError(`'${typeName(value)}' object has no attribute 'items'`);
  const field = by === undefined ? "key" : toText(by, "by").s;
  if (field !== "key" && field !== "value") throw new TemplateError('You can only sort by either "key" or "value"');
  const change = trueOr(isCased, false) ? (item: Value) => item : ignoreCase;
  const pairs = value.entries().map((entry) => new Tuple(entry));
  return new List(
    sorted(pairs, (pair) => change((pair as Tuple).items[field === "key" ? 0 : 1]!), trueOr(reverse, false)),
  );
};

function extreme(name: string, isBetter: (order: number) => boolean): Filter {
  return (value, args, context) => {
    const [isCased, attribute] = bind(name, args, ["case_sensitive", "attribute"]);
    const get = attributeGetter(attribute, context);
    const change = trueOr(isCased, false) ? (item: Value) => item : ignoreCase;
    let best: { item: Value; key: Value } | null = null;
    for (const item of iterate(value)) {
      const key = change(get(item));
      if (best === null || isBetter(compare(key, best.key, name === "min" ? "<" : ">"))) best = { item, key };
    }
    return best === null ? new Undefined("No aggregated item, sequence was empty.") : best.item;
  };
}

/** select, reject and their forms on an attribute. Nothing at all (none, undefined) selects nothing. */
function select(keeps: boolean, byAttribute: boolean): Filter {
  return (value, args, context) =>
    new Iterator(
      (function* () {
        if (!isTrue(value)) return;
        const [attribute, rest] = byAttribute
          ? [args.positional[0], args.positional.slice(1)]
          : [undefined, args.positional];
        if (byAttribute && attribute === undefined) throw new TemplateError("Missing parameter for attribute name");
        const get = attributeGetter(attribute, context);
        const [test, ...more] = rest;
        const check = (item: Value): boolean =>
          test === undefined
            ? isTrue(item)
            : context.callTest(toText(test, "the test").s, item, { positional: more, named: args.named });
        for (const item of iterate(value)) {
          context.budget.step();
          if (check(get(item)) === keeps) yield item;
        }
      })(),
      "generator",
    );
}

const map: Filter = (value, args, context) =>
  new Iterator(
    (function* () {
      if (!isTrue(value)) return;
      const change = mapper(args, context);
      for (const item of iterate(value)) {
        context.budget.step();
        yield change(item);
      }
    })(),
  );

function mapper(args: Arguments, context: FilterContext): (item: Value) => Value {
  const [name, ...rest] = args.positional;
  if (name === undefined && args.named.has("attribute")) {
    const [attribute, fallback] = bind("map", args, ["attribute", "default"]);
    return attributeGetter(attribute, context, fallback ?? null);
  }
  if (name === undefined) throw new TemplateError("map requires a filter argument");
  return (item) => context.callFilter(toText(name, "the filter").s, item, { positional: rest, named: args.named });
}

const join: Filter = (value, args, context) => {
  const [separator, attribute] = bind("join", args, ["d", "attribute"]);
  const get = attributeGetter(attribute, context);
  const parts = Array.from(iterate(value), (item) => str(get(item)).asMarkup(false));
  const by = separator === undefined ? EMPTY : str(separator);
  context.budget.make(parts.reduce((sum, part) => sum + part.s.length + by.s.length, 0));
  return Text.join(parts, by);
};

const reverse: Filter = (value) => {
  if (value instanceof Text) return Text.join(value.chars().reverse()).asMarkup(value.isMarkup);
  if (value instanceof Undefined) value.fail();
  const reversed = [...iterate(value)].reverse();
  return value instanceof Iterator ? new List(reversed) : new Iterator(reversed, "list_reverseiterator");
};

const last: Filter = (value) => {
  if (value instanceof Iterator) throw new TemplateError(`'${value.typeName}' object is not reversible`);
  return orUndefined([...iterate(value)].at(-1), "No last item, sequence was empty.");
};

const first: Filter = (value) => {
  const none = "No first item, sequence was empty.";
  if (value instanceof Iterator) return orUndefined(value.tryNext(), none);
  for (const item of iterate(value)) return item;
  return new Undefined(none);
};

const sum: Filter = (value, args, context) => {
  const [attribute, start] = bind("sum", args, ["attribute", "start"]);
  const get = attributeGetter(attribute, context);
  let total: Value = start ?? 0n;
  if (total instanceof Text) throw new TemplateError("sum() can't sum strings [use ''.join(seq) instead]");
  for (const item of iterate(value)) total = binary("+", total, get(item), context.budget);
  return total;
};

const unique: Filter = (value, args, context) => {
  const [isCased, attribute] = bind("unique", args, ["case_sensitive", "attribute"]);
  const get = attributeGetter(attribute, context);
  const change = trueOr(isCased, false) ? (item: Value) => item : ignoreCase;
  const seen = new Dict();
  const items: Value[] = [];
  for (const item of iterate(value)) {
    const key = change(get(item));
    if (seen.has(key)) continue;
    seen.set(key, true);
    items.push(item);
  }
  return new Iterator(items);
};

const items: Filter = (value) => {
  if (value instanceof Undefined) return new Iterator([]);
  if (!(value instanceof Dict)) throw new TemplateError("Can only get item pairs from a mapping.");
  return new Iterator(new DictView("items", value).items);
};

const toList: Filter = (value) => new List([...iterate(value)]);
const length: Filter = (value) => BigInt(lengthOf(value));

export const SEQUENCE_FILTERS: readonly (readonly [string, Filter])[] = [
  ["length", length],
  ["count", length],
  ["list", toList],
  ["first", first],
  ["last", last],
  ["join", join],
  ["sort", sort],
  ["dictsort", dictsort],
  ["reverse", reverse],
  ["unique", unique],
  ["items", items],
  ["sum", sum],
  ["min", extreme("min", (order) => order < 0)],
  ["max", extreme("max", (order) => order > 0)],
  ["map", map],
  ["select", select(true, false)],
  ["reject", select(false, false)],
  ["selectattr", select(true, true)],
  ["rejectattr", select(false, true)],
];
