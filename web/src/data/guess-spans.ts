// Where the guessed parts of an answer's source stand in the text that is shown of it. What is shown is the source without its markup, so both
// are walked side by side.

export type Span = readonly [start: number, end: number];

/** After so many characters of the source that are not shown, the place is looked for again. */
const LOST_AFTER = 24;
const SAMPLE = 12;

/** `spans`: parts of `source`, in order. Parts of which nothing is shown are left out. */
export function shownSpans(source: string, shown: string, spans: readonly Span[]): Span[] {
  const found: Span[] = [];
  let at = 0; // in what is shown
  let numUnmatched = 0;
  let next = 0; // of the spans
  let first = -1; // where the shown part of the span begins
  let last = 0; // and ends
  for (let i = 0; i < source.length && next < spans.length; i++) {
    while (shown[at] !== source[i] && /\s/.test(shown[at] ?? "")) at++;
    if (numUnmatched >= LOST_AFTER) at = foundAgain(source, i, shown, at);
    const [start, end] = spans[next]!;
    if (shown[at] === source[i]) {
      numUnmatched = 0;
      if (i >= start && first < 0) first = at;
      last = ++at;
    } else numUnmatched++;
    if (i + 1 < end) continue;
    if (first >= 0) found.push([first, last]);
    first = -1;
    next++;
  }
  return found;
}

function foundAgain(source: string, i: number, shown: string, at: number): number {
  const there = shown.indexOf(source.slice(i, i + SAMPLE), at);
  return there < 0 ? at : there;
}
