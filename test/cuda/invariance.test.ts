// The invariance suite on the GPU, where there is one: the kinds of weights and pages that have kernels of their own.

import { test } from "node:test";
import { openCuda } from "../support/cuda.js";
import { runInvariance } from "../support/invariance.js";
import { writeTinyCheckpoint } from "../support/tiny-checkpoint.js";

const { device, reason } = await openCuda();
device?.close();
if (reason !== false) test("invariance on the cuda device", { skip: reason });
else {
  for (const [dtype, kvDtype] of [
    ["BF16", "bf16"],
    ["F16", "f16"],
    ["F32", "f32"],
    ["BF16", "i8"],
    ["BF16", "fp8"],
  ] as const) {
    const model = writeTinyCheckpoint({ hidden: 256, heads: 8, kvHeads: 2, ffn: 160, dtype });
    const name = `cuda, ${dtype} weights, ${kvDtype} KV`;
    runInvariance({ name, model, config: { device: "cuda", kvDtype, gpuMemory: 0.3 } });
  }
}
