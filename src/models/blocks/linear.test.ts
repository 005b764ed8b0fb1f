import { deepEqual } from "node:assert/strict";
import { test } from "node:test";
import type { HostTensor, TensorSource } from "../../core/tensor.js";
import type { StagedBatch } from "../../device/device.js";
import { NullDevice } from "../../device/null/null-device.js";
import { madeTensor } from "../../formats/tensor-views.js";
import { Loader } from "../loader.js";
import { loadLinear } from "./linear.js";

/** Any tensor that is asked for, of zeros. */
function loaderOn(device: NullDevice): Loader {
  const get = (name: string, shape: readonly number[]): HostTensor =>
    madeTensor(name, "f32", shape, () => new Uint8Array(4 * shape.reduce((product, size) => product * size, 1)));
  const source = { get, has: () => true } as unknown as TensorSource;
  return new Loader({ device, source, capacity: { maxTokens: 8, maxLogitRows: 2 }, quantize: "none" });
}

test("a stacked Linear knows the matrices it was made of, and which rows are theirs", () => {
  const rowOf = (row: number): number => 7 - row;
  const parts = [
    { name: "a.q_proj", rows: 8, rowOf },
    { name: "a.k_proj", rows: 4 },
    { name: "a.v_proj", rows: 2 },
  ];
  const linear = loadLinear(loaderOn(new NullDevice()), parts, 16);
  deepEqual(linear.sites, [
    { name: "a.q_proj", firstRow: 0, rows: 8, rowOf },
    { name: "a.k_proj", firstRow: 8, rows: 4 },
    { name: "a.v_proj", firstRow: 12, rows: 2 },
  ]);
  deepEqual(linear.weight.rows, 14);
});

test("a Linear works on the batch's tokens, the head's on as many logit rows as it is told", () => {
  const seen: number[] = [];
  const device = new (class extends NullDevice {
    override matmul(...args: unknown[]): void {
      seen.push(args[3] as number);
    }
  })();
  const linear = loadLinear(loaderOn(device), [{ name: "a", rows: 4 }], 4);
  const x = device.allocTensor(8, 4);
  const batch: StagedBatch = { numTokens: 5, numRows: 2, numLogitRows: 2 };
  linear.run(x, x, batch);
  linear.run(x, x, batch, 2);
  deepEqual(seen, [5, 2]);
});
