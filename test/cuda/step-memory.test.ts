// Memory of the cuda device is sized at load: no step takes any, on the GPU or its emulator. With EMULATED_IDLE=1 the emulator computes nothing.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { test } from "node:test";
import { openCuda } from "../support/cuda.js";
import { allocationsInTraffic } from "../support/step-memory.js";
import { withByteTokenizer, writeTinyCheckpoint } from "../support/tiny-checkpoint.js";

const { device, reason } = await openCuda();
device?.close();

const MODELS: readonly (readonly [string, string])[] = [
  ["windows beside full attention", "test/goldens/gemma3"],
  ["mixture", "test/goldens/mixtral"],
  ["latent", "test/goldens/deepseek-v3"],
  ["states beside full attention", "../shared/goldens2/qwen3.5"],
];

for (const [name, model] of MODELS) {
  const skip = reason || (existsSync(model) ? false : `${model} is not here`);
  test(`${name}: no memory is taken in steps`, { skip }, () => check(withByteTokenizer(model, 320)));
}

test("16-bit weights: no memory is taken in steps", { skip: reason }, () =>
  check(writeTinyCheckpoint({ hidden: 256, heads: 4, kvHeads: 2, ffn: 160, dtype: "BF16" })),
);

async function check(model: string): Promise<void> {
  assert.equal(await allocationsInTraffic(model, (await openCuda()).device!), 0);
}
