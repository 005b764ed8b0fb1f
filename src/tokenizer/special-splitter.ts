// Finds special tokens written out in a text: leftmost first, the longest of those that begin together.

import type { Spans } from "./tokenizer.js";

export type Fragment = string | number;

interface Node {
  readonly next: Map<number, Node>;
  /** The token that ends here, or -1. */
  id: number;
}

export class SpecialSplitter {
  readonly #root: Node = { next: new Map(), id: -1 };
  readonly #stripsAfter: (id: number) => boolean;
  readonly #isControl: (id: number) => boolean;

  /** `stripsAfter`: the spaces after this token belong to it. `isControl`: content cannot write this token. */
  constructor(
    tokens: Iterable<readonly [string, number]>,
    stripsAfter: (id: number) => boolean = () => false,
    isControl: (id: number) => boolean = () => true,
  ) {
    this.#stripsAfter = stripsAfter;
    this.#isControl = isControl;
    for (const [text, id] of tokens) {
      let node = this.#root;
      for (let i = 0; i < text.length; i++) {
        const code = text.charCodeAt(i);
        let child = node.next.get(code);
        if (child === undefined) {
          child = { next: new Map(), id: -1 };
          node.next.set(code, child);
        }
        node = child;
      }
      if (text !== "") node.id = id;
    }
  }

  /** The text as stretches of plain text and token ids, in order. A control token that touches `content` is plain text. */
  split(text: string, content: Spans = []): Fragment[] {
    const fragments: Fragment[] = [];
    let plainStart = 0;
    let span = 0; // the first span that does not end before `at`
    for (let at = 0; at < text.length; ) {
      while (span < content.length && content[span]![1] <= at) span++;
      const contentStart = span < content.length ? content[span]![0] : text.length;
      let node: Node | undefined = this.#root;
      let id = -1;
      let end = at;
      for (let i = at; i < text.length; ) {
        node = node.next.get(text.charCodeAt(i++));
        if (node === undefined) break;
        if (node.id >= 0 && (i <= contentStart || !this.#isControl(node.id))) {
          id = node.id;
          end = i;
        }
      }
      if (id < 0) {
        at++;
        continue;
      }
      if (at > plainStart) fragments.push(text.slice(plainStart, at));
      fragments.push(id);
      if (this.#stripsAfter(id)) while (end < text.length && " \t\n\v\f\r".includes(text[end]!)) end++;
      at = end;
      plainStart = end;
    }
    if (plainStart < text.length) fragments.push(text.slice(plainStart));
    return fragments;
  }
}
