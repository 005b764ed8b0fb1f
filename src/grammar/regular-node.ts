// A regular set of texts as a tree: what expressions, number ranges and lists of values become before they become grammar.

import type { CodePoints } from "./code-points.js";

export type RegularNode =
  | { readonly kind: "chars"; readonly points: CodePoints }
  | { readonly kind: "sequence" | "choice"; readonly nodes: readonly RegularNode[] }
  | { readonly kind: "repeat"; readonly node: RegularNode; readonly min: number; readonly max: number | null };

export const NOTHING: RegularNode = { kind: "sequence", nodes: [] };

/** Exactly this text. */
export function textNode(text: string): RegularNode {
  return {
    kind: "sequence",
    nodes: [...text].map((char) => {
      const code = char.codePointAt(0)!;
      return { kind: "chars", points: [[code, code]] };
    }),
  };
}
