// The mutation runner's mutations: one change each, never inside text, comments or imports.

import assert from "node:assert/strict";
import { test } from "node:test";

interface Mutation {
  readonly line: number;
  readonly from: string;
  readonly to: string;
  readonly text: string;
}

const script = new URL("../../scripts/mutate/mutations.mjs", import.meta.url).href;
const { mutationsOf } = (await import(script)) as { mutationsOf(source: string): Mutation[] };
const changes = (source: string) => mutationsOf(source).map(({ to }) => to);

test("comparisons, signs, constants and statements change, one at a time", () => {
  assert.deepEqual(changes("if (a <= b) x = a + 2;"), [
    "if (a < b) x = a + 2;",
    "if (a <= b) x = a - 2;",
    "if (a <= b) x = a + 3;",
  ]);
  assert.deepEqual(changes("this.#cache.release(request);"), [";"]);
  for (const { text, line } of mutationsOf("let i = 0;\nwhile (i < n) i++;\nreturn i;")) {
    const differs = text.split("\n").filter((each, i) => each !== ["let i = 0;", "while (i < n) i++;", "return i;"][i]);
    assert.equal(differs.length, 1, `line ${line}`);
  }
});

test("text, comments, imports and the making of errors stay as they are", () => {
  assert.deepEqual(changes('say("a < b");'), [";"]);
  assert.deepEqual(changes("// a < b and 1 + 1"), []);
  assert.deepEqual(changes('import { a } from "./a1.js";'), []);
  assert.deepEqual(changes("throw errorFor(code, { limit: 3 });"), []);
});
