// The generated pages are current, and what they are made from is complete.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { documentedSources } from "../scripts/docs/field-docs.js";
import { generatedPages } from "../scripts/docs/generated-docs.js";
import { publicNames } from "../scripts/docs/public-names.js";
import { MODULES } from "../scripts/docs/reference-page.js";

for (const [name, text] of generatedPages()) {
  test(`docs/${name} is current`, () => {
    assert.equal(readFileSync(`docs/${name}`, "utf8"), text, "run: npm run build && node scripts/make-docs.mjs");
  });
}

/** Tables and what is computed from them: docs/reference/errors.md, docs/reference/sampling.md and docs/reference/configuration.md show them. */
const TABLES: readonly string[] = [
  "ERRORS",
  "SamplingKey",
  "Table",
  "ValueOf",
  "TOOL_PARSERS",
  "REASONING_PARSERS",
  "POOLINGS",
];

const all = MODULES.flatMap(({ entry }) => publicNames(entry));

test("every public name, and every method of one, says what it is", () => {
  assert.ok(all.length > 50, `${all.length} names`);
  const silent = all.flatMap(({ name, kind, doc, members }) => [
    ...(doc === "" ? [`${kind} ${name}`] : []),
    ...[...members]
      .filter(([member, text]) => member.includes("(") && text === "")
      .map(([member]) => `${name}: ${member}`),
  ]);
  assert.deepEqual(
    silent.filter((member) => !member.includes("[Symbol.")),
    [],
    "write JSDoc on these",
  );
});

test("what a public name refers to is public", () => {
  const known = new Set([...all.map(({ name }) => name), ...TABLES]);
  const hidden = all.flatMap(({ name, refersTo }) =>
    refersTo.filter((other) => !known.has(other)).map((other) => `${name} -> ${other}`),
  );
  assert.deepEqual(hidden, [], "export these from src/index.ts, or mark the member @internal");
});

for (const [path, text] of documentedSources()) {
  test(`the JSDoc of ${path} says what its option table says`, () => {
    assert.equal(readFileSync(path, "utf8"), text, "run: npm run build && node scripts/make-docs.mjs");
  });
}
