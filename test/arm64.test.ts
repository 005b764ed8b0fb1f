// The library for arm64, where a cross compiler and an emulator are: it compiles, its native tests pass on processors with and without dot
// products and matrix products, and with Node for arm64, where that was fetched, a part of the contract suite and goldens do.
// `npm run test:packages -- --all linux-arm64` runs all of it.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";

const NEEDED = ["aarch64-linux-gnu-g++", "qemu-aarch64"];
const missing = NEEDED.filter((command) => spawnSync(command, ["--version"]).status !== 0);
const skip =
  process.arch === "arm64"
    ? "all tests run on arm64 here"
    : missing.length > 0 && `${missing.join(" and ")} not here: apt-get install g++-aarch64-linux-gnu qemu-user`;

async function run(script: string, ...args: string[]): Promise<string> {
  const { NODE_TEST_CONTEXT: _, ...env } = process.env; // with it, tests report in a form of the runner's own
  const child = spawn(process.execPath, [`scripts/${script}`, ...args], { env, stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text) => (said += text));
  const [status] = await once(child, "close");
  assert.equal(status, 0, said);
  return said;
}

test("the library for arm64 compiles, and runs on an emulator", { skip, timeout: 480_000 }, async (t) => {
  assert.match(await run("build-packages.mjs", "--check", "linux-arm64"), /all \d+ functions/);
  const said = await run("test-packages.mjs", "--some", "linux-arm64");
  for (const processor of ["max", "neoverse-n1", "cortex-a72"])
    assert.match(said, new RegExp(`${processor}: [1-9]\\d* native tests passed`));
  if (said.includes("nothing with Node")) return t.diagnostic(said.trim().split("\n").at(-1)!);
  for (const suite of ["contract/cpu", "goldens"])
    assert.match(said, new RegExp(`max: dist/test/${suite}.test.js: .*# pass [1-9]\\d* # fail 0`));
});
