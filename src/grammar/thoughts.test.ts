import assert from "node:assert/strict";
import { test } from "node:test";
import type { ConstraintSpec, ThoughtsSpec, TokenConstraint } from "./constraint.js";
import { openConstraint } from "./thoughts.js";
import { XGrammarCompiler } from "./xgrammar/xgrammar-compiler.js";

const [A, B, OPEN, CLOSE, THEN, STOP] = [0, 1, 2, 3, 4, 5];
const NAMES = ["a", "b", "<", ">", "then", "$"];
const bytes = ["a", "b", "", "", "", ""].map((text) => Buffer.from(text));
const compiler = new XGrammarCompiler(() => ({ bytes, stopIds: [STOP] }));
const stopIds = Int32Array.of(STOP);

function opened(thoughts: Partial<ThoughtsSpec>, source: string | null, accepted: readonly number[] = []) {
  const spec: ConstraintSpec = {
    ...(source === null ? { kind: "any", source: "" } : { kind: "regex", source }),
    thoughts: { begin: "open", open: [], close: CLOSE, after: [], budget: null, ...thoughts },
  };
  return openConstraint(compiler, spec, accepted, stopIds)!;
}

/** The tokens that may come next; "any" where nothing restricts them. */
async function allowed(constraint: TokenConstraint, numAhead = 0): Promise<string> {
  while (!constraint.isReady()) await new Promise((resolve) => setTimeout(resolve, 1));
  const mask = new Int32Array(1);
  if (!constraint.fillMask(mask, numAhead)) return "any";
  return NAMES.filter((_, id) => (mask[0]! >> id) & 1).join("");
}

test.before(() => compiler.ready({ kind: "regex", source: "ab" }));
test.after(() => compiler.close());

test("thoughts are free but for the end of the answer, and the answer is bound behind them", async () => {
  const constraint = opened({}, "ab");
  const seen = [await allowed(constraint)];
  for (const token of [B, CLOSE, A, B]) {
    assert.ok(constraint.accept(token));
    seen.push(await allowed(constraint));
  }
  assert.deepEqual(seen, ["ab<>then", "ab<>then", "a", "b", "$"]);
});

test("a model may begin its thoughts or answer at once; some are begun for it, and some go on with words of their own", async () => {
  const maybe = opened({ begin: "maybe", open: [OPEN, A] }, "ab");
  assert.equal(await allowed(maybe), "a<");
  assert.ok(maybe.accept(OPEN));
  assert.equal(await allowed(maybe), "a", "the rest of what opens them");
  const answering = opened({ begin: "maybe", open: [OPEN] }, "ab");
  assert.equal(await allowed(answering), "a<");
  assert.ok(answering.accept(A));
  assert.equal(await allowed(answering), "b");
  const always = opened({ begin: "always", open: [OPEN], after: [THEN] }, "ab");
  const seen: string[] = [];
  for (const token of [OPEN, CLOSE, THEN]) {
    seen.push(await allowed(always));
    assert.ok(always.accept(token));
  }
  assert.deepEqual([...seen, await allowed(always)], ["<", "ab<>then", "then", "a"]);
});

test("a budget ends thoughts, also those that are guessed", async () => {
  const constraint = opened({ budget: 3 }, null);
  assert.equal(await allowed(constraint), "any");
  assert.ok(constraint.accept(A));
  constraint.foresee!(Int32Array.of(A, B, A, B), 0, 4);
  assert.equal(constraint.numForeseen!(), 2);
  assert.deepEqual([await allowed(constraint, 1), await allowed(constraint, 2)], ["any", ">"]);
  assert.ok(constraint.accept(A, true) && constraint.accept(A));
  assert.equal(await allowed(constraint), ">");
  assert.equal(constraint.accept(A), false);
  assert.ok(constraint.accept(CLOSE));
  assert.equal(await allowed(constraint), "any");
});

test("an answer is taken up wherever it was", async () => {
  const tokens = [B, B, CLOSE, A];
  const seen: string[] = [];
  for (let count = 0; count <= tokens.length; count++)
    seen.push(await allowed(opened({ budget: 2 }, "ab", tokens.slice(0, count))));
  assert.deepEqual(seen, ["ab<>then", "ab<>then", ">", "a", "b"]);
});
