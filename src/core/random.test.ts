import assert from "node:assert/strict";
import { test } from "node:test";
import { philox4x32, uniformAt } from "./random.js";

function hex(counter: number[], key: number[]): string {
  const out = new Uint32Array(4);
  philox4x32(out, counter[0]!, counter[1]!, counter[2]!, counter[3]!, key[0]!, key[1]!);
  return [...out].map((x) => x.toString(16).padStart(8, "0")).join(" ");
}

test("philox4x32-10 gives the published known answers", () => {
  assert.equal(hex([0, 0, 0, 0], [0, 0]), "6627e8d5 e169c58d bc57ac4c 9b00dbd8");
  const ones = 0xffffffff;
  assert.equal(hex([ones, ones, ones, ones], [ones, ones]), "408f276d 41c83b0e a20bc7c6 6d5451fd");
  assert.equal(
    hex([0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344], [0xa4093822, 0x299f31d0]),
    "d16cfe09 94fdcceb 5001e420 24126ea1",
  );
});

test("uniformAt is in [0, 1), differs by seed, sample and position, and is uniform", () => {
  const seen = new Set<number>();
  const buckets = new Int32Array(10);
  for (let seed = 0; seed < 10; seed++)
    for (let sample = 0; sample < 10; sample++)
      for (let position = 0; position < 100; position++) {
        const u = uniformAt(seed, sample, position);
        assert.ok(u >= 0 && u < 1);
        seen.add(u);
        buckets[Math.floor(u * 10)]!++;
      }
  assert.equal(seen.size, 10_000);
  for (const count of buckets) assert.ok(Math.abs(count - 1000) < 150, `bucket of ${count}`);
  assert.notEqual(uniformAt(1, 0, 0), uniformAt(1 + 2 ** 32, 0, 0));
});

test("uniformAt takes its bits from the first two words of the block of (position, sample) under the seed's two words", () => {
  const words = new Uint32Array(4);
  for (const [seed, sample, position] of [
    [0, 0, 0],
    [5, 3, 200],
    [2 ** 32 + 5, 0, 7],
    [2 ** 53 - 1, 9, 100],
  ] as const) {
    philox4x32(words, position, sample, 0, 0, seed % 2 ** 32, Math.floor(seed / 2 ** 32));
    const bits = (BigInt(words[0]! >>> 5) << 26n) | BigInt(words[1]! >>> 6);
    assert.equal(uniformAt(seed, sample, position), Number(bits) / 2 ** 53);
  }
});
