import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { countItems, searchKvChunk, workersPerHead } from "./kv-chunk.js";

test("finds the smallest chunk that fits, by comparison with trying all of them", () => {
  fc.assert(
    fc.property(
      fc.array(fc.nat(200), { minLength: 1, maxLength: 8 }),
      fc.integer({ min: 1, max: 60 }),
      fc.integer({ min: 1, max: 20 }),
      (lengths, budget, minChunk) => {
        const starts = new Int32Array(lengths.length);
        const ends = Int32Array.from(lengths);
        const longest = Math.max(1, ...lengths);
        let want = Math.min(minChunk, longest);
        while (want < longest && countItems(starts, ends, lengths.length, want) > budget) want++;
        assert.equal(searchKvChunk(starts, ends, lengths.length, budget, minChunk), want);
      },
    ),
    { numRuns: 300, seed: 31 },
  );
});

test("with a window the result still fits the budget", () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.nat(500), fc.integer({ min: 1, max: 100 })), { minLength: 1, maxLength: 8 }),
      fc.integer({ min: 8, max: 60 }),
      (tiles, budget) => {
        const starts = Int32Array.from(tiles, ([start]) => start);
        const ends = Int32Array.from(tiles, ([start, length]) => start + length);
        const chunk = searchKvChunk(starts, ends, tiles.length, budget, 1);
        assert.ok(countItems(starts, ends, tiles.length, chunk) <= budget);
      },
    ),
    { numRuns: 300, seed: 32 },
  );
});

test("items are cut at absolute multiples of the chunk, and a tile without keys is one", () => {
  for (const chunk of [1, 3, 4, 7]) {
    const tiles: [number, number][] = [];
    for (let start = 0; start < 12; start++) for (let end = start; end < 20; end++) tiles.push([start, end]);
    for (const [start, end] of tiles) {
      const touched = new Set(Array.from({ length: end - start }, (_, i) => Math.floor((start + i) / chunk)));
      const count = (n: number) => countItems(Int32Array.of(start, 2, 5), Int32Array.of(end, 2, 6), n, chunk);
      assert.equal(count(1), Math.max(1, touched.size), `${start} to ${end} by ${chunk}`);
      assert.equal(count(3), Math.max(1, touched.size) + 2);
    }
  }
});

test("a launch that runs every item once for each head leaves each head its share of the workers, one at least", () => {
  assert.deepEqual([workersPerHead(264, 4), workersPerHead(7, 2), workersPerHead(3, 8)], [66, 3, 1]);
});

test("tiles without keys are not cut", () => {
  assert.equal(searchKvChunk(new Int32Array(2), new Int32Array(2), 2, 1, 4), 1);
});
