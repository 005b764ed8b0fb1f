// A regular set as rules of a grammar: one rule for each state of its automaton where ways part.

import { type Automaton, automatonOf } from "./automaton.js";
import { boundedRun, MAX_CHAIN } from "./bounded-string.js";
import { byteClass, charAlternatives } from "./char-set.js";
import type { RegularNode } from "./regular-node.js";
import { anyOf, type RuleSet, repeat } from "./rules.js";

/** A rule that matches the set and then `tail`, a body that may be empty. */
export function regularRule(rules: RuleSet, hint: string, node: RegularNode, tail = ""): string {
  return rules.once(JSON.stringify([node, tail]), () => makeRule(rules, hint, node, tail));
}

function makeRule(rules: RuleSet, hint: string, node: RegularNode, tail: string): string {
  if (countsFar(node)) return rules.add(hint, `${shapeOf(rules, node)} ${tail}`.trim());
  const automaton = automatonOf(node, rules.budget);
  // Too many states: its own shape must do. Only alternatives that both begin and end alike could go wrong in it.
  if (automaton === null) return rules.add(hint, `${shapeOf(rules, node)} ${tail}`.trim());
  const base = rules.freshName(hint);
  const nameOf = (state: number): string => `${base}_${state}`;
  const pending = [0];
  const refer = (state: number): string => {
    if (!rules.has(nameOf(state)) && !pending.includes(state)) pending.push(state);
    return nameOf(state);
  };
  for (let state = pending.shift(); state !== undefined; state = pending.shift())
    rules.define(nameOf(state), bodyOf(automaton, state, refer, tail));
  return nameOf(0);
}

function bodyOf(automaton: Automaton, state: number, refer: (state: number) => string, tail: string): string {
  const { isAccepting, edges } = automaton[state]!;
  const alternatives = isAccepting ? [tail === "" ? '""' : tail] : [];
  for (const target of new Set(edges.map((edge) => edge.target))) {
    const ranges = edges.filter((edge) => edge.target === target).map((edge) => edge.range);
    alternatives.push(`${byteClass(ranges)} ${pathFrom(automaton, target, refer, tail)}`.trim());
  }
  return alternatives.join(" | ");
}

/** States with one way on are written out; the next one where ways part, or that may end, is a rule. */
function pathFrom(automaton: Automaton, from: number, refer: (state: number) => string, tail: string): string {
  const parts: string[] = [];
  let state = from;
  for (;;) {
    const { isAccepting, edges } = automaton[state]!;
    if (isAccepting && edges.length === 0) return [...parts, tail].join(" ").trim();
    const isStraight = !isAccepting && edges.every((edge) => edge.target === edges[0]!.target);
    if (!isStraight || state === 0) return [...parts, refer(state)].join(" ");
    parts.push(byteClass(edges.map((edge) => edge.range)));
    state = edges[0]!.target;
  }
}

function shapeOf(rules: RuleSet, node: RegularNode): string {
  const shapesOf = (nodes: readonly RegularNode[]): string[] => nodes.map((one) => shapeOf(rules, one));
  switch (node.kind) {
    case "chars":
      return anyOf(charAlternatives(node.points));
    case "choice":
      return `(${shapesOf(node.nodes).join(" | ")})`;
    case "repeat":
      if (isFar(node)) return boundedRun(rules, charAlternatives(node.node.points), node.min, node.max);
      return repeat(`(${shapeOf(rules, node.node)})`, node.min, node.max);
    case "sequence":
      return node.nodes.length === 0 ? '""' : shapesOf(node.nodes).join(" ");
  }
}

type CharRepeat = Extract<RegularNode, { kind: "repeat" }> & { readonly node: Extract<RegularNode, { kind: "chars" }> };

/** Characters of one set are counted beyond what an automaton, which has a state for each, is good for. */
function isFar(node: RegularNode): node is CharRepeat {
  if (node.kind !== "repeat" || node.node.kind !== "chars") return false;
  const most = Math.max(node.min, node.max ?? 0);
  return most > MAX_CHAIN && most <= MAX_COUNTED;
}

/** Nobody writes more; a rule for each block of it would be too many. */
const MAX_COUNTED = 16_384;

/** The same somewhere in a row of sets that are counted, with no alternatives beside it. */
function countsFar(node: RegularNode): boolean {
  const parts = node.kind === "sequence" ? node.nodes : [node];
  const isSimple = (part: RegularNode): boolean =>
    part.kind === "chars" || (part.kind === "repeat" && part.node.kind === "chars");
  return parts.every(isSimple) && parts.some(isFar);
}
