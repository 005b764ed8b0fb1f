// A prefix computed on one engine and taken up by another: the same bits as computing it there; what is damaged on the way is noticed and
// computed instead.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { startEngine } from "../src/engine/client/engine.js";
import type { RelayEngine } from "../src/engine/client/relay.js";
import { writeTinyCheckpoint } from "./support/tiny-checkpoint.js";

const NUM_TOKENS = 2000;
const options = { device: "cpu", threads: 1, worker: false, numPages: 160 } as const;
const model = writeTinyCheckpoint({ context: 4096 });
const prompt = Int32Array.from({ length: NUM_TOKENS + 5 }, (_, i) => (i * 7 + 3) % 250);
let holder: RelayEngine;
let bytes: Uint8Array;

const answer = (engine: RelayEngine, salt = "tenant") =>
  engine.generate([...prompt], { maxTokens: 6, temperature: 1, seed: 3, logprobs: 2, ignoreEos: true, salt }).result();
let expected: Awaited<ReturnType<typeof answer>>;

before(async () => {
  holder = await startEngine({ ...options, model });
  expected = await answer(holder);
  bytes = await holder.lendPages(prompt, "tenant", 0, 1e9);
});
after(() => holder.close());

test("a prefix of 2,000 tokens from another engine gives the same bits, and makes room for itself", async () => {
  await using engine = await startEngine({ ...options, model });
  const other = Array.from(prompt, (id) => (id + 1) % 250);
  await engine.generate(other, { maxTokens: 2 }).result(); // the pool is full of something colder
  const taken = await engine.takePages(prompt, "tenant", bytes);
  assert.deepEqual(taken, { numTaken: NUM_TOKENS / 16, reason: null });
  const got = await answer(engine);
  assert.equal(got.trace.cachedTokens, NUM_TOKENS);
  assert.deepEqual(got.samples, expected.samples);
  const again = await engine.takePages(prompt, "tenant", bytes);
  assert.equal(again.numTaken, 0, "what is here is not taken twice");
  assert.equal((await answer(engine, "another tenant")).trace.cachedTokens, 0);
  assert.equal((await engine.stats()).pagesUsed, 0);
});

test("only what is missing is lent, within a limit", async () => {
  assert.equal((await holder.lendPages(prompt, "another", 0, 1e9)).length, 0);
  const tail = await holder.lendPages(prompt, "tenant", 100, 1e9);
  assert.deepEqual(tail, bytes.subarray((bytes.length / 125) * 100));
  assert.equal((await holder.lendPages(prompt, "tenant", 0, bytes.length / 2)).length, (bytes.length / 125) * 62);
});

for (const [what, damage, numWhole] of [
  ["truncated", (whole: Uint8Array) => whole.subarray(0, whole.length - 10), 124],
  ["corrupted", (whole: Uint8Array) => whole.map((byte, i) => (i === whole.length >> 1 ? byte ^ 1 : byte)), 62],
  ["something else", () => new TextEncoder().encode("<html>Bad gateway</html>".repeat(100)), 0],
] as const) {
  test(`a transfer that is ${what} is noticed: what came whole is used, the rest is computed`, async () => {
    await using engine = await startEngine({ ...options, model });
    const { numTaken, reason } = await engine.takePages(prompt, "tenant", damage(bytes));
    assert.equal(numTaken, numWhole);
    assert.match(reason!, /cut off|checksum/);
    const got = await answer(engine);
    assert.deepEqual(got.samples, expected.samples);
    assert.equal(got.trace.cachedTokens, numWhole * 16);
  });
}

test("pages under a false name are not taken: an identity is that of the tokens, or nothing", async () => {
  await using engine = await startEngine({ ...options, model });
  const { createHash } = await import("node:crypto");
  const recordBytes = bytes.length / 125;
  const forged = Uint8Array.from(bytes.subarray(0, recordBytes));
  forged[44]! ^= 1; // another token under the same identity, with a checksum that fits
  forged.set(
    createHash("sha256")
      .update(forged.subarray(0, recordBytes - 16))
      .digest()
      .subarray(0, 16),
    recordBytes - 16,
  );
  assert.equal((await engine.takePages(prompt, "tenant", forged)).numTaken, 0);
});
