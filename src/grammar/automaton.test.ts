import assert from "node:assert/strict";
import { test } from "node:test";
import { automatonOf } from "./automaton.js";
import { regexNode } from "./regex-node.js";
import type { RegularNode } from "./regular-node.js";

const A: RegularNode = { kind: "chars", points: [[97, 97]] };
const repeated = (node: RegularNode, times: number): RegularNode => ({ kind: "repeat", node, min: times, max: times });
const choice = (nodes: RegularNode[]): RegularNode => ({ kind: "choice", nodes });
const isMade = (node: RegularNode, work: number) => automatonOf(node, { work }) !== null;
/** States of the automaton and what it drew from a budget. */
function made(node: RegularNode, work: number) {
  const budget = { work };
  const automaton = automatonOf(node, budget);
  return [automaton?.length ?? null, work - budget.work];
}

test("states, edges and ends of small sets", () => {
  const shown = (source: string) =>
    automatonOf(regexNode(source, false))!.map(
      ({ isAccepting, edges }) =>
        `${edges.map(({ range: [low, high], target }) => `${low.toString(16)}-${high.toString(16)}>${target}`).join(" ")}${isAccepting ? "." : ""}`,
    );
  const table: Record<string, string[]> = {
    "": ["."],
    a: ["61-61>1", "."],
    "a*": ["61-61>0."],
    "a+": ["61-61>1", "61-61>1."],
    "a?b": ["61-61>1 62-62>2", "62-62>2", "."],
    "a{1,3}": ["61-61>1", "61-61>2.", "61-61>3.", "."],
    // Ranges that overlap, touch or lead to the same state are one.
    "[a-c]|[b-d]": ["61-64>1", "."],
    "[a-c]x|[b-d]y": ["61-61>1 62-63>2 64-64>3", "78-78>4", "78-79>4", "79-79>4", "."],
    "[a-c]x|[d-f]x": ["61-66>1", "78-78>2", "."],
    "a|b|d": ["61-62>1 64-64>1", "."],
    "ab|cb": ["61-61>1 63-63>1", "62-62>2", "."],
    "(ab)*": ["61-61>1.", "62-62>0"],
    // Two and three bytes.
    "é|ê": ["c3-c3>1", "a9-aa>2", "."],
    "[\\u07ff-\\u0801]": ["df-df>1 e0-e0>2", "bf-bf>3", "a0-a0>4", ".", "80-81>3"],
    // Whatever says the same has the same states.
    "(a|ab)(c|bcd)?": ["61-61>1", "62-62>2 63-63>3.", "62-62>4 63-63>5.", ".", "63-63>6", "64-64>3.", "64-64>3"],
  };
  for (const [source, states] of Object.entries(table)) assert.deepEqual(shown(source), states, source);
});

test("work is the states in closures and an eighth of edges times cuts, and is drawn from the budget", () => {
  // [source, states, work in all, the least budget it is made with]: the last state's own work comes after the last look.
  const table: [string, number, number, number][] = [
    ["", 1, 2, 2],
    ["a", 2, 2, 2],
    ["ab", 3, 4, 4],
    ["a|b", 2, 3, 3],
    ["a*", 1, 9, 6],
    ["a+", 2, 10, 7],
    ["a{2,3}", 4, 7, 7],
    ["[a-c]|[b-d]", 2, 5, 5],
    ["(ab|cd)*e", 4, 29, 23],
    ["\\d{4}-\\d{2}", 8, 13, 13],
    ["(a|b)*a(a|b){3}", 16, 246, 237],
    [".{20}", 201, 1497, 1495],
  ];
  for (const [source, states, work, least] of table) {
    const node = regexNode(source, false);
    assert.deepEqual(made(node, 2000), [states, work], source);
    assert.deepEqual([isMade(node, least), isMade(node, least - 1)], [true, false], source);
  }
});

test("the most states and the most work, whatever the budget", () => {
  assert.deepEqual(made(repeated(A, 1499), 5000), [1500, 1502]);
  assert.deepEqual(made(repeated(A, 1500), 5000), [null, 1503]);
  // 2 states for the ends and 2 for each sequence; nothing is drawn where none is begun.
  const pairs = (count: number) => choice(Array(count).fill({ kind: "sequence", nodes: [A, A] }));
  assert.deepEqual(made(pairs(3999), 20_000), [3, 9998]);
  assert.deepEqual(made(pairs(4000), 20_000), [null, 0]);
  const large = pairs(4000);
  for (const node of [
    { kind: "sequence", nodes: [A, large] },
    { kind: "sequence", nodes: [large, A] },
    { kind: "choice", nodes: [A, large] },
    { kind: "repeat", node: large, min: 1, max: 1 },
    { kind: "repeat", node: large, min: 0, max: null },
  ] as RegularNode[])
    assert.deepEqual(made(node, 20_000), [null, 0], node.kind);
  const dear = regexNode("(a|b)*a(a|b){8}", false);
  const copies = (count: number) => choice(Array(count).fill(dear));
  assert.deepEqual(made(copies(26), 1_000_000), [512, 281_762]);
  assert.deepEqual(made(copies(28), 1_000_000), [null, 300_120]);
});
