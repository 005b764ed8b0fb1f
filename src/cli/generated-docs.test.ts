import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { generatedPages } from "./generated-docs.js";

for (const [name, text] of generatedPages()) {
  test(`docs/${name} is current`, () => {
    assert.equal(readFileSync(`docs/${name}`, "utf8"), text, "run: npm run build && node scripts/make-docs.mjs");
  });
}
