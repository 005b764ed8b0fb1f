// A regular expression as a regular set: the texts that match it as a whole. Inside a JSON string (`isJson`) each character
// stands as JSON writes it. The set may be narrower than the expression (control characters without a short JSON escape are left
// out), never wider.

import { RequestError } from "../core/errors.js";
import { BEYOND_BASIC_PLANE, type CodePoints, contains, subtract } from "./code-points.js";
import { parseRegex, type RegexNode } from "./regex-parser.js";
import { NOTHING, type RegularNode, textNode } from "./regular-node.js";

/** Characters that JSON writes with a backslash, and how. */
const JSON_ESCAPES: readonly (readonly [number, string])[] = [
  [0x22, '\\"'],
  [0x5c, "\\\\"],
  [0x08, "\\b"],
  [0x0c, "\\f"],
  [0x0a, "\\n"],
  [0x0d, "\\r"],
  [0x09, "\\t"],
];
const NOT_PLAIN_IN_JSON: CodePoints = [
  [0, 0x1f],
  [0x22, 0x22],
  [0x5c, 0x5c],
];

export function regexNode(source: string, isJson: boolean): RegularNode {
  return resolve(parseRegex(source), { isJson, isFirst: true, isLast: true });
}

interface Place {
  readonly isJson: boolean;
  /** Nothing can come before: ^ is true here. */
  readonly isFirst: boolean;
  /** Nothing can come after: $ is true here. */
  readonly isLast: boolean;
}

/** Without anchors, which must be true where they stand. */
function resolve(node: RegexNode, place: Place): RegularNode {
  switch (node.kind) {
    case "chars":
      return place.isJson ? jsonChars(node.points) : node;
    case "start":
      return place.isFirst ? NOTHING : fail("^ can only stand at the beginning");
    case "end":
      return place.isLast ? NOTHING : fail("$ can only stand at the end");
    case "choice":
      return { kind: "choice", nodes: node.nodes.map((part) => resolve(part, place)) };
    case "repeat":
      return { ...node, node: resolve(node.node, { ...place, isFirst: false, isLast: false }) };
    case "sequence":
      return { kind: "sequence", nodes: node.nodes.map((part, i) => resolve(part, placeOf(node.nodes, i, place))) };
  }
}

function placeOf(nodes: readonly RegexNode[], i: number, place: Place): Place {
  return {
    ...place,
    isFirst: place.isFirst && nodes.slice(0, i).every((before) => before.kind === "start"),
    isLast: place.isLast && nodes.slice(i + 1).every((after) => after.kind === "end"),
  };
}

function jsonChars(points: CodePoints): RegularNode {
  const all = subtract(points, NOT_PLAIN_IN_JSON);
  const basic = subtract(all, BEYOND_BASIC_PLANE);
  // Validators disagree on whether a character beyond the basic plane is one or two; it is offered only where nothing else is.
  const plain = basic.length > 0 ? basic : all;
  const nodes: RegularNode[] = JSON_ESCAPES.filter(([code]) => contains(points, code)).map(([, text]) =>
    textNode(text),
  );
  if (plain.length > 0) nodes.unshift({ kind: "chars", points: plain });
  if (nodes.length === 0) fail("it asks for a control character that JSON cannot write briefly");
  return nodes.length === 1 ? nodes[0]! : { kind: "choice", nodes };
}

function fail(reason: string): never {
  throw new RequestError("invalid_regex", { index: 0, reason });
}
