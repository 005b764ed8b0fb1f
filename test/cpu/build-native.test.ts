// How the build script behaves where there is no compiler.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const script = fileURLToPath(new URL("../../../scripts/build-native.mjs", import.meta.url));

test("without a compiler the build says so in one line and does not fail", () => {
  const result = spawnSync(process.execPath, [script], {
    encoding: "utf8",
    env: { ...process.env, CXX: "no-such-compiler" },
  });
  assert.equal(result.status, 0);
  assert.match(result.stdout, /^pagoda: no C\+\+ compiler \(no-such-compiler\) found; .*reference device.*\n$/);
});
