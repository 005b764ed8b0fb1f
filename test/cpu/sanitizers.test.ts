// The native library alone, under the address and undefined-behaviour sanitizers: native/cpu/test on every instruction set.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../../", import.meta.url));

test("native tests run clean under the sanitizers", (t) => {
  const build = spawnSync(process.execPath, ["scripts/build-native.mjs", "--test"], { cwd: root, encoding: "utf8" });
  const program = build.stdout.trim();
  if (build.status === 0 && !existsSync(program)) return t.skip(build.stderr.trim()); // no compiler here
  assert.equal(build.status, 0, build.stdout + build.stderr);
  const run = spawnSync(program, { encoding: "utf8" });
  assert.equal(run.status, 0, run.stdout + run.stderr);
  assert.match(run.stdout, /^ok 1 attention/m);
});
