// Tints what was guessed ahead and came true, without touching the markup it stands in (CSS custom highlights; browsers without them tint
// nothing).

import { type Span, shownSpans } from "../../data/guess-spans.js";

const NAME = "guessed";
const highlight = typeof Highlight === "undefined" ? null : new Highlight();
if (highlight !== null) CSS.highlights.set(NAME, highlight);

export class GuessTint {
  readonly #root: Node;
  #ranges: Range[] = [];

  constructor(root: Node) {
    this.#root = root;
  }

  show(source: string, spans: readonly Span[]): void {
    if (highlight === null || (spans.length === 0 && this.#ranges.length === 0)) return;
    for (const range of this.#ranges) highlight.delete(range);
    const texts = textsOf(this.#root);
    const shown = texts.map(({ data }) => data).join("");
    this.#ranges = rangesOf(texts, shownSpans(source, shown, spans));
    for (const range of this.#ranges) highlight.add(range);
  }
}

function textsOf(root: Node): Text[] {
  const texts: Text[] = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode() !== null) texts.push(walker.currentNode as Text);
  return texts;
}

/** Both in order. */
function rangesOf(texts: readonly Text[], spans: readonly Span[]): Range[] {
  let node = 0;
  let before = 0; // characters of the nodes before it
  const placeOf = (at: number): readonly [Text, number] => {
    while (node + 1 < texts.length && at - before > texts[node]!.length) before += texts[node++]!.length;
    return [texts[node]!, at - before];
  };
  return spans.map(([start, end]) => {
    const range = document.createRange();
    range.setStart(...placeOf(start));
    range.setEnd(...placeOf(end));
    return range;
  });
}
