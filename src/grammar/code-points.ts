// Sets of Unicode code points as ascending disjoint ranges. Surrogates are never members: they are not characters of a text.

/** Inclusive ranges of code points, ascending and disjoint. */
export type CodePoints = readonly (readonly [number, number])[];

const LAST = 0x10ffff;
const SURROGATES: readonly [number, number] = [0xd800, 0xdfff];

export const DIGITS: CodePoints = [[48, 57]];
export const WORD: CodePoints = union([
  [48, 57],
  [65, 90],
  [95, 95],
  [97, 122],
]);
export const SPACES: CodePoints = union([
  [9, 13],
  [32, 32],
  [0xa0, 0xa0],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x2028, 0x2029],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x3000, 0x3000],
  [0xfeff, 0xfeff],
]);
export const LINE_ENDS: CodePoints = union([
  [10, 10],
  [13, 13],
  [0x2028, 0x2029],
]);
export const ANY: CodePoints = complement([]);
/** What UTF-16 writes with two units. */
export const BEYOND_BASIC_PLANE: CodePoints = [[0x10000, LAST]];

export function union(ranges: CodePoints): CodePoints {
  const sorted = [...ranges].sort((a, b) => a[0] - b[0]);
  const out: [number, number][] = [];
  for (const [low, high] of sorted) {
    const last = out.at(-1);
    if (last !== undefined && low <= last[1] + 1) last[1] = Math.max(last[1], high);
    else out.push([low, high]);
  }
  return out;
}

export function complement(ranges: CodePoints): CodePoints {
  const out: [number, number][] = [];
  let next = 0;
  for (const [low, high] of union([...ranges, SURROGATES])) {
    if (next < low) out.push([next, low - 1]);
    next = high + 1;
  }
  if (next <= LAST) out.push([next, LAST]);
  return out;
}

export function subtract(ranges: CodePoints, removed: CodePoints): CodePoints {
  return complement(union([...complement(ranges), ...removed]));
}

export function contains(ranges: CodePoints, code: number): boolean {
  return ranges.some(([low, high]) => low <= code && code <= high);
}
