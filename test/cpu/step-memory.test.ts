// Memory that the cpu device takes over its border is sized at load: no step takes any.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { test } from "node:test";
import { openCpu } from "../support/cpu.js";
import { allocationsInTraffic, type MeasuredDevice } from "../support/step-memory.js";
import { withByteTokenizer } from "../support/tiny-checkpoint.js";

for (const model of ["llama", "gemma3", "mixtral", "deepseek-v3"].map((name) => `test/goldens/${name}`)) {
  const { device, reason } = await openCpu(1);
  const skip = reason || (existsSync(model) ? false : `${model} is not here`);
  test(`${model}: no memory is taken in steps`, { skip }, async () => {
    assert.equal(await allocationsInTraffic(withByteTokenizer(model, 320), device as unknown as MeasuredDevice), 0);
  });
}
