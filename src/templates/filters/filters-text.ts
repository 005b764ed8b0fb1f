// Filters on text.

import { bind, indexOr, toText, trueOr } from "../arguments.js";
import { TemplateError } from "../errors.js";
import { formatPercent } from "../format/format.js";
import { type JsonStyle, writeJson } from "../values/json.js";
import { escapeMarkup } from "../values/markup.js";
import { toIndex } from "../values/semantics.js";
import { str } from "../values/show.js";
import { PYTHON_SPACE, Text } from "../values/text.js";
import { capitalize, lower, replace, splitLines, strip, upper } from "../values/text-search.js";
import { Dict, Tuple, type Value } from "../values/values.js";
import type { Filter } from "./filter.js";

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
  ["indent", indent],
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
  ["tojson", tojson],
];
