import assert from "node:assert/strict";
import { test } from "node:test";
import { ReferenceDevice } from "../../device/reference/reference-device.js";
import { HostReadback } from "./flight.js";

test("rows keep what they were when kept, over as many blocks as they need, and blocks are used again", () => {
  const device = new ReferenceDevice();
  const numAllocated = { blocks: 0 };
  const allocHost = device.allocHost.bind(device);
  device.allocHost = (numFloats) => {
    numAllocated.blocks++;
    return allocHost(numFloats);
  };
  const kept = new HostReadback(device);
  const cols = 2 ** 16; // four rows are a block
  const x = device.allocTensor(5, cols);
  for (const round of [1, 2]) {
    const expected: number[] = [];
    // 3 and 1 fill a block, 2 and 2 the next one, 5 are more than one holds, 1 finds no room behind them.
    for (const [i, n] of [3, 1, 2, 2, 5, 1].entries()) {
      for (let row = 0; row < 5; row++) x.data.fill(100 * round + 10 * i + row, row * cols, (row + 1) * cols);
      const first = 5 - n;
      assert.equal(kept.keep(x, first, n), expected.length);
      for (let row = first; row < 5; row++) expected.push(100 * round + 10 * i + row);
    }
    for (const [i, value] of expected.entries()) {
      const row = kept.row(i);
      assert.equal(row.length, cols);
      assert.ok(row[0] === value && row[cols - 1] === value, `row ${i} of round ${round}`);
    }
    assert.equal(numAllocated.blocks, 4);
    kept.clear();
  }
});
