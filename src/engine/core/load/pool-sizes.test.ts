import assert from "node:assert/strict";
import { test } from "node:test";
import type { CacheSpec } from "../../../core/cache-spec.js";
import { NullDevice } from "../../../device/null/null-device.js";
import { poolSizes } from "./pool-sizes.js";

const SHAPE = { layers: [0], numKvHeads: 1, keyDim: 1, valueDim: 1 };
const FULL: CacheSpec = { kind: "full", ...SHAPE };
const WINDOW: CacheSpec = { kind: "window", ...SHAPE, window: 1024 };
const STATE: CacheSpec = { kind: "state", ...SHAPE, stateFloats: 100 };
const NEEDS = { pageSize: 16, maxContext: 32_768, maxChunk: 128 };
const device = new NullDevice();
const MIB = 2 ** 20;

function sizesFor(
  caches: CacheSpec[],
  pageBytes: number[],
  config: { numPages?: number; kvMemoryMb?: number },
): number[] {
  const { numPages = null, kvMemoryMb = null } = config;
  return poolSizes({ numPages, kvMemoryMb }, device, { ...NEEDS, caches, pageBytes });
}

test("numPages is the pool of a model with one group, to the page", () => {
  assert.deepEqual(sizesFor([FULL], [1000], { numPages: 77 }), [77]);
});

test("a window group gets what its share of typical sequences holds, and enough for one", () => {
  // A typical sequence has 256 pages, of which (1024 + 128) / 16 + 1 are in the window.
  assert.deepEqual(sizesFor([FULL, WINDOW], [1, 1], { numPages: 2561 }), [2561, 1 + 10 * 73]);
  assert.deepEqual(sizesFor([FULL, WINDOW], [1, 1], { numPages: 10 }), [10, 1 + 73]);
  assert.deepEqual(sizesFor([FULL, WINDOW], [1, 1], { numPages: 1000 }), [1000, 1 + 285]); // 999 / 256 * 73 and a bit
});

test("memory asked for is used up, and not exceeded", () => {
  for (const pageBytes of [
    [64_000, 256_000],
    [256_000, 64_000],
  ]) {
    const sizes = sizesFor([FULL, WINDOW], pageBytes, { kvMemoryMb: 4096 });
    const bytes = sizes.reduce((sum, size, g) => sum + size * pageBytes[g]!, 0);
    assert.ok(bytes <= 4096 * MIB && bytes > 0.99 * 4096 * MIB, `${bytes}`);
    assert.ok(Math.abs(sizes[0]! / sizes[1]! - 256 / 73) < 0.02, `${sizes}`);
  }
});

test("states have slots to run in and for snapshots, however few pages there are", () => {
  const [, slots] = sizesFor([FULL, STATE], [1, 1], { numPages: 20 });
  assert.equal(slots, 1 + 24);
});

test("too little memory is refused with what two pages take", () => {
  assert.throws(() => sizesFor([FULL], [MIB], { kvMemoryMb: 1 }), /2097152/);
  const short = new RoomyDevice(1000.7, 1e12);
  const needs = { ...NEEDS, caches: [FULL], pageBytes: [MIB] };
  assert.throws(() => poolSizes({ numPages: null, kvMemoryMb: null }, short, needs), /; 1000 bytes are free/);
});

test("when nobody says otherwise, memory for 64 of the longest sequences is taken, and no more than there is", () => {
  const caches = [FULL];
  const needs = { ...NEEDS, caches, pageBytes: [1000] };
  const roomy = new RoomyDevice(1e12, Number.POSITIVE_INFINITY);
  assert.deepEqual(poolSizes({ numPages: null, kvMemoryMb: null }, roomy, needs), [1 + 64 * 2048]);
  for (const device of [new RoomyDevice(257_000, 1e12), new RoomyDevice(1e12, 257_000)])
    assert.deepEqual(poolSizes({ numPages: null, kvMemoryMb: null }, device, needs), [1 + 256]);
  assert.deepEqual(sizesFor([FULL], [MIB], { kvMemoryMb: 2 }), [2], "two pages are enough");
});

test("what is set aside for adapters is not the pools'", () => {
  const needs = { ...NEEDS, caches: [FULL], pageBytes: [1000], asideBytes: 100_000 };
  assert.deepEqual(poolSizes({ numPages: null, kvMemoryMb: null }, new RoomyDevice(357_000, 1e12), needs), [1 + 256]);
});

test("short contexts need no more window pages than they have; windows of chunks count alike", () => {
  const config = { numPages: 10, kvMemoryMb: null };
  const needs = { ...NEEDS, pageBytes: [1, 1] };
  assert.deepEqual(poolSizes(config, device, { ...needs, caches: [FULL, WINDOW], maxContext: 100 }), [10, 1 + 9]);
  const chunked: CacheSpec = { kind: "window", ...SHAPE, attentionChunk: 512 };
  assert.deepEqual(poolSizes(config, device, { ...needs, caches: [FULL, chunked] }), [10, 1 + 41]);
});

class RoomyDevice extends NullDevice {
  override readonly info: NullDevice["info"];
  readonly #free: number;

  constructor(free: number, maxPoolBytes: number) {
    super();
    this.#free = free;
    this.info = { ...new NullDevice().info, maxPoolBytes };
  }

  override freeMemory(): number {
    return this.#free;
  }
}

test("numPages is exact for every group that keeps everything, also where sequences are fractions", () => {
  const caches: CacheSpec[] = [FULL, { kind: "latent", ...SHAPE }];
  const needs = { ...NEEDS, caches, pageBytes: [1, 1], maxContext: 112 };
  assert.deepEqual(poolSizes({ numPages: 30, kvMemoryMb: null }, device, needs), [30, 30]); // 29 / 7 * 7 is more than 29
});
