// The smallest deterministic automaton over bytes of a regular expression: Thompson's construction, subsets, refinement.
//
// Why the matcher is not simply given the expression's own alternatives: when two alternatives of a rule begin alike it joins
// their states, and it also joins states that end alike; a state that is in both joins then stands for texts that were never
// asked for ("2[5-9][0-9]\.[0-9]{2}|2[5-9][0-9]" takes 291.23.40). In a deterministic automaton nothing begins alike.

import type { RegularNode } from "./regular-node.js";
import { type ByteRange, utf8Ranges } from "./utf8-ranges.js";

export interface Edge {
  readonly range: ByteRange;
  readonly target: number;
}

export interface State {
  readonly isAccepting: boolean;
  /** Disjoint ranges, ascending. */
  readonly edges: readonly Edge[];
}

/** State 0 is the start. */
export type Automaton = readonly State[];

// Large enough for what people write, small enough to be done in some tens of milliseconds.
const MAX_NFA_STATES = 8000;
const MAX_STATES = 1500;
const MAX_WORK = 300_000; // steps: states in closures, edges against cuts

/** null when it would be too large. `budget` is what a caller's whole grammar has left, and is drawn from. */
export function automatonOf(node: RegularNode, budget: { work: number } = { work: MAX_WORK }): Automaton | null {
  const nfa = new Nfa();
  const maxWork = Math.min(MAX_WORK, budget.work);
  const start = nfa.addState();
  const end = nfa.addState();
  if (!nfa.connect(node, start, end)) return null;
  const states = determinize(nfa, start, end, maxWork);
  budget.work -= nfa.work;
  return states === null ? null : minimize(states);
}

/** With transitions that read nothing. */
class Nfa {
  readonly free: number[][] = [];
  readonly edges: Edge[][] = [];
  work = 0;
  readonly #ranges = new Map<RegularNode, ByteRange[][]>();

  addState(): number {
    this.free.push([]);
    return this.edges.push([]) - 1;
  }

  /** Adds what leads from `from` to `to` by the node; false when the whole grows too large. */
  connect(node: RegularNode, from: number, to: number): boolean {
    if (this.edges.length > MAX_NFA_STATES) return false;
    switch (node.kind) {
      case "chars":
        for (const sequence of this.#rangesOf(node)) this.#connectBytes(sequence, from, to);
        return true;
      case "choice":
        return node.nodes.every((part) => this.connect(part, from, to));
      case "sequence":
        return this.#connectAll(node.nodes, from, to);
      case "repeat":
        return this.#connectRepeat(node.node, node.min, node.max, from, to);
    }
  }

  /** Computed once for all repetitions of a node. */
  #rangesOf(node: Extract<RegularNode, { kind: "chars" }>): ByteRange[][] {
    let ranges = this.#ranges.get(node);
    if (ranges === undefined) {
      ranges = utf8Ranges(node.points);
      this.#ranges.set(node, ranges);
    }
    return ranges;
  }

  #connectBytes(sequence: readonly ByteRange[], from: number, to: number): void {
    let at = from;
    sequence.forEach((range, i) => {
      const next = i === sequence.length - 1 ? to : this.addState();
      this.edges[at]!.push({ range, target: next });
      at = next;
    });
  }

  #connectAll(nodes: readonly RegularNode[], from: number, to: number): boolean {
    let at = from;
    for (const node of nodes) {
      const next = this.addState();
      if (!this.connect(node, at, next)) return false;
      at = next;
    }
    this.free[at]!.push(to);
    return true;
  }

  #connectRepeat(node: RegularNode, min: number, max: number | null, from: number, to: number): boolean {
    let at = this.addState(); // a state of its own: a loop must not lead back into what comes before
    this.free[from]!.push(at);
    for (let i = 0; i < (max ?? min); i++) {
      if (i >= min) this.free[at]!.push(to);
      const next = this.addState();
      if (!this.connect(node, at, next)) return false;
      at = next;
    }
    if (max === null) {
      const back = this.addState();
      if (!this.connect(node, at, back)) return false;
      this.free[back]!.push(at);
    }
    this.free[at]!.push(to);
    return true;
  }
}

