// The methods of str.

import { bind, indexOr, toText, trueOr } from "../arguments.js";
import { type Budget, make, scan, TemplateError } from "../errors.js";
import { formatBraces, type Lookup } from "../format/format-braces.js";
import { escapeMarkup } from "./markup.js";
import { iterate, search, toIndex } from "./semantics.js";
import { EMPTY, Text } from "./text.js";
import { capitalize, lower, replace, split, splitLines, strip, unitRange, upper } from "./text-search.js";
import { type Arguments, Dict, List, Tuple, typeName, type Value } from "./values.js";

export interface MethodContext {
  readonly budget: Budget;
  readonly lookup: Lookup;
}

type Method = (text: Text, args: Arguments, context: MethodContext) => Value;

const LETTER = /^[\p{L}]+$/u;
const ALNUM = /^[\p{L}\p{N}]+$/u;
const UPPER = /[\p{Lu}\p{Lt}]/u;
const LOWER = /[\p{Ll}]/u;

const optionalText = (value: Value | undefined, what: string): Text | null =>
  value === undefined || value === null ? null : toText(value, what);

/** The range [start, end) of a method's arguments, in UTF-16 units; None is as good as none. */
function rangeOf(text: Text, start: Value | undefined, end: Value | undefined): [number, number] {
  return unitRange(text, toIndex(start ?? 0n), end === undefined || end === null ? null : toIndex(end));
}

function find(name: string, fromEnd: boolean, mustBeThere: boolean): Method {
  return (text, args) => {
    const [part, start, end] = bind(name, args, ["sub", "start", "end"], 1);
    const [from, to] = rangeOf(text, start, end);
    const { s } = toText(part, `${name}() argument`);
    search(text.s, s);
    const within = text.s.slice(from, to);
    const at = fromEnd ? within.lastIndexOf(s) : within.indexOf(s);
    if (at < 0 && mustBeThere) throw new TemplateError("substring not found");
    return at < 0 ? -1n : BigInt([...text.s.slice(0, from + at)].length);
  };
}

function hasAffix(name: string, test: (s: string, affix: string) => boolean): Method {
  return (text, args) => {
    const [affix, start, end] = bind(name, args, ["prefix", "start", "end"], 1);
    const [from, to] = rangeOf(text, start, end);
    const options = affix instanceof Tuple ? affix.items : [affix!];
    return options.some((option) => {
      if (option instanceof Text) scan(option.s.length);
      if (option instanceof Text) return test(text.s.slice(from, to), option.s);
      throw new TemplateError(`${name} first arg must be str or a tuple of str, not ${typeName(option)}`);
    });
  };
}

const stripMethod =
  (name: string, atStart: boolean, atEnd: boolean): Method =>
  (text, args) =>
    strip(text, optionalText(bind(name, args, ["chars"])[0], `${name} arg`), atStart, atEnd);

function splitMethod(name: string, fromEnd: boolean): Method {
  return (text, args) => {
    const [separator, limit] = bind(name, args, ["sep", "maxsplit"]);
    const by = optionalText(separator, "sep");
    if (by?.s === "") throw new TemplateError("empty separator");
    return new List(split(text, by, indexOr(limit, -1), fromEnd));
  };
}

function partition(name: string, fromEnd: boolean): Method {
  return (text, args) => {
    const separator = toText(bind(name, args, ["sep"], 1)[0], "sep");
    if (separator.s === "") throw new TemplateError("empty separator");
    const [before, after] = split(text, separator, 1, fromEnd);
    if (after !== undefined) return new Tuple([before!, separator, after]);
    return new Tuple(fromEnd ? [EMPTY, EMPTY, text] : [text, EMPTY, EMPTY]);
  };
}

function justify(name: string, left: (missing: number, width: number) => number): Method {
  return (text, args, { budget }) => {
    const [width, fill] = bind(name, args, ["width", "fillchar"], 1);
    const size = toIndex(width!);
    const char = fill === undefined ? Text.own(" ") : toText(fill, "fillchar");
    if (char.length !== 1) throw new TemplateError("The fill character must be exactly one character long");
    const missing = size - text.length;
    if (missing <= 0) return text;
    budget.make(size);
    const before = left(missing, size);
    return Text.join([char.repeat(before), text, char.repeat(missing - before)]);
  };
}

export const center = justify("center", (missing, width) => Math.floor(missing / 2) + (missing & width & 1));

const test =
  (check: (s: string) => boolean): Method =>
  (text, args) => {
    bind("is", args, []);
    scan(text.s.length * 4);
    return check(text.s);
  };

function titleCase(text: Text): Text {
  let isInWord = false;
  return text.mapChars((char) => {
    const isCased = UPPER.test(char) || LOWER.test(char);
    const changed = isInWord ? char.toLowerCase() : char.toUpperCase();
    isInWord = isCased;
    return isCased ? changed : char;
  });
}

