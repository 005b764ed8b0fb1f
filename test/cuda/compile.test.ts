// Every kernel compiles for Hopper, where nvcc is: no GPU is needed. Nothing that matters spills, and wgmma is not serialised.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";

const hasNvcc = spawnSync("nvcc", ["--version"]).status === 0;

test("native/cuda compiles for sm_90a", { skip: hasNvcc ? false : "nvcc is not here" }, () => {
  const run = spawnSync(process.execPath, ["scripts/build-cuda.mjs", "--check", "sm_90a"], { encoding: "utf8" });
  assert.equal(run.status, 0, run.stderr);
  assert.match(run.stdout, /matmul-tile for sm_90a: \d+ kernels, 0 spill, 0 warnings/);
  assert.match(run.stdout, /matmul-stream for sm_90a: \d+ kernels, 0 spill, 0 warnings/);
});