function determinize(nfa: Nfa, start: number, end: number, maxWork: number): State[] | null {
  const ids = new Map<string, number>();
  const subsets: number[][] = [];
  const idOf = (subset: number[]): number => {
    const key = subset.join(",");
    let id = ids.get(key);
    if (id === undefined) {
      id = subsets.push(subset) - 1;
      ids.set(key, id);
    }
    return id;
  };
  idOf(closure(nfa, [start]));
  const states: State[] = [];
  for (let i = 0; i < subsets.length; i++) {
    if (subsets.length > MAX_STATES || nfa.work > maxWork) return null;
    const subset = subsets[i]!;
    states.push({ isAccepting: subset.includes(end), edges: edgesOf(nfa, subset, idOf) });
  }
  return states;
}

/** The subset's transitions, cut where any of its ranges begins or ends. */
function edgesOf(nfa: Nfa, subset: readonly number[], idOf: (subset: number[]) => number): Edge[] {
  const all = subset.flatMap((state) => nfa.edges[state]!);
  const cuts = [...new Set(all.flatMap(({ range }) => [range[0], range[1] + 1]))].sort((a, b) => a - b);
  nfa.work += (cuts.length * all.length) >> 3;
  const edges: Edge[] = [];
  for (let i = 0; i + 1 < cuts.length; i++) {
    const low = cuts[i]!;
    const high = cuts[i + 1]! - 1;
    const targets = all.filter(({ range }) => range[0] <= low && high <= range[1]).map((edge) => edge.target);
    if (targets.length === 0) continue;
    const target = idOf(closure(nfa, targets));
    const last = edges.at(-1);
    if (last !== undefined && last.target === target && last.range[1] + 1 === low)
      edges[edges.length - 1] = { range: [last.range[0], high], target };
    else edges.push({ range: [low, high], target });
  }
  return edges;
}

/** Ascending, so that equal subsets have equal keys. */
function closure(nfa: Nfa, from: readonly number[]): number[] {
  const seen = new Set(from);
  const stack = [...from];
  for (let state = stack.pop(); state !== undefined; state = stack.pop()) {
    for (const next of nfa.free[state]!) {
      if (seen.has(next)) continue;
      seen.add(next);
      stack.push(next);
    }
  }
  nfa.work += seen.size;
  return [...seen].sort((a, b) => a - b);
}

/** Joins states of which nothing that follows can tell them apart: classes are split until none can be. */
function minimize(states: readonly State[]): State[] {
  let classes = firstClasses(states);
  for (let count = new Set(classes).size; ; ) {
    const ids = new Map<string, number>();
    const next = states.map((state, i) => {
      const key = `${classes[i]}|${mergedEdges(state.edges, classes)
        .map(({ range, target }) => `${range[0]}-${range[1]}:${target}`)
        .join(" ")}`;
      if (!ids.has(key)) ids.set(key, ids.size);
      return ids.get(key)!;
    });
    classes = next;
    if (ids.size === count) break;
    count = ids.size;
  }
  // State 0 came first, so its class is 0.
  const out: State[] = [];
  states.forEach((state, i) => {
    out[classes[i]!] ??= { isAccepting: state.isAccepting, edges: mergedEdges(state.edges, classes) };
  });
  return out;
}

/**
 * By whether they accept and how long a text they can still read: a sound beginning, since states that nothing tells apart agree
 * in both, and one that leaves long counted repetitions little to refine.
 */
function firstClasses(states: readonly State[]): number[] {
  const longest = new Array<number>(states.length).fill(-1); // Infinity while it is being computed: then it is on a cycle
  const visit = (state: number): number => {
    if (longest[state] !== -1) return longest[state]!;
    longest[state] = Number.POSITIVE_INFINITY;
    let length = 0;
    for (const { target } of states[state]!.edges) length = Math.max(length, 1 + visit(target));
    longest[state] = length;
    return length;
  };
  const ids = new Map<string, number>();
  return states.map((state, i) => {
    const key = `${state.isAccepting} ${visit(i)}`;
    if (!ids.has(key)) ids.set(key, ids.size);
    return ids.get(key)!;
  });
}

function mergedEdges(edges: readonly Edge[], classes: readonly number[]): Edge[] {
  const out: Edge[] = [];
  for (const { range, target } of edges) {
    const last = out.at(-1);
    if (last !== undefined && last.target === classes[target] && last.range[1] + 1 === range[0])
      out[out.length - 1] = { range: [last.range[0], range[1]], target: last.target };
    else out.push({ range, target: classes[target]! });
  }
  return out;
}
