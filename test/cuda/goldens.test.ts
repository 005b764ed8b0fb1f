// Every golden checkpoint on the GPU, where there is one. The goldens were computed in f32; weights in bf16 round the activations they
// meet to 8 bits of mantissa, and how far that moves logits depends on the model: each is allowed what `pagoda verify` allows it.

import assert from "node:assert/strict";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { BUNDLED_MODEL } from "../../src/config/engine-config.js";
import type { Device } from "../../src/device/device.js";
import { verifyModel } from "../../src/engine/core/verify/verify.js";
import { openCuda, withF32Weights } from "../support/cuda.js";

const { device, reason } = await openCuda();
const { device: second } = await openCuda();
const exact = second && withF32Weights(second);
after(() => {
  device?.close();
  exact?.close();
});

for (const folder of ["test/goldens", "test/goldens/variants", "../shared/goldens", "carry/goldens"]) {
  if (!existsSync(folder)) continue;
  for (const name of readdirSync(folder).filter((entry) => existsSync(join(folder, entry, "golden.json"))))
    test(`${folder}/${name} on cuda`, { skip: reason }, () => check(join(folder, name)));
}

for (const folder of ["test/goldens-vision", "../shared/goldens-vision", "carry/goldens-vision"]) {
  for (const name of existsSync(folder) ? readdirSync(folder) : []) {
    const path = join(folder, name);
    test(`${path} on cuda`, { skip: reason }, () => check(path));
    test(`${path} on cuda, with f16 pages`, { skip: reason }, () => check(path, { kvDtype: "f16" }));
    test(`${path} on cuda, in f32`, { skip: reason }, () => check(path, { tolerance: 2e-3 }, exact!));
  }
}

test("the bundled model answers as its golden.json says", { skip: reason }, () => check(BUNDLED_MODEL));

test("the bundled model with f16 pages", { skip: reason }, () => check(BUNDLED_MODEL, { kvDtype: "f16" }));

// fp8 pages move logits of these two by up to 0.24 on any device (0.03 with i8 pages); bf16 weights come on top.
for (const name of ["qwen3", "gemma3"]) {
  test(`${name} with fp8 pages`, { skip: reason }, () =>
    check(`test/goldens/${name}`, { kvDtype: "fp8", tolerance: 0.4 }),
  );
}

async function check(
  path: string,
  options: Parameters<typeof verifyModel>[2] = {},
  on: Device = device!,
): Promise<void> {
  const result = await verifyModel(path, on, options);
  for (const { index, logitDifference, logprobDifference, chunkDifference, misses, ties, isOk } of result.cases) {
    const found = JSON.stringify({ logitDifference, logprobDifference, chunkDifference, misses, ties });
    assert.ok(isOk, `case ${index}: ${found}, tolerance ${result.tolerance}`);
    assert.equal(chunkDifference, 0, `case ${index}: chunking changed the logits`);
  }
}
