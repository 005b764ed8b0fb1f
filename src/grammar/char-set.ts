// One character out of a set, as grammar. The matcher's character classes speak of bytes, so a set of code points is written as
// the byte sequences of its UTF-8. They are written where they are used, not as a rule of their own: the matcher knows ahead of
// time which tokens fit within a rule, but must try, at every step, each token that reaches beyond the end of one.

import type { CodePoints } from "./code-points.js";
import { type ByteRange, utf8Ranges } from "./utf8-ranges.js";

/** The alternatives that match one character of the set: a class for its ASCII part, byte sequences for the rest. */
export function charAlternatives(points: CodePoints): string[] {
  const sequences = utf8Ranges(points);
  const ascii = sequences.filter((sequence) => sequence.length === 1).map((sequence) => sequence[0]!);
  const wide = sequences.filter((sequence) => sequence.length > 1);
  return [
    ...(ascii.length > 0 ? [byteClass(ascii)] : []),
    ...wide.map((sequence) => sequence.map((range) => byteClass([range])).join(" ")),
  ];
}

export function byteClass(ranges: readonly ByteRange[]): string {
  // A class of one byte is written twice: the matcher's parser reads a class of one as the character of that number.
  const parts = ranges.map(([low, high]) =>
    low === high ? byteText(low) + byteText(low) : `${byteText(low)}-${byteText(high)}`,
  );
  return `[${parts.join("")}]`;
}

function byteText(byte: number): string {
  return `\\x${byte.toString(16).padStart(2, "0")}`;
}
