// One character out of a set, as grammar. The matcher's character classes speak of bytes, so a set of code points is written as
// the byte sequences of its UTF-8: a class for the ASCII part, and for the rest alternatives such as [c3] [a0-bf]. They are
// written where they are used, not as a rule of their own: the matcher knows ahead of time which tokens fit within a rule, but
// must try, at every step, each token that reaches beyond the end of one.

import type { CodePoints } from "./code-points.js";
import { literal } from "./rules.js";

/** Last code point of each length in UTF-8. */
const LAST_OF_LENGTH = [0x7f, 0x7ff, 0xffff, 0x10ffff];

/** The alternatives that match one character of the set. */
export function charAlternatives(points: CodePoints): string[] {
  const [low, high] = points[0]!;
  if (points.length === 1 && low === high) return [literal(String.fromCodePoint(low))];
  const ascii: string[] = [];
  const wide: string[] = [];
  for (const range of points) for (const part of splitByLength(range)) collect(part[0], part[1], ascii, wide);
  return [...(ascii.length > 0 ? [`[${ascii.join("")}]`] : []), ...wide];
}

function splitByLength([low, high]: readonly [number, number]): [number, number][] {
  const parts: [number, number][] = [];
  let from = low;
  for (const last of LAST_OF_LENGTH) {
    if (from > high) break;
    if (from > last) continue;
    parts.push([from, Math.min(high, last)]);
    from = last + 1;
  }
  return parts;
}

function collect(low: number, high: number, ascii: string[], wide: string[]): void {
  if (high <= 0x7f) ascii.push(byteRange(low, high));
  else for (const sequence of byteSequences(utf8(low), utf8(high))) wide.push(sequence);
}

/** The byte strings between two of the same length, as sequences of byte classes. */
function byteSequences(low: readonly number[], high: readonly number[]): string[] {
  const [head, ...lowRest] = low as [number, ...number[]];
  const [tail, ...highRest] = high as [number, ...number[]];
  if (lowRest.length === 0) return [`[${byteRange(head, tail)}]`];
  if (head === tail) return byteSequences(lowRest, highRest).map((rest) => `[${byteRange(head, head)}] ${rest}`);
  const first = lowRest.map(() => 0x80);
  const last = lowRest.map(() => 0xbf);
  const out: string[] = [];
  let from = head;
  let to = tail;
  if (lowRest.some((byte) => byte !== 0x80)) {
    out.push(...byteSequences([head, ...lowRest], [head, ...last]));
    from++;
  }
  const isPartial = highRest.some((byte) => byte !== 0xbf);
  if (isPartial) to--;
  if (from <= to) out.push(`[${byteRange(from, to)}] ${first.map(() => "[\\x80-\\xbf]").join(" ")}`);
  if (isPartial) out.push(...byteSequences([tail, ...first], [tail, ...highRest]));
  return out;
}

/** A class of one byte is written twice: the matcher's parser reads a class of one as the character of that number. */
function byteRange(low: number, high: number): string {
  return low === high ? byteText(low) + byteText(low) : `${byteText(low)}-${byteText(high)}`;
}

function byteText(byte: number): string {
  return `\\x${byte.toString(16).padStart(2, "0")}`;
}

function utf8(code: number): number[] {
  if (code <= 0x7ff) return [0xc0 | (code >> 6), 0x80 | (code & 0x3f)];
  if (code <= 0xffff) return [0xe0 | (code >> 12), 0x80 | ((code >> 6) & 0x3f), 0x80 | (code & 0x3f)];
  return [0xf0 | (code >> 18), 0x80 | ((code >> 12) & 0x3f), 0x80 | ((code >> 6) & 0x3f), 0x80 | (code & 0x3f)];
}
