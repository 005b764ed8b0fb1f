import assert from "node:assert/strict";
import { test } from "node:test";
import type { KvPool, KvPoolSpec, StatePool } from "../../../device/device.js";
import { ReferenceDevice } from "../../../device/reference/reference-device.js";
import { PageBytes } from "./page-bytes.js";

const SPEC: KvPoolSpec = {
  ...{ group: 0, pageSize: 2, numLayers: 1, numKvHeads: 1, keyDim: 3, valueDim: 1, isLatent: false, dtype: "f32" },
  numPages: 5,
};

function pagesOn(device: ReferenceDevice) {
  const pools = [device.allocKvPool(SPEC), device.allocStatePool({ numSlots: 4, floats: 3 })] as const;
  return { pages: new PageBytes(device, pools), pools };
}

const bytesOf = (length: number, first: number) => Uint8Array.from({ length }, (_, i) => first + i);
const floatBytes = (...values: number[]) => new Uint8Array(Float32Array.from(values).buffer);

test("pages and states are read as they were written, each where it belongs", () => {
  const device = new ReferenceDevice();
  const counts: number[] = [];
  const { readPages, writePages } = device;
  device.readPages = (out, pool, ids, count) => {
    counts.push(count);
    readPages.call(device, out, pool, ids, count);
  };
  device.writePages = (pool, ids, count, bytes) => {
    counts.push(count);
    writePages.call(device, pool, ids, count, bytes);
  };
  const { pages } = pagesOn(device);
  assert.deepEqual(
    [pages.pageBytes, pages.numPages],
    [
      [2 * 4 * 4, 12],
      [5, 4],
    ],
  );
  const read = (group: number, page: number) => {
    const out = new Uint8Array(pages.pageBytes[group]!);
    pages.read(out, group, page);
    return out;
  };
  pages.write(0, 1, bytesOf(32, 1));
  pages.write(0, 3, bytesOf(32, 100));
  pages.write(1, 2, floatBytes(1, 2, 3));
  pages.write(1, 3, Buffer.concat([Buffer.alloc(1), floatBytes(4, 5, 6)]).subarray(1)); // not on a boundary of floats
  assert.deepEqual(read(0, 1), bytesOf(32, 1));
  assert.deepEqual(read(0, 3), bytesOf(32, 100));
  assert.deepEqual(read(0, 2), new Uint8Array(32));
  assert.deepEqual(
    [read(1, 2), read(1, 3), read(1, 1)],
    [floatBytes(1, 2, 3), floatBytes(4, 5, 6), new Uint8Array(12)],
  );
  pages.load(0, 4, bytesOf(32, 7));
  const saved = new Uint8Array(32);
  pages.save(saved, 0, 4);
  assert.deepEqual(saved, bytesOf(32, 7));
  assert.deepEqual(counts, Array(7).fill(1), "one page at a time");
});

test("host memory is whole floats; locking it takes at most a twentieth of the time", () => {
  const { pages } = pagesOn(new ReferenceDevice());
  for (const length of [1, 4, 5]) assert.equal(pages.allocHost(length)!.length, length);

  class SavingDevice extends ReferenceDevice {
    readonly asked: unknown[] = [];
    override allocHost(numFloats: number): Float32Array {
      this.asked.push(numFloats);
      const end = performance.now() + 3;
      while (performance.now() < end); // memory is locked page by page
      return super.allocHost(numFloats);
    }
    swapOut(_out: Uint8Array, pool: KvPool | StatePool, page: number): void {
      this.asked.push("save", pool, page);
    }
    swapIn(pool: KvPool | StatePool, page: number): void {
      this.asked.push("load", pool, page);
    }
  }
  const device = new SavingDevice();
  const { pages: saving, pools } = pagesOn(device);
  const start = performance.now();
  assert.equal(saving.allocHost(9)!.length, 9);
  while (saving.allocHost(1) === null); // as long as it takes
  const waited = performance.now() - start;
  assert.ok(waited >= 19 * 3, `${waited} ms`);
  saving.save(new Uint8Array(32), 0, 2);
  saving.load(1, 3, new Uint8Array(12));
  assert.deepEqual(device.asked, [3, 1, "save", pools[0], 2, "load", pools[1], 3]);
});
