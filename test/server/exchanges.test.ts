// What every route makes of its fields: the engine's options, the reply or the events, and the log, whole and to the letter.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { OUTCOMES, outcomes } from "../support/outcomes.js";

test("every exchange comes out as it is written down (test/fixtures/exchanges/make.ts writes it)", async () => {
  const expected = JSON.parse(readFileSync(OUTCOMES, "utf8")) as Record<string, unknown>;
  const found = await outcomes();
  assert.deepEqual(Object.keys(found), Object.keys(expected));
  for (const [title, outcome] of Object.entries(found)) assert.deepEqual(outcome, expected[title], title);
});
