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

/** Looks for something in text that comes piece by piece, at each piece once. */
export interface Watch {
  /** Whether it is in the text seen so far and `text`, which comes next. */
  sees(text: string): boolean;
}

/** One of several markers, none of which is in `seen` as a whole. */
export class TagWatch implements Watch {
  readonly #tags: readonly string[];
  readonly #overlap: number;
  /** The end of what was seen, which a marker may have begun in. */
  #end: string;

  constructor(tags: readonly string[], seen: string) {
    this.#tags = tags;
    this.#overlap = Math.max(...tags.map((tag) => tag.length)) - 1;
    this.#end = this.#endOf(seen);
  }

  sees(text: string): boolean {
    const looked = this.#end + text;
    this.#end = this.#endOf(looked);
    return this.#tags.some((tag) => looked.includes(tag));
  }

  #endOf(text: string): string {
    return text.slice(Math.max(0, text.length - this.#overlap));
  }
}

/** White space before a marker that is taken for its own; more is text. It is looked at again with every token. */
export const MOST_SPACE = 1024;

/** Whether `rest`, what is left of `text` without white space at its beginning, had too much of it before. */
export function isFarOff(text: string, rest: string): boolean {
  return text.length - rest.length > MOST_SPACE;
}

/** How much of the first `end` characters is text for certain: white space at their end may belong to a marker that follows. */
export function textLen(text: string, end: number): number {
  const from = Math.max(0, end - MOST_SPACE);
  return from + text.slice(from, end).trimEnd().length;
}
