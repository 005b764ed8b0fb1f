// Models that see against Hugging Face transformers: from picture files to pixels, logits and greedy tokens.

import assert from "node:assert/strict";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { ReferenceDevice } from "../../src/device/reference/reference-device.js";
import { openDevice } from "../../src/engine/core/load/devices.js";
import { verifyModel } from "../../src/engine/core/verify/verify.js";
import { openExactCpu } from "../support/cpu.js";

const OWN = "test/goldens-vision";
const SHARED = "../shared/goldens-vision";

const cpu = await openExactCpu();
const wasm = await openDevice({ device: "wasm", threads: 2 });
after(() => wasm.close());
const devices = [
  { name: "reference", device: new ReferenceDevice(), skip: false },
  { name: "cpu", device: cpu.device, skip: cpu.reason },
  { name: "wasm", device: wasm, skip: false },
];

for (const folder of [OWN, SHARED]) {
  if (!existsSync(folder)) {
    test(`goldens of ${folder}`, { skip: `${folder} is not here` });
    continue;
  }
  const models = readdirSync(folder);
  for (const model of models) {
    for (const { name, device, skip } of devices) {
      test(`${folder}/${model} on ${name}`, { skip }, async () => {
        // A change of one rounding in its tower moves the logits of one of qwen35vl's cases by as much as the others' tolerance.
        const tolerance = model === "qwen35vl" ? 1e-3 : 5e-4;
        const { cases, isOk } = await verifyModel(join(folder, model), device!, { tolerance });
        assert.ok(isOk, JSON.stringify(cases));
        for (const { pixelDifference } of cases) assert.ok(pixelDifference !== null && pixelDifference <= 1e-5);
      });
    }
  }
  test(`${folder} is complete`, () => assert.ok(models.length >= (folder === OWN ? 1 : 9), models.join(" ")));
}
