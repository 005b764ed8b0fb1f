// What a model says of its weights when it loads them, beside what it does with them in a step: one that is never looked up says so
// (`isMatrix`), for a device may have a form that is faster to multiply and has no rows; one that is looked up does not.

import assert from "node:assert/strict";
import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import type { HostTensor } from "../src/core/tensor.js";
import type { ExpertWeights, HeadWeights, RouterSpec, Tensor, Weight } from "../src/device/device.js";
import { NullDevice } from "../src/device/null/null-device.js";
import { openCheckpoint } from "../src/engine/checkpoint.js";
import { ModelRunner } from "../src/engine/core/verify/model-runner.js";
import { familyOf } from "../src/models/registry.js";
import { writeTinyEncoder } from "./support/tiny-encoder.js";

const FOLDERS = ["test/goldens", "test/goldens/variants", "../shared/goldens", "../shared/goldens2"].filter(existsSync);
const CAPACITY = { maxTokens: 8, maxLogitRows: 8 };
const RANGE = { sequence: 0, tokens: [1, 2, 3, 4], start: 0, end: 4, logitsFrom: 0 };

interface Use {
  readonly name: string;
  readonly isTable: boolean;
  readonly isMatrix: boolean;
  isLookedUp: boolean;
  isMultiplied: boolean;
}

class WatchingDevice extends NullDevice {
  readonly uses = new Map<Weight, Use>();

  override loadWeight(
    parts: readonly HostTensor[],
    options: { transposed?: boolean; isTable?: boolean; isMatrix?: boolean } = {},
  ): Weight {
    const weight = super.loadWeight(parts, options);
    const { isTable = false, isMatrix = false } = options;
    this.uses.set(weight, { name: parts[0]!.name, isTable, isMatrix, isLookedUp: false, isMultiplied: false });
    return weight;
  }
  override embed(_out?: Tensor, weight?: Weight): void {
    this.uses.get(weight!)!.isLookedUp = true;
  }
  override addPositions(_out?: Tensor, weight?: Weight): void {
    this.uses.get(weight!)!.isLookedUp = true;
  }
  override addTypes(_out?: Tensor, weight?: Weight): void {
    this.uses.get(weight!)!.isLookedUp = true;
  }
  override matmul(out: Tensor, _x?: Tensor, weight?: Weight): void {
    super.matmul(out);
    this.uses.get(weight!)!.isMultiplied = true;
  }
  override headMatmul(_out?: Tensor, _x?: Tensor, heads?: HeadWeights): void {
    for (const weight of heads!.weights) this.uses.get(weight)!.isMultiplied = true;
  }
  override mixtureOfExperts(
    _out?: Tensor,
    _x?: Tensor,
    _logits?: Tensor,
    _router?: RouterSpec,
    experts?: ExpertWeights,
  ): void {
    for (const weight of [...experts!.gateUp, ...experts!.down]) this.uses.get(weight)!.isMultiplied = true;
  }
}

const NOMIC = { n_embd: 24, n_head: 3, n_layer: 2, n_inner: 20, n_positions: 64, vocab_size: 40 };
const nomic = writeTinyEncoder({ architectures: ["NomicBertModel"], ...NOMIC });
after(() => rmSync(nomic, { recursive: true }));
const models = FOLDERS.flatMap((folder) => readdirSync(folder).map((entry) => join(folder, entry)));

for (const path of [...models.filter((model) => existsSync(join(model, "config.json"))), nomic]) {
  test(`${path === nomic ? "NomicBERT" : path}: weights are used as they were loaded for`, async () => {
    const device = new WatchingDevice();
    const checkpoint = openCheckpoint(path);
    const family = familyOf(checkpoint.config, checkpoint.configFile);
    const source = checkpoint.openTensors();
    const config = family.parseConfig(checkpoint.config, checkpoint.configFile);
    const model = family.load(config, { device, source, capacity: CAPACITY, quantize: "q8" });
    source.close();
    const runner = new ModelRunner({ device, model, ...CAPACITY, numSequences: 1, maxLength: 8 });
    if (model.spec.task === undefined) await runner.run([RANGE]);
    else await runner.runHidden([RANGE]);
    for (const { name, isTable, isMatrix, isLookedUp, isMultiplied } of device.uses.values()) {
      assert.ok(isLookedUp || isMultiplied, `${name} is used`);
      assert.equal(isMatrix, !isLookedUp, `${name}: isMatrix`);
      assert.ok(!isTable || !isMultiplied, `${name}: isTable`);
    }
  });
}
