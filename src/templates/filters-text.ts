// Filters on text.

import { bind, indexOr, toText, trueOr } from "./arguments.js";
import { step, TemplateError } from "./errors.js";
import type { Filter } from "./filter.js";
import { formatPercent } from "./format.js";
import { type JsonStyle, writeJson } from "./json.js";
import { escapeMarkup } from "./markup.js";
import { toIndex } from "./semantics.js";
import { str } from "./show.js";
import { PYTHON_SPACE, Text } from "./text.js";
import { TEXT_METHODS } from "./text-methods.js";
import { capitalize, lower, replace, split, splitLines, strip, unitRange, upper } from "./text-search.js";
import { Dict, Tuple, type Value } from "./values.js";

const WORD_START = new RegExp(`[-${PYTHON_SPACE}({\\[<]`);

/** `x + y` on strings is an error where x is no string, and so are the filters that Python writes so. */
const needText = (value: Value): Text => toText(value, "the value of the filter");

const indent: Filter = (value, args) => {
  const [width, first, blank] = bind("indent", args, ["width", "first", "blank"]);
  const text = needText(value);
  const by = (width instanceof Text ? width : Text.run(" ", Math.max(0, indexOr(width, 4)))).asMarkup(text.isMarkup);
  const newLine = Text.own("\n");
  const lines = splitLines(text.concat(newLine), false);
  const shown = lines.map((line, i) => (i > 0 && (line.s !== "" || trueOr(blank, false)) ? by.concat(line) : line));
  const joined = Text.join(shown, newLine).asMarkup(text.isMarkup);
  return trueOr(first, false) ? by.concat(joined) : joined;
};

const truncate: Filter = (value, args) => {
  const [length, killwords, end, leeway] = bind("truncate", args, ["length", "killwords", "end", "leeway"]);
  const text = needText(value);
  const limit = indexOr(length, 255);
  const ending = end === undefined ? Text.own("...") : needText(end);
  if (limit < ending.length) throw new TemplateError(`expected length >= ${ending.length}, got ${limit}`);
  if (text.length <= limit + (leeway === undefined || leeway === null ? 5 : toIndex(leeway))) return text;
  const cut = text.units(...unitRange(text, 0, limit - ending.length));
  return (trueOr(killwords, false) ? cut : split(cut, Text.own(" "), 1, true)[0]!).concat(ending);
};

const title: Filter = (value) => {
  let isStart = true;
  return str(value).mapChars((char) => {
    const shown = isStart ? char.toUpperCase() : char.toLowerCase();
    isStart = WORD_START.test(char);
    return shown;
  });
};

const tojson: Filter = (value, args) => {
  const names = ["ensure_ascii", "indent", "separators", "sort_keys"];
  const [isAscii, width, separators, sortsKeys] = bind("tojson", args, names);
  const given = separators instanceof Tuple ? separators.items.map(needText) : null;
  const hasIndent = width !== undefined && width !== null;
  const style: JsonStyle = {
    isAscii: trueOr(isAscii, false),
    indent: !hasIndent ? null : width instanceof Text ? width : Text.run(" ", Math.max(0, toIndex(width))),
    itemSeparator: given?.[0] ?? Text.own(hasIndent ? "," : ", "),
    keySeparator: given?.[1] ?? Text.own(": "),
    sortsKeys: trueOr(sortsKeys, false),
  };
  return writeJson(value, style);
};

const utf8 = new TextEncoder();

const urlencode: Filter = (value) => {
  const encode = (text: Text, safe: RegExp) =>
    text.mapChars((char) =>
      safe.test(char)
        ? char
        : Array.from(utf8.encode(char), (b) => `%${b.toString(16).toUpperCase().padStart(2, "0")}`).join(""),
    );
  if (value instanceof Text) return encode(value, /[\w.~/-]/);
  if (!(value instanceof Dict)) return encode(str(value), /[\w.~/-]/);
  const pairs = value.entries().map((pair) =>
    Text.join(
      pair.map((part) => encode(str(part), /[\w.~ -]/)),
      Text.own("="),
    ),
  );
  return Text.join(pairs, Text.own("&")).mapChars((char) => (char === " " ? "+" : char));
};