export const TEXT_METHODS: ReadonlyMap<string, Method> = new Map<string, Method>([
  ["strip", stripMethod("strip", true, true)],
  ["lstrip", stripMethod("lstrip", true, false)],
  ["rstrip", stripMethod("rstrip", false, true)],
  ["split", splitMethod("split", false)],
  ["rsplit", splitMethod("rsplit", true)],
  ["partition", partition("partition", false)],
  ["rpartition", partition("rpartition", true)],
  ["splitlines", (text, args) => new List(splitLines(text, trueOr(bind("splitlines", args, ["keepends"])[0], false)))],
  ["startswith", hasAffix("startswith", (s, affix) => s.startsWith(affix))],
  ["endswith", hasAffix("endswith", (s, affix) => s.endsWith(affix))],
  ["find", find("find", false, false)],
  ["rfind", find("rfind", true, false)],
  ["index", find("index", false, true)],
  ["rindex", find("rindex", true, true)],
  [
    "count",
    (text, args) => {
      const [part, start, end] = bind("count", args, ["sub", "start", "end"], 1);
      const [from, to] = rangeOf(text, start, end);
      const { s } = toText(part, "count() argument");
      const within = text.units(from, to);
      return BigInt(s === "" ? within.length + 1 : split(within, Text.own(s), -1, false).length - 1);
    },
  ],
  [
    "replace",
    (text, args, { budget }) => {
      const [old, by, limit] = bind("replace", args, ["old", "new", "count"], 2);
      const replaced = replace(
        text,
        toText(old, "replace() argument 1"),
        toText(by, "replace() argument 2"),
        indexOr(limit, -1),
      );
      budget.make(replaced.s.length);
      return replaced;
    },
  ],
  ["upper", (text) => upper(text)],
  ["lower", (text) => lower(text)],
  ["casefold", (text) => lower(text.mapChars((char) => (char === "ß" ? "ss" : char)))],
  ["capitalize", (text) => capitalize(text)],
  ["title", (text) => titleCase(text)],
  ["swapcase", (text) => text.mapChars((c) => (UPPER.test(c) ? c.toLowerCase() : c.toUpperCase()))],
  ["ljust", justify("ljust", () => 0)],
  ["rjust", justify("rjust", (missing) => missing)],
  ["center", center],
  [
    "zfill",
    (text, args, { budget }) => {
      const width = toIndex(bind("zfill", args, ["width"], 1)[0]!);
      const missing = width - text.length;
      if (missing <= 0) return text;
      budget.make(width);
      const lead = /^[+-]/.test(text.s) ? 1 : 0;
      return Text.join([text.units(0, lead), Text.own("0".repeat(missing)), text.units(lead)]);
    },
  ],
  [
    "join",
    (text, args, { budget }) => {
      const parts: Text[] = [];
      for (const item of iterate(bind("join", args, ["iterable"], 1)[0]!)) {
        if (!(item instanceof Text)) {
          throw new TemplateError(`sequence item ${parts.length}: expected str instance, ${typeName(item)} found`);
        }
        parts.push(text.isMarkup ? escapeMarkup(item) : item);
      }
      budget.make(parts.reduce((sum, part) => sum + part.s.length + text.s.length, 0));
      return Text.join(parts, text).asMarkup(text.isMarkup);
    },
  ],
  [
    "removeprefix",
    (text, args) => {
      const { s } = toText(bind("removeprefix", args, ["prefix"], 1)[0], "prefix");
      return text.s.startsWith(s) ? text.units(s.length) : text;
    },
  ],
  [
    "removesuffix",
    (text, args) => {
      const { s } = toText(bind("removesuffix", args, ["suffix"], 1)[0], "suffix");
      return s !== "" && text.s.endsWith(s) ? text.units(0, text.s.length - s.length) : text;
    },
  ],
  ["format", (text, args, { lookup, budget }) => formatBraces(text, args, lookup, budget)],
  [
    "format_map",
    (text, args, { lookup, budget }) => {
      const map = bind("format_map", args, ["mapping"], 1)[0]!;
      const named = map instanceof Dict ? map.entries() : [];
      const names = named.flatMap(([key, value]) => (key instanceof Text ? [[key.s, value] as const] : []));
      return formatBraces(text, { positional: [], named: new Map(names) }, lookup, budget);
    },
  ],
  [
    "expandtabs",
    (text, args) => {
      const size = indexOr(bind("expandtabs", args, ["tabsize"])[0], 8);
      let column = 0;
      return text.mapChars((char) => {
        if (char === "\n" || char === "\r") column = 0;
        else if (char !== "\t") column++;
        if (char !== "\t") return char;
        const width = size > 0 ? size - (column % size) : 0;
        column += width;
        make(width);
        return " ".repeat(width);
      });
    },
  ],
  ["isspace", test((s) => s !== "" && strip(Text.own(s), null, true, true).s === "")],
  ["isalpha", test((s) => LETTER.test(s))],
  ["isalnum", test((s) => ALNUM.test(s))],
  ["isdigit", test((s) => /^[\p{Nd}²³¹⁰-⁹₀-₉①-⑨]+$/u.test(s))],
  ["isdecimal", test((s) => /^\p{Nd}+$/u.test(s))],
  ["isnumeric", test((s) => /^\p{N}+$/u.test(s))],
  ["isupper", test((s) => UPPER.test(s) && !LOWER.test(s))],
  ["islower", test((s) => LOWER.test(s) && !UPPER.test(s))],
  ["istitle", test((s) => (UPPER.test(s) || LOWER.test(s)) && titleCase(Text.own(s)).s === s)],
  ["isascii", test((s) => /^[\0-\x7f]*$/.test(s))],
  ["isidentifier", test((s) => /^[\p{L}\p{Nl}_][\p{L}\p{Nl}\p{Mn}\p{Mc}\p{Nd}\p{Pc}]*$/u.test(s))],
  ["isprintable", test((s) => !/[^\P{C}]|[^\P{Z} ]/u.test(s))],
]);
