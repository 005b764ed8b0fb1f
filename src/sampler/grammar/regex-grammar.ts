// A regular expression as grammar: the texts that match it as a whole. Inside a JSON string (`isJson`) each character stands
// as JSON writes it. The grammar may be narrower than the expression (control characters without a short JSON escape are left
// out), never wider.

import { RequestError } from "../../core/errors.js";
import { charAlternatives } from "./char-set.js";
import { type CodePoints, contains, subtract } from "./code-points.js";
import { parseRegex, type RegexNode } from "./regex-parser.js";
import { anyOf, literal, repeat } from "./rules.js";

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

/** A body that matches the expression. */
export function regexGrammar(source: string, isJson: boolean): string {
  return emit(parseRegex(source), { isJson, isFirst: true, isLast: true });
}

interface Place {
  readonly isJson: boolean;
  /** Nothing can come before: ^ is true here. */
  readonly isFirst: boolean;
  /** Nothing can come after: $ is true here. */
  readonly isLast: boolean;
}

function emit(node: RegexNode, place: Place): string {
  switch (node.kind) {
    case "chars":
      return emitChars(node.points, place.isJson);
    case "start":
      return place.isFirst ? '""' : fail("^ can only stand at the beginning");
    case "end":
      return place.isLast ? '""' : fail("$ can only stand at the end");
    case "choice":
      return `(${node.nodes.map((part) => emit(part, place)).join(" | ")})`;
    case "repeat":
      return repeat(`(${emit(node.node, { ...place, isFirst: false, isLast: false })})`, node.min, node.max);
    case "sequence":
      return emitSequence(node.nodes, place);
  }
}

function emitSequence(nodes: readonly RegexNode[], place: Place): string {
  if (nodes.length === 0) return '""';
  const parts = nodes.map((part, i) => {
    const isFirst = place.isFirst && nodes.slice(0, i).every((before) => before.kind === "start");
    const isLast = place.isLast && nodes.slice(i + 1).every((after) => after.kind === "end");
    return emit(part, { ...place, isFirst, isLast });
  });
  const kept = parts.filter((part) => part !== '""');
  return kept.length === 0 ? '""' : kept.join(" ");
}

function emitChars(points: CodePoints, isJson: boolean): string {
  if (!isJson) return anyOf(charAlternatives(points));
  const plain = subtract(points, NOT_PLAIN_IN_JSON);
  const escaped = JSON_ESCAPES.filter(([code]) => contains(points, code)).map(([, text]) => literal(text));
  if (plain.length === 0 && escaped.length === 0)
    fail("it asks for a control character that JSON cannot write briefly");
  return anyOf([...(plain.length > 0 ? charAlternatives(plain) : []), ...escaped]);
}

function fail(reason: string): never {
  throw new RequestError("invalid_regex", { index: 0, reason });
}
