// scripts/run-tests.mjs: what is required cannot be skipped, and a test that hangs ends with its name.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { openCuda } from "./support/cuda.js";

function runTests(filter: string, env: Record<string, string>): { status: number | null; said: string } {
  const { NODE_TEST_CONTEXT: _, ...own } = process.env; // with it, tests report in a form of the runner's own
  const args = ["scripts/run-tests.mjs", filter];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { env: { ...own, ...env }, encoding: "utf8" });
  return { status, said: stdout + stderr };
}

const { device } = await openCuda();
test("a test that is skipped for lack of something required fails", {
  skip: device !== null && "nothing is skipped here",
}, () => {
  const filter = "test/cuda/step-memory";
  assert.equal(runTests(filter, { PAGODA_REQUIRE: "nats" }).status, 0);
  const { status, said } = runTests(filter, { PAGODA_REQUIRE: "nats,cuda" });
  assert.equal(status, 1);
  assert.match(said, /skipped, but PAGODA_REQUIRE has cuda/);
  assert.equal(runTests(filter, { PAGODA_REQUIRE: "nat" }).status, 1);
});

test("a test that takes longer than the limit ends with its name", () => {
  const { status, said } = runTests("test/examples", { PAGODA_TEST_LIMIT: "0.05" });
  assert.equal(status, 1);
  assert.match(said, /took longer than 0.05 s/);
});
