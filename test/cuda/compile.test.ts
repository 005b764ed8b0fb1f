// Kernels compile for Hopper, where nvcc is: no GPU is needed. No product spills, and wgmma is not serialised; only where that is asked
// does nvcc optimise. The kernels for codes are the same templates as those for 16-bit numbers: npm run test:long.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";

const hasNvcc = spawnSync("nvcc", ["--version"]).status === 0;

const isLong = process.env.PAGODA_LONG_TESTS === "1";

test("native/cuda compiles for sm_90a", { skip: hasNvcc ? false : "nvcc is not here" }, () => {
  const some = ["--without", "codes", "--spills-of", "matmul-tile,matmul-stream,attention-wgmma"];
  const args = ["scripts/build-cuda.mjs", "--check", "sm_90a", ...(isLong ? [] : some)];
  const run = spawnSync(process.execPath, args, { encoding: "utf8" });
  assert.equal(run.status, 0, run.stderr);
  assert.match(run.stdout, /matmul-tile for sm_90a: \d+ kernels, 0 spill, 0 warnings/);
  assert.match(run.stdout, /matmul-stream for sm_90a: \d+ kernels, 0 spill, 0 warnings/);
  assert.match(run.stdout, /attention-wgmma for sm_90a: \d+ kernels, \d+ spill, 0 warnings/);
});
