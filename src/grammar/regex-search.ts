// Whether an expression matches somewhere in a text that is known. ECMAScript's own matcher could be kept busy without end by a hostile
// expression; here it is asked once for each part of the expression and each position where matches end that begin there.

import { contains } from "./code-points.js";
import type { RegexNode } from "./regex-parser.js";

/** null when it would take too long. `budget` is what a caller has left, and is drawn from. */
export function searchRegex(node: RegexNode, text: string, budget: { work: number }): boolean | null {
  const search = new RegexSearch(text, budget);
  let isFound = false;
  for (let at = 0; at <= search.length && !isFound && budget.work > 0; at++) isFound = search.endsOf(node, at).size > 0;
  return budget.work > 0 ? isFound : null;
}

type Positions = ReadonlySet<number>;
const NOWHERE: Positions = new Set();

class RegexSearch {
  readonly #codes: readonly number[];
  readonly #budget: { work: number };
  readonly #known = new Map<RegexNode, Positions[]>();

  constructor(text: string, budget: { work: number }) {
    this.#codes = [...text].map((char) => char.codePointAt(0)!);
    this.#budget = budget;
  }

  get length(): number {
    return this.#codes.length;
  }

  /** Where matches end that begin at `at`; of no meaning once the budget is spent. */
  endsOf(node: RegexNode, at: number): Positions {
    if (--this.#budget.work <= 0) return NOWHERE;
    const known = this.#known.get(node) ?? [];
    this.#known.set(node, known);
    known[at] ??= this.#find(node, at);
    return known[at];
  }

  #find(node: RegexNode, at: number): Positions {
    switch (node.kind) {
      case "chars":
        return at < this.length && contains(node.points, this.#codes[at]!) ? new Set([at + 1]) : NOWHERE;
      case "start":
        return at === 0 ? new Set([at]) : NOWHERE;
      case "end":
        return at === this.length ? new Set([at]) : NOWHERE;
      case "choice":
        return new Set(node.nodes.flatMap((part) => [...this.endsOf(part, at)]));
      case "sequence": {
        let ends: Positions = new Set([at]);
        for (const part of node.nodes) if (ends.size > 0) ends = this.#endsOfAll(part, ends);
        return ends;
      }
      case "repeat":
        return this.#findRepeat(node.node, node.min, node.max ?? Number.POSITIVE_INFINITY, at);
    }
  }

  #findRepeat(node: RegexNode, min: number, max: number, at: number): Positions {
    let ends: Positions = new Set([at]);
    for (let i = 0; i < min; i++) {
      const next = this.#endsOfAll(node, ends);
      // Matches never lead back, so that after a few turns all further ones come to the same.
      if (next.size === ends.size && [...next].every((end) => ends.has(end))) break;
      ends = next;
    }
    const all = new Set(ends);
    for (let i = min; i < max && ends.size > 0; i++) {
      ends = new Set([...this.#endsOfAll(node, ends)].filter((end) => !all.has(end)));
      for (const end of ends) all.add(end);
    }
    return all;
  }

  #endsOfAll(node: RegexNode, from: Positions): Positions {
    const ends = new Set<number>();
    for (const at of from) {
      const found = this.endsOf(node, at);
      this.#budget.work -= found.size;
      for (const end of found) ends.add(end);
    }
    return ends;
  }
}
