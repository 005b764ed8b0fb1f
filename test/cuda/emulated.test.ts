// The kernels of native/cuda on a CPU (test/cuda/emulator): the contract suite with a driver that runs every CUDA thread as a fibre.
// What it cannot show is timing, and races that need threads to run at once.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";

const cache = mkdtempSync(join(tmpdir(), "pagoda-emulator-"));
after(() => rmSync(cache, { recursive: true, force: true }));
const hasCompiler = spawnSync(process.env.CXX ?? "g++", ["--version"]).status === 0 && process.arch === "x64";
const skip = !hasCompiler
  ? "the emulator needs g++ on x64"
  : process.env.PAGODA_LONG_TESTS === "1"
    ? false
    : "takes minutes: npm run test:long";

/** Cases that reach every kernel, in little time. */
const CASES = [
  "map: ",
  "clamp",
  "matmul: (bf16|f16|f32|f8_e4m3_64) weights",
  "gatedMatmul",
  "headMatmul",
  "adaptedMatmul",
  "bias, scale",
  "transposed parts",
  "embed: bf16",
  "Norm: all columns|Norm: each head|Norm: odd sizes",
  "shortConv: 4 taps|linearAttention: 4 heads",
  "rotary: 2 heads",
  "attention: (heads of (64|128|256)|192 and 128|bf16|f16|i8|fp8|fp8, heads of 80, window|(bf16|f16), heads of (80|96), all see all|window across pages|f16, sees ahead, window|bf16, heads of (64|128) in pages of 16|bf16, latent, 576 and 512|fp8, (latent|heads of (64|128) in pages of 16))$",
  "addTypes",
  "write",
  "split along it: no chunking|window 24: no chunking|(bf16|fp8), heads of 128, window 0: no chunking|f16, heads of 64, window 40: no chunking",
  "copyPage",
  "swapOut|copyStates",
  "mixtureOfExperts: (softmax, normalised|sigmoid|oss|wide experts of bf16)",
  "FP8 weights",
  "sample",
];

const CONTRACT = [`--test-name-pattern=${CASES.join("|")}`, "dist/test/contract/cuda.test.js"];

test("the contract on emulated kernels: Hopper's", { skip }, () => runTests(CONTRACT, { EMULATED_SMS: "4" }));
test("the contract on emulated kernels: those before Hopper", { skip }, () =>
  runTests(CONTRACT, { EMULATED_SM_80: "1" }),
);
test("steps that are replayed without writing them, and memory of steps, on a driver that runs nothing", { skip }, () =>
  runTests(
    ["known-steps", "large-steps", "step-memory"].map((name) => `dist/test/cuda/${name}.test.js`),
    { EMULATED_IDLE: "1" },
  ),
);

function runTests(args: readonly string[], variables: Record<string, string>): void {
  const built = spawnSync(process.execPath, ["scripts/build-cuda-emulator.mjs"], { encoding: "utf8" });
  assert.equal(built.status, 0, built.stderr);
  const library = built.stdout.trim();
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const run = spawnSync(process.execPath, ["--test", "--test-reporter=tap", ...args], {
    encoding: "utf8",
    maxBuffer: 2 ** 26,
    env: {
      ...env,
      ...variables,
      PAGODA_CUDA_DRIVER: library,
      PAGODA_NVRTC: library,
      XDG_CACHE_HOME: cache,
    },
  });
  const failed = run.stdout.split("\n").filter((line) => /^ *not ok/.test(line));
  assert.equal(run.status, 0, `${failed.join("\n")}\n${run.stderr}`);
  assert.match(run.stdout, /# pass [1-9]/);
}
