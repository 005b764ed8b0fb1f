// Finding, cutting and replacing in Texts: what the methods of str are made of.

import { scan, step } from "../errors.js";
import { search } from "./semantics.js";
import { isPythonSpace, Text, unitsOf } from "./text.js";

// biome-ignore lint/suspicious/noControlCharactersInRegex: Python ends lines at these
const LINE_END = /\r\n|[\n-\r\x1c-\x1e\x85\u2028\u2029]/g;

/** Python's slice bounds: negative ones count from the end. */
export function clampIndex(index: number, length: number): number {
  return index < 0 ? Math.max(0, index + length) : Math.min(index, length);
}

/** The UTF-16 range of code points [start, end). */
export function unitRange(text: Text, start: number, end: number | null): [number, number] {
  const { length } = text;
  const from = clampIndex(start, length);
  const to = end === null ? length : clampIndex(end, length);
  return [unitsOf(text.s, from), unitsOf(text.s, Math.max(from, to))];
}

export function strip(text: Text, chars: Text | null, atStart: boolean, atEnd: boolean): Text {
  const set = chars === null ? null : new Set(chars.s);
  if (chars !== null) step(chars.s.length);
  const isStripped = set === null ? isPythonSpace : (char: string) => set.has(char);
  let from = 0;
  let to = text.s.length;
  while (atStart && from < to) {
    const char = String.fromCodePoint(text.s.codePointAt(from)!);
    step();
    if (!isStripped(char)) break;
    from += char.length;
  }
  while (atEnd && to > from) {
    const isPair = to - from > 1 && /[\ud800-\udbff][\udc00-\udfff]/.test(text.s.slice(to - 2, to));
    const char = text.s.slice(isPair ? to - 2 : to - 1, to);
    step();
    if (!isStripped(char)) break;
    to -= char.length;
  }
  return text.units(from, to);
}

/** At most `limit` cuts; any number when it is negative. */
export function split(text: Text, separator: Text | null, limit: number, fromEnd: boolean): Text[] {
  if (separator === null) return splitSpaces(text, limit, fromEnd);
  const at: number[] = [];
  const { s } = separator;
  search(text.s, s);
  const max = limit < 0 ? Number.POSITIVE_INFINITY : limit;
  if (fromEnd) {
    let end = text.s.length;
    while (at.length < max) {
      const found = end - s.length < 0 ? -1 : text.s.lastIndexOf(s, end - s.length);
      if (found < 0) break;
      step();
      at.push(found);
      end = found;
    }
    at.reverse();
  } else {
    for (let found = text.s.indexOf(s); found >= 0 && at.length < max; found = text.s.indexOf(s, found + s.length))
      at.push(found);
  }
  return cut(text, at, s.length);
}

function cut(text: Text, at: readonly number[], width: number): Text[] {
  const parts: Text[] = [];
  let start = 0;
  step(at.length);
  for (const found of at) {
    parts.push(text.units(start, found));
    start = found + width;
  }
  parts.push(text.units(start));
  return parts;
}

function splitSpaces(text: Text, limit: number, fromEnd: boolean): Text[] {
  const parts: Text[] = [];
  let rest = strip(text, null, !fromEnd, fromEnd);
  while (rest.s !== "") {
    if (limit >= 0 && parts.length === limit) {
      parts.push(rest); // split keeps the spaces at its far end, rsplit those at its beginning
      break;
    }
    const { s } = rest;
    let at = fromEnd ? s.length - 1 : 0;
    while (fromEnd ? at >= 0 && !isPythonSpace(s[at]!) : at < s.length && !isPythonSpace(s[at]!))
      at += fromEnd ? -1 : 1;
    step(Math.abs(at - (fromEnd ? s.length : 0)));
    parts.push(fromEnd ? rest.units(at + 1) : rest.units(0, at));
    rest = strip(fromEnd ? rest.units(0, Math.max(0, at)) : rest.units(at), null, !fromEnd, fromEnd);
  }
  return fromEnd ? parts.reverse() : parts;
}

export function replace(text: Text, old: Text, by: Text, limit: number): Text {
  if (limit === 0) return text;
  const max = limit < 0 ? Number.POSITIVE_INFINITY : limit;
  if (old.s !== "") return Text.join(split(text, old, limit, false), by).asMarkup(text.isMarkup);
  // The empty string lies before every character and at the end.
  const chars = text.chars();
  const parts: Text[] = [];
  for (let i = 0; i <= chars.length; i++) {
    if (i < max) parts.push(by);
    if (i < chars.length) parts.push(chars[i]!);
  }
  return Text.join(parts).asMarkup(text.isMarkup);
}

export function splitLines(text: Text, keepsEnds: boolean): Text[] {
  scan(text.s.length);
  const lines: Text[] = [];
  let start = 0;
  for (const match of text.s.matchAll(LINE_END)) {
    const end = match.index + match[0].length;
    lines.push(text.units(start, keepsEnds ? end : match.index));
    start = end;
  }
  if (start < text.s.length) lines.push(text.units(start));
  return lines;
}

/** Upper and lower case of a whole text, origins kept. */
export function changeCase(text: Text, change: (s: string) => string): Text {
  scan(text.s.length * 4);
  const whole = change(text.s);
  return whole.length === text.s.length ? new Text(whole, text.origins, text.isMarkup) : text.mapChars(change);
}

export const lower = (text: Text): Text => changeCase(text, (s) => s.toLowerCase());
export const upper = (text: Text): Text => changeCase(text, (s) => s.toUpperCase());

/** The first character in upper case, the others in lower. */
export function capitalize(text: Text): Text {
  const first = unitsOf(text.s, 1);
  return upper(text.units(0, first)).concat(lower(text.units(first)));
}
