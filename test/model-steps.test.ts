// A forward allocates nothing: thousands of steps of each kind of family on the null device leave no garbage.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Batch } from "../src/core/batch.js";
import { NullDevice } from "../src/device/null/null-device.js";
import { openCheckpoint } from "../src/engine/checkpoint.js";
import { pageSpecs } from "../src/engine/core/load/cache-pools.js";
import { familyOf } from "../src/models/registry.js";

const MODELS = [
  "test/goldens/llama",
  "test/goldens/gemma3",
  "test/goldens/mixtral",
  "test/goldens/deepseek-v3",
  "test/goldens/variants/olmo2-bias",
  "test/goldens/variants/gpt2-relu",
];
const CAPACITY = { maxTokens: 8, maxLogitRows: 8 };
const TOKENS = new Int32Array(32);
const PAGES = Int32Array.of(1, 2);

for (const path of MODELS) {
  test(`${path}: no heap growth`, { skip: global.gc === undefined && "needs --expose-gc" }, () => {
    const device = new NullDevice();
    const checkpoint = openCheckpoint(path);
    const family = familyOf(checkpoint.config, checkpoint.configFile);
    const source = checkpoint.openTensors();
    const config = family.parseConfig(checkpoint.config, checkpoint.configFile);
    const model = family.load(config, { device, source, capacity: CAPACITY, quantize: "none" });
    source.close();
    const { numLayers } = model.spec;
    const caches = pageSpecs(model.spec.caches, { pageSize: 16, dtype: "f32" }).map((page) =>
      device.allocKvPool({ ...page, numPages: 3 }),
    );
    const batch = new Batch(16, 8);
    batch.addRow(TOKENS, 16, 3, PAGES, 18);
    const staged = device.createStagedBatch();
    device.stage(staged, batch, []);
    const steps = (count: number): void => {
      for (let i = 0; i < count; i++) {
        model.forward(staged, caches);
        model.computeLogits(staged, 0, 1);
      }
    };
    // The compiler allocates now and then; a forward that did would do so in every round.
    let least = Number.POSITIVE_INFINITY;
    for (let round = 0; round < 10; round++) {
      global.gc!();
      const before = process.memoryUsage().heapUsed;
      steps(1000); // too few for a collection to hide what they left
      least = Math.min(least, process.memoryUsage().heapUsed - before);
    }
    assert.ok(least < 10_000, `${least} bytes in a thousand steps`);
    assert.equal(device.calls.attention, 10_000 * numLayers);
    assert.equal(device.calls.rotaryAppend, 10_000 * numLayers);
  });
}
