import assert from "node:assert/strict";
import { test } from "node:test";
import { RecordingDevice, VOCAB } from "../../../../test/support/recorded-core.js";
import type { CacheSpec } from "../../../core/cache-spec.js";
import type { KvPoolSpec, StagedBatch, StatePoolSpec } from "../../../device/device.js";
import type { Model } from "../../../models/model.js";
import { ModelRunner } from "./model-runner.js";

const SHAPE = { layers: [0], numKvHeads: 1, keyDim: 1, valueDim: 1 };

class PoolDevice extends RecordingDevice {
  readonly sizes: number[] = [];
  readonly reads: [number, number][] = [];
  override allocKvPool(spec: KvPoolSpec) {
    this.sizes.push(spec.numPages);
    return super.allocKvPool(spec);
  }
  override allocStatePool(spec: StatePoolSpec) {
    this.sizes.push(spec.numSlots);
    return super.allocStatePool(spec);
  }
  override read(...[, , firstRow, n]: Parameters<RecordingDevice["read"]>): void {
    this.reads.push([firstRow, n]);
  }
}

function runnerOf(caches: CacheSpec[], isBidirectional?: boolean) {
  const device = new PoolDevice();
  const seeing = isBidirectional === undefined ? {} : { isBidirectional };
  const model = {
    spec: { caches, plans: [], vocabSize: VOCAB, hiddenSize: 2, ...seeing },
    hidden: device.hidden,
    logits: device.logits,
    forward: () => device.lines.push("forward"),
    computeLogits: (batch: StagedBatch, first: number, n: number) =>
      device.gatherLogitRows(device.hidden, device.hidden, batch, first, n),
  } as unknown as Model;
  const sizes = { maxTokens: 30, maxLogitRows: 2, numSequences: 2, maxLength: 9, pageSize: 4 };
  return { device, runner: new ModelRunner({ device, model, ...sizes }) };
}

test("each sequence has pages and a state of its own, its last page first", async () => {
  const { device, runner } = runnerOf([
    { kind: "full", ...SHAPE },
    { kind: "window", ...SHAPE, window: 4 },
    { kind: "state", ...SHAPE, stateFloats: 1 },
  ]);
  assert.deepEqual(device.sizes, [7, 7, 3]);
  const logits = await runner.run([
    { sequence: 1, tokens: [1, 2, 3, 4, 5], start: 0, end: 5, logitsFrom: 3 },
    { sequence: 0, tokens: [6, 7, 8], start: 1, end: 3, logitsFrom: 2 },
  ]);
  assert.deepEqual(device.lines.splice(0), [
    "stage 0:[1,2,3,4,5] 6,5|6,5 state 2; 1:[7,8] 3|3 state 1 -> 3,4,6",
    ...["forward", "logits 0+2", "logits 2+1"],
  ]);
  assert.equal(logits.length, 3 * VOCAB);
  assert.deepEqual(device.reads, [
    [0, 2],
    [0, 1],
  ]);
  await runner.run([{ sequence: 0, tokens: [6, 7, 8, 9], start: 3, end: 4, logitsFrom: 2 }]);
  assert.equal(device.lines[0], "stage 3:[9] 3|3 state 1 -> 0");
});

test("tokens that see each other are shown to each other", async () => {
  const { device, runner } = runnerOf([{ kind: "full", ...SHAPE }], true);
  const whole = { tokens: [1, 2, 3], start: 0, end: 3, logitsFrom: Number.POSITIVE_INFINITY };
  assert.equal((await runner.runHidden([{ sequence: 0, ...whole }])).length, 6);
  assert.deepEqual(device.lines, ["stage 0:[1,2,3] 3 state 1 sees 3,3,3", "forward"]);
  assert.deepEqual(device.reads, [[0, 3]]);
});
