// The mutation runner: one change each, never inside text, comments or imports; and which tests run the place of a change.

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";

interface Mutation {
  readonly line: number;
  readonly offset: number;
  readonly from: string;
  readonly to: string;
  readonly text: string;
}

interface Coverage {
  coverageOf(root: string, test: string): Promise<{ isPassing: boolean; ran: Record<string, { spans: number[] }> }>;
  paint(
    functions: { ranges: { startOffset: number; endOffset: number; count: number }[] }[],
    length: number,
  ): Uint8Array;
  spansOf(characters: Uint8Array): number[];
  isIn(spans: number[], offset: number): boolean;
}

const scripts = new URL("../../scripts/mutate/", import.meta.url).href;
const { mutationsOf } = (await import(`${scripts}mutations.mjs`)) as { mutationsOf(source: string): Mutation[] };
const { coverageOf, isIn, paint, spansOf } = (await import(`${scripts}coverage.mjs`)) as Coverage;
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

const folder = mkdtempSync(join(tmpdir(), "pagoda-mutate-test-"));
after(() => rmSync(folder, { recursive: true }));

/** A source file of three functions, and a test that calls one here, one in a process of its own and half of each. */
const SOURCE = `export const half = (n) => (n > 1 ? n / 2 : n - 7);
export const third = (n) => n > 1 && n / 3;
export const never = (n) => n + 1;
`;
const TEST = `import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { half } from "../src/parts.js";
test("half", () => {
  half(4);
  const url = new URL("../src/parts.js", import.meta.url).href;
  spawnSync(process.execPath, ["--input-type=module", "-e", \`import { third } from "\${url}"; third(0);\`]);
});
`;

test("a change is tried by the tests that run its place, in their processes too", async () => {
  for (const [name, text] of [
    ["dist/src/parts.js", SOURCE],
    ["dist/test/parts.test.js", TEST],
    ["package.json", '{ "type": "module" }'],
  ] as const) {
    mkdirSync(join(folder, name, ".."), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  const { isPassing, ran } = await coverageOf(folder, "dist/test/parts.test.js");
  assert.ok(isPassing);
  const { spans } = ran["dist/src/parts.js"]!;
  const reached = mutationsOf(SOURCE).filter(({ offset }) => isIn(spans, offset));
  assert.deepEqual(
    reached.map(({ line, to }) => `${line} ${to.slice(to.indexOf("=>") + 3)}`),
    [
      "1 (n >= 1 ? n / 2 : n - 7);",
      "1 (n > 2 ? n / 2 : n - 7);",
      "1 (n > 1 ? n / 3 : n - 7);",
      "2 n >= 1 && n / 3;",
      "2 n > 1 || n / 3;",
      "2 n > 2 && n / 3;",
    ],
  );
});

test("spans hold the characters that ran: the innermost range counts", () => {
  const ranges = [
    { startOffset: 2, endOffset: 9, count: 3 },
    { startOffset: 4, endOffset: 6, count: 0 },
  ];
  const spans = spansOf(paint([{ ranges }], 10));
  assert.deepEqual(spans, [2, 4, 6, 9]);
  assert.deepEqual(
    [1, 2, 3, 4, 5, 6, 8, 9].map((offset) => isIn(spans, offset)),
    [false, true, true, false, false, true, true, false],
  );
  assert.deepEqual(spansOf(Uint8Array.of(0, 1)), [1, 2]);
});