const wordwrap: Filter = (value, args) => {
  const [width, breaks, wrapstring] = bind("wordwrap", args, [
    "width",
    "break_long_words",
    "wrapstring",
    "break_on_hyphens",
  ]);
  const limit = indexOr(width, 79);
  if (limit <= 0) throw new TemplateError(`invalid width ${limit} (must be > 0)`); // as Python's textwrap says
  const by = wrapstring === undefined || wrapstring === null ? Text.own("\n") : needText(wrapstring);
  const lines = splitLines(needText(value), false).map((line) =>
    Text.join(wrapLine(line, limit, trueOr(breaks, true)), by),
  );
  return Text.join(lines, by);
};

function wrapLine(line: Text, width: number, breaksWords: boolean): Text[] {
  const chunks: Text[] = [];
  for (const match of line.s.matchAll(/\s+|(?:[^\s-]|(?<!\w)-|-(?!\w))+-?/g)) {
    chunks.push(line.units(match.index, match.index + match[0].length));
  }
  const out: Text[] = [];
  let current: Text[] = [];
  let size = 0;
  const close = () => {
    if (current.length > 0 && current.at(-1)!.s.trim() === "") current.pop();
    if (current.length > 0) out.push(Text.join(current));
    current = [];
    size = 0;
  };
  for (let chunk of chunks) {
    if (size + chunk.length > width) close();
    if (current.length === 0 && out.length > 0 && chunk.s.trim() === "") continue;
    while (breaksWords && chunk.length > width) {
      out.push(chunk.units(...unitRange(chunk, 0, width)));
      chunk = chunk.units(...unitRange(chunk, width, null));
    }
    current.push(chunk);
    size += chunk.length;
  }
  close();
  return out;
}

export const TEXT_FILTERS: readonly (readonly [string, Filter])[] = [
  ["upper", (value) => upper(str(value))],
  ["lower", (value) => lower(str(value))],
  ["capitalize", (value) => capitalize(str(value))],
  ["title", title],
  [
    "trim",
    (value, args) => {
      const [chars] = bind("trim", args, ["chars"]);
      return strip(str(value), chars === undefined || chars === null ? null : needText(chars), true, true);
    },
  ],
  [
    "replace",
    (value, args) => {
      const [old, by, count] = bind("replace", args, ["old", "new", "count"], 2);
      return replace(
        str(value).asMarkup(false),
        str(old!),
        str(by!),
        count === undefined || count === null ? -1 : toIndex(count),
      );
    },
  ],
  ["string", (value) => str(value)],
  ["safe", (value) => str(value).asMarkup(true)],
  ["escape", (value) => escapeMarkup(str(value))],
  ["e", (value) => escapeMarkup(str(value))],
  ["forceescape", (value) => escapeMarkup(str(value).asMarkup(false))],
  ["indent", indent],
  ["truncate", truncate],
  [
    "center",
    (value, args, context) => {
      const [width = 80n] = bind("center", args, ["width"]);
      return TEXT_METHODS.get("center")!(str(value), { positional: [width], named: new Map() }, context);
    },
  ],
  [
    "format",
    (value, args, { budget }) => {
      if (args.positional.length > 0 && args.named.size > 0) {
        throw new TemplateError("can't handle positional and keyword arguments at the same time");
      }
      const named = [...args.named].map(([key, item]) => [Text.own(key), item] as const);
      return formatPercent(str(value), named.length > 0 ? Dict.of(named) : new Tuple(args.positional), budget);
    },
  ],
  ["wordcount", (value) => BigInt([...str(value).s.matchAll(/[\p{L}\p{N}\p{M}_]+/gu)].length)],
  ["wordwrap", wordwrap],
  ["urlencode", urlencode],
  ["tojson", tojson],
  [
    "striptags",
    (value) => {
      // "<" without an end is looked for to the end of the text, from each.
      const { s } = str(value);
      step((s.split("<").length * s.length) / 64);
      const plain = str(value)
        .s.replaceAll(/<!--.*?-->|<[^>]*>/gs, "")
        .split(/\s+/)
        .filter(Boolean)
        .join(" ");
      // Lengths change freely here: all of it counts as content.
      return Text.of(
        plain.replaceAll(
          /&(lt|gt|amp|#39|#34|quot);/g,
          (_, name: string) => ({ lt: "<", gt: ">", amp: "&", "#39": "'" })[name] ?? '"',
        ),
        "c",
      );
    },
  ],
];
