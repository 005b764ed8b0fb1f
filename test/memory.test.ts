// What `inspect` predicts is what loading takes.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { test } from "node:test";
import { inspect } from "../src/cli/inspect.js";
import { BUNDLED_MODEL, engineConfig } from "../src/config/engine-config.js";
import type { HostTensor } from "../src/core/tensor.js";
import { openCheckpoint } from "../src/engine/checkpoint.js";
import { pageSpecs } from "../src/engine/core/load/cache-pools.js";
import { openDevice } from "../src/engine/core/load/devices.js";
import { familyOf } from "../src/models/registry.js";

const device = await openDevice({ device: "auto", threads: 1 });
const STORIES_260K = "../shared/models/stories260K.gguf";

/** Bytes of the matrices that loading this model gives the device. */
function loadedBytes(model: string, quantize: "none" | "q8" | "q4"): number {
  let bytes = 0;
  const counting = new Proxy(device, {
    get: (target, key) => {
      const value = Reflect.get(target, key, target) as unknown;
      if (typeof value !== "function") return value;
      return (...args: unknown[]) => {
        const result = Reflect.apply(value, target, args) as { byteLength: number };
        if (key === "loadWeight") bytes += result.byteLength;
        if (key === "loadTensor") bytes += (args[0] as Float32Array).byteLength;
        return result;
      };
    },
  });
  const checkpoint = openCheckpoint(model);
  const family = familyOf(checkpoint.config, checkpoint.configFile);
  const parsed = family.parseConfig(checkpoint.config, checkpoint.configFile);
  const source = checkpoint.openTensors();
  family.load(parsed, { device: counting, source, capacity: { maxTokens: 16, maxLogitRows: 1 }, quantize });
  source.close();
  return bytes;
}

for (const [model, quantize] of [
  [BUNDLED_MODEL, "none"],
  [BUNDLED_MODEL, "q8"],
  [BUNDLED_MODEL, "q4"],
  [STORIES_260K, "none"],
] as const) {
  const skip = existsSync(model) ? false : `${model} is not here`;
  test(`inspect predicts the weights of ${model.split("/").at(-1)}, quantize ${quantize}, within 5 %`, {
    skip,
  }, async () => {
    const report = await inspect(engineConfig({ model, quantize, numPages: 100 }));
    const taken = loadedBytes(model, quantize);
    // Which matrices of bf16 fit the 12 bits that AMX keeps them in shows when they are read: what is predicted is the most.
    const most = device.info.numerics === "cpu-amx" && quantize === "none" ? 16 / 12 : 1;
    const ratio = report.weightBytes / taken;
    assert.ok(ratio > 0.95 && ratio < most * 1.05, `predicted ${report.weightBytes}, taken ${taken}`);
    const { pageSize, kvDtype: dtype } = report;
    const pools = pageSpecs(report.caches, { pageSize, dtype }).map((page, g) =>
      device.allocKvPool({ ...page, numPages: report.pools[g]!.numPages }),
    );
    const poolBytes = pools.reduce((sum, pool) => sum + pool.byteLength, 0);
    assert.ok(Math.abs(report.poolBytes / poolBytes - 1) < 0.05, `predicted ${report.poolBytes}, taken ${poolBytes}`);
  });
}

test("GGUF encodings take what is predicted", {
  skip: device.info.name === "cpu" ? false : "needs the cpu device",
}, async () => {
  const { packedBytes } = await import("../src/device/cpu/packed-bytes.js");
  const { bytesOf } = await import("../src/core/tensor.js");
  const dtypes = [
    "q8_0",
    "q4_0",
    "q4_1",
    "q5_0",
    "q5_1",
    "q2_k",
    "q3_k",
    "q4_k",
    "q5_k",
    "q6_k",
    "iq4_nl",
    "iq4_xs",
    "iq1_s",
    "iq1_m",
    "iq2_xxs",
    "iq2_xs",
    "iq2_s",
    "iq3_xxs",
    "iq3_s",
    "tq1_0",
    "tq2_0",
    "q1_0",
    "q2_0",
    "mxfp4",
    "nvfp4",
    "f8_e4m3_64",
  ] as const;
  for (const dtype of dtypes) {
    const shape = [64, 512];
    const bytes = new Uint8Array(bytesOf(dtype, 64 * 512));
    const tensor: HostTensor = { name: "w", dtype, shape, file: null, byteLength: bytes.length, bytes: () => bytes };
    const taken = device.loadWeight([tensor]).byteLength;
    const predicted = packedBytes(tensor, "none");
    assert.ok(Math.abs(predicted / taken - 1) < 0.05, `${dtype}: predicted ${predicted}, taken ${taken}`);
  }
});
