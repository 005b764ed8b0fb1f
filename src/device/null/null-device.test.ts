// Counting, and tokens that depend on position and token alone.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Batch } from "../../core/batch.js";
import { argmax } from "../../core/choose-token.js";
import { Draws } from "../../core/draws.js";
import { NullDevice } from "./null-device.js";

const VOCAB = 50;
const TOKENS = Int32Array.from({ length: 64 }, (_, i) => (i * 7) % VOCAB);
const PAGES = Int32Array.from({ length: 16 }, (_, i) => i + 1);

/** The tokens that a batch of (start, length) rows gives, one per row, and the same read as logits. */
function sample(device: NullDevice, rows: readonly (readonly [number, number])[]) {
  const batch = new Batch(4, 64);
  for (const [start, length] of rows) batch.addRow(TOKENS, start, length, PAGES, start + length - 1);
  const staged = device.createStagedBatch();
  device.stage(staged, batch, []);
  const logits = device.allocTensor(8, VOCAB);
  const tokens = device.createTokenBuffer(rows.length);
  device.gatherLogitRows(device.allocTensor(8, 4), device.allocTensor(64, 4), staged, 0, rows.length);
  device.matmul(logits);
  const { ids: sampled } = tokens;
  const draws = new Draws();
  for (let r = 0; r < rows.length; r++) draws.addGreedy(r);
  device.sample(tokens, 0, logits, rows.length, draws);
  const read = new Float32Array(rows.length * VOCAB);
  device.read(read, logits, 0, rows.length);
  const chosen = rows.map((_, r) => argmax(read.subarray(r * VOCAB, (r + 1) * VOCAB)));
  assert.deepEqual(chosen, [...sampled], "choosing on the host gives the same tokens");
  return [...sampled];
}

test("a token depends on its position and the token before it, not on the batch", () => {
  const device = new NullDevice();
  const [decode] = sample(device, [[20, 1]]);
  assert.equal(sample(device, [[0, 21]])[0], decode);
  assert.equal(
    sample(device, [
      [3, 9],
      [16, 5],
      [20, 1],
    ])[1],
    decode,
  );
  assert.ok(new Set(TOKENS.map((_, i) => sample(device, [[i, 1]])[0]!)).size > 20, "tokens vary");
});

test("calls are counted, each op by itself", () => {
  const device = new NullDevice();
  sample(device, [[0, 3]]);
  const { stage, gatherLogitRows, matmul, sample: samples, read, ...others } = device.calls;
  assert.deepEqual([stage, gatherLogitRows, matmul, samples, read], [1, 1, 1, 1, 1]);
  assert.ok(Object.values(others).every((count) => count === 0));
});

test("a thousand steps leave no garbage", { skip: global.gc === undefined && "needs --expose-gc" }, () => {
  const device = new NullDevice();
  const batch = new Batch(4, 64);
  batch.addRow(TOKENS, 20, 1, PAGES, 20);
  const staged = device.createStagedBatch();
  const tensor = device.allocTensor(8, VOCAB);
  const plans: [] = [];
  const sampled = device.createTokenBuffer(8);
  const draws = new Draws();
  draws.addGreedy(0);
  // The compiler allocates now and then; a device that did would do so in every round.
  let least = Number.POSITIVE_INFINITY;
  for (let round = 0; round < 10; round++) {
    global.gc!();
    const before = process.memoryUsage().heapUsed;
    for (let i = 0; i < 1000; i++) {
      device.stage(staged, batch, plans);
      device.embed();
      for (let layer = 0; layer < 8; layer++) device.attention();
      device.gatherLogitRows(tensor, tensor, staged, 0, 1);
      device.matmul(tensor);
      device.sample(sampled, 0, tensor, 1, draws);
    }
    least = Math.min(least, process.memoryUsage().heapUsed - before);
  }
  assert.ok(least < 10_000, `${least} bytes in a thousand steps`);
});
