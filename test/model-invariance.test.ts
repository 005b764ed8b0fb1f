// Each family, directly: the logits of every position are the same bits whether a sequence runs in one batch, in chunks, token by
// token, or beside others. Prompts are longer than every window. The engine-level suite is test/invariance.test.ts.

import assert from "node:assert/strict";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { uniformAt } from "../src/core/random.js";
import type { Device } from "../src/device/device.js";
import { ReferenceDevice } from "../src/device/reference/reference-device.js";
import { openCheckpoint } from "../src/engine/checkpoint.js";
import { ModelRunner, type RunRange } from "../src/engine/core/verify/model-runner.js";
import { familyOf } from "../src/models/registry.js";
import { assertSameBits } from "./contract/duel.js";
import { openCpu } from "./support/cpu.js";

const FOLDERS = ["test/goldens", "test/goldens/variants", "../shared/goldens"];
/** One family of each kind of recurrent layer. */
const RECURRENT = ["qwen3.5", "qwen3-next", "lfm2", "mamba2"].map((name) => `../shared/goldens2/${name}`);
const LENGTH = 64;
const PAGE = 16;
const CAPACITY = { maxTokens: 3 * LENGTH, maxLogitRows: 32 };

const cpu = await openCpu(3);
after(() => cpu.device?.close());

for (const folder of FOLDERS) {
  if (!existsSync(folder)) {
    test(`families of ${folder}`, { skip: `${folder} is not here` });
    continue;
  }
  for (const path of modelsOf(folder)) {
    test(`${path} on reference`, () => checkInvariance(path, new ReferenceDevice()));
    test(`${path} on cpu`, { skip: cpu.reason }, () => checkInvariance(path, cpu.device!));
  }
}

for (const path of RECURRENT) {
  const skip = existsSync(path) ? false : `${path} is not here`;
  test(`${path} on reference`, { skip }, () => checkInvariance(path, new ReferenceDevice()));
  test(`${path} on cpu`, { skip: skip || cpu.reason }, () => checkInvariance(path, cpu.device!));
}

function modelsOf(folder: string): string[] {
  return readdirSync(folder)
    .map((entry) => join(folder, entry))
    .filter((path) => existsSync(join(path, "config.json")));
}

async function checkInvariance(path: string, device: Device): Promise<void> {
  const checkpoint = openCheckpoint(path);
  const family = familyOf(checkpoint.config, checkpoint.configFile);
  const source = checkpoint.openTensors();
  const config = family.parseConfig(checkpoint.config, checkpoint.configFile);
  const model = family.load(config, { device, source, capacity: CAPACITY, quantize: "none" });
  source.close();
  const { vocabSize, plans, task } = model.spec;
  if (task !== undefined) return; // texts of encoders are never cut; test/goldens.test.ts runs them beside others
  assert.ok(
    plans.every(({ window }) => window < LENGTH),
    "the prompt is longer than every window",
  );
  const newRunner = (): ModelRunner =>
    new ModelRunner({ device, model, ...CAPACITY, numSequences: 3, maxLength: LENGTH, pageSize: PAGE });
  const sequences = [0, 1, 2].map((s) =>
    Array.from({ length: LENGTH }, (_, i) => Math.floor(uniformAt(s, 0, i) * vocabSize)),
  );
  const range = (sequence: number, start: number, end: number): RunRange => ({
    sequence,
    tokens: sequences[sequence]!,
    start,
    end: Math.min(end, LENGTH),
    logitsFrom: start,
  });

  const whole = await newRunner().run([range(0, 0, LENGTH)]);
  for (const chunk of [16, 48, 1]) {
    const runner = newRunner();
    for (let start = 0; start < LENGTH; start += chunk) {
      const logits = await runner.run([range(0, start, start + chunk)]);
      assertSameBits(
        logits,
        whole.subarray(start * vocabSize, (start + chunk) * vocabSize),
        `chunk ${chunk} at ${start}`,
      );
    }
  }

  // One prompt being read, one decoding, one beginning: the first is compared at every step.
  const mixed = newRunner();
  await mixed.run([range(1, 0, LENGTH - 8)]);
  for (let step = 0, start = 0; start < LENGTH; step++, start += 16) {
    const others = [range(1, LENGTH - 8 + step, LENGTH - 7 + step), range(2, step * 7, step * 7 + 7)];
    const ranges = [others[0]!, range(0, start, start + 16), others[1]!];
    const logits = (await mixed.run(ranges)).subarray(vocabSize);
    const length = Math.min(16, LENGTH - start) * vocabSize;
    assertSameBits(
      logits.slice(0, length),
      whole.subarray(start * vocabSize, start * vocabSize + length),
      `mixed at ${start}`,
    );
  }
}
