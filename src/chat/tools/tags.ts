// Markers in text that is still coming.

/** Length of the longest end of `text` that is a beginning of `tag`. */
export function partialTagLen(text: string, tag: string): number {
  for (let length = Math.min(text.length, tag.length - 1); length > 0; length--) {
    if (text.endsWith(tag.slice(0, length))) return length;
  }
  return 0;
}

/** The tag that comes first in `text` from `start` on, and where it stands. */
export function firstTag(text: string, tags: readonly string[], start = 0): { tag: string; at: number } | null {
  let best: { tag: string; at: number } | null = null;
  for (const tag of tags) {
    const at = text.indexOf(tag, start);
    if (at >= 0 && (best === null || at < best.at)) best = { tag, at };
  }
  return best;
}

/** White space before a marker that is taken for its own; more is text. It is looked at again with every token. */
export const MOST_SPACE = 1024;

/** How much of the first `end` characters is text for certain: white space at their end may belong to a marker that follows. */
export function textLen(text: string, end: number): number {
  const from = Math.max(0, end - MOST_SPACE);
  return from + text.slice(from, end).trimEnd().length;
}
