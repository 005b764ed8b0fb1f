// Sets of code points as sequences of byte ranges: what their UTF-8 looks like. [a-zé] is [61-7a] or [c3][a9].

import type { CodePoints } from "./code-points.js";

/** Inclusive. */
export type ByteRange = readonly [number, number];

/** Last code point of each length in UTF-8. */
const LAST_OF_LENGTH = [0x7f, 0x7ff, 0xffff, 0x10ffff];

/** The ASCII part as ranges of one byte, then the rest as longer sequences. */
export function utf8Ranges(points: CodePoints): ByteRange[][] {
  return points.flatMap((range) => splitByLength(range).flatMap(([low, high]) => between(encode(low), encode(high))));
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

/** The byte strings between two of the same length. */
function between(low: readonly number[], high: readonly number[]): ByteRange[][] {
  const [head, ...lowRest] = low as [number, ...number[]];
  const [tail, ...highRest] = high as [number, ...number[]];
  if (lowRest.length === 0) return [[[head, tail]]];
  if (head === tail) return between(lowRest, highRest).map((rest) => [[head, head], ...rest]);
  const first = lowRest.map(() => 0x80);
  const last = lowRest.map(() => 0xbf);
  const out: ByteRange[][] = [];
  let from = head;
  let to = tail;
  if (lowRest.some((byte) => byte !== 0x80)) {
    out.push(...between([head, ...lowRest], [head, ...last]));
    from++;
  }
  const isPartial = highRest.some((byte) => byte !== 0xbf);
  if (isPartial) to--;
  if (from <= to) out.push([[from, to], ...first.map((): ByteRange => [0x80, 0xbf])]);
  if (isPartial) out.push(...between([tail, ...first], [tail, ...highRest]));
  return out;
}

function encode(code: number): number[] {
  if (code <= 0x7f) return [code];
  if (code <= 0x7ff) return [0xc0 | (code >> 6), 0x80 | (code & 0x3f)];
  if (code <= 0xffff) return [0xe0 | (code >> 12), 0x80 | ((code >> 6) & 0x3f), 0x80 | (code & 0x3f)];
  return [0xf0 | (code >> 18), 0x80 | ((code >> 12) & 0x3f), 0x80 | ((code >> 6) & 0x3f), 0x80 | (code & 0x3f)];
}
