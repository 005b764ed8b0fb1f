// Golden numbers of the extend-attention text (A) that concern chunks, budget and packing. The X codes are its contradictions,
// each pinned to what this project decided.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Row, Simulation, tokensOf } from "../support/simulation.js";

/** The text's setup: 16 tokens a page, chunks of 128, 16 pages a batch. */
const TEXT = { pageSize: 16, idealChunk: 128, maxPagesPerBatch: 16 } as const;

function lens(steps: Row[][]): number[][] {
  return steps.map((rows) => rows.map((row) => row.queryLen));
}

/** Adds `count` requests and brings them to where they decode. */
function addDecodes(sim: Simulation, count: number): void {
  for (let i = 0; i < count; i++) sim.add(`decode ${i}`, tokensOf(1000 + i, 1), { maxTokens: 100 });
  while (sim.scheduler.numWaiting > 0) sim.step();
  sim.step();
}

test("A13: fixed chunks of 2 pages: 32 tokens, starts 0, 32, 64, ..., context cumulative", () => {
  const sim = new Simulation({ ...TEXT, mode: "chunked", fixedChunk: 2 * 16 });
  sim.add("r", tokensOf(1, 100));
  const rows = sim.runAll().map((step) => step[0]!);
  assert.deepEqual(
    rows.map((row) => row.start),
    [0, 32, 64, 96],
  );
  assert.deepEqual(
    rows.map((row) => row.start + row.queryLen),
    [32, 64, 96, 100],
  );
});

test("A14: 250 tokens are (128 @0), (122 @128); 300 are (128 @0), (128 @128), (44 @256)", () => {
  for (const [length, expected] of [
    [250, ["128@0", "122@128"]],
    [300, ["128@0", "128@128", "44@256"]],
    [44, ["44@0"]],
  ] as const) {
    const sim = new Simulation(TEXT);
    sim.add("r", tokensOf(1, length));
    assert.deepEqual(
      sim.runAll().map((rows) => `${rows[0]!.queryLen}@${rows[0]!.start}`),
      expected,
    );
  }
});

test("A14: chunks start at a page even when the ideal size is no multiple of it", () => {
  const sim = new Simulation({ ...TEXT, idealChunk: 100 });
  sim.add("r", tokensOf(1, 250));
  assert.deepEqual(lens(sim.runAll()), [[96], [96], [58]]);
});

test("A15: the budget is 16 x 16 = 256 tokens and the only limit: 256 decodes run in one step", () => {
  const sim = new Simulation(TEXT);
  assert.equal(sim.scheduler.budget, 256);
  addDecodes(sim, 256);
  assert.equal(sim.step().length, 256);
});

test("A15: a decode costs one token and a chunk its tokens, not whole pages", () => {
  const sim = new Simulation(TEXT);
  addDecodes(sim, 3);
  sim.add("a", tokensOf(1, 122));
  sim.add("b", tokensOf(2, 128));
  // 3 + 122 + 128 = 253; rounded up to pages it would be 304.
  assert.deepEqual(lens([sim.step()]), [[1, 1, 1, 122, 128]]);
});

test("A16: packing is greedy and in order, not sorted by size; what does not fit is split, not postponed", () => {
  const sim = new Simulation(TEXT);
  sim.add("small", tokensOf(1, 20));
  sim.add("large", tokensOf(2, 128));
  sim.add("middle", tokensOf(3, 120));
  // 256 - 20 - 128 = 108 left: middle gets the 6 whole pages that fit.
  assert.deepEqual(lens(sim.runAll()), [[20, 128, 96], [24]]);
});

test("A17: 128 + 64 prompt tokens and 64 decodes are one step of exactly 256", () => {
  const sim = new Simulation(TEXT);
  addDecodes(sim, 64);
  sim.add("a", tokensOf(1, 128));
  sim.add("b", tokensOf(2, 64));
  const rows = sim.step();
  assert.deepEqual(lens([rows]), [[...new Array(64).fill(1), 128, 64]]);
  assert.equal(
    rows.reduce((sum, row) => sum + row.queryLen, 0),
    256,
  );
});

test("A17: the decode rows start at 50, 120 and 80, each at its own length", () => {
  const sim = new Simulation(TEXT);
  for (const start of [50, 120, 80]) sim.add(`at ${start}`, tokensOf(start, start), { maxTokens: 5 });
  sim.step();
  assert.deepEqual(
    sim.step().map((row) => row.start),
    [50, 120, 80],
  );
});

test("A17: 10 decodes and 240 prompt tokens fit: 250 of 256", () => {
  const sim = new Simulation(TEXT);
  addDecodes(sim, 10);
  sim.add("a", tokensOf(1, 120));
  sim.add("b", tokensOf(2, 120));
  assert.deepEqual(lens([sim.step()]), [[...new Array(10).fill(1), 120, 120]]);
});

test("A20: 250 and 300 tokens are batches [128,128], [122,128], [44] at starts [0,0], [128,128], [256]", () => {
  const sim = new Simulation(TEXT);
  sim.add("R1", tokensOf(1, 250));
  sim.add("R2", tokensOf(2, 300));
  const steps = sim.runAll();
  assert.deepEqual(lens(steps), [[128, 128], [122, 128], [44]]);
  assert.deepEqual(
    steps.map((rows) => rows.map((row) => row.start)),
    [[0, 0], [128, 128], [256]],
  );
  assert.deepEqual(
    steps.map((rows) => rows.map((row) => row.id)),
    [["R1", "R2"], ["R1", "R2"], ["R2"]],
  );
  const padded = (length: number) => Math.ceil(length / 16) * 16;
  const padding = steps.map((rows) => rows.reduce((sum, row) => sum + padded(row.queryLen) - row.queryLen, 0));
  assert.deepEqual(padding, [0, 6, 4]);
});

test("A21 AX3: 50 tokens by 16 read [:0], [:16], [:32], [:48] and end at 16, 32, 48, 50, on 4 pages", () => {
  const sim = new Simulation({ ...TEXT, idealChunk: 16 });
  const request = sim.add("r", tokensOf(1, 50), { maxTokens: 2 });
  const steps = Array.from({ length: 4 }, () => sim.step()[0]!);
  assert.deepEqual(
    steps.map((row) => row.start),
    [0, 16, 32, 48],
  );
  assert.deepEqual(
    steps.map((row) => row.start + row.queryLen),
    [16, 32, 48, 50],
  );
  assert.equal(request.tables[0]!.numPages, 4);
});

test("AX1: a row has queryLen and contextLen = start + queryLen; 122 is one, 250 the other", () => {
  const sim = new Simulation(TEXT);
  const request = sim.add("R1", tokensOf(1, 250));
  sim.scheduler.land(sim.scheduler.schedule()!);
  const step = sim.scheduler.schedule()!;
  assert.equal(step.queryLens[0], 122);
  assert.equal(step.starts[0]! + step.queryLens[0]!, 250);
  assert.equal(request.numComputed, 250);
});

test("AX4: 64 decodes cost 64 tokens, not 64 pages, so all fit beside 128 + 64; so do 10 beside 2 x 120 and 128 + 112", () => {
  for (const [decodes, prompts] of [
    [64, [128, 64]],
    [10, [120, 120]],
    [10, [128, 112]],
  ] as const) {
    const sim = new Simulation(TEXT);
    addDecodes(sim, decodes);
    for (const [i, length] of prompts.entries()) sim.add(`p${i}`, tokensOf(i + 1, length));
    assert.deepEqual(lens([sim.step()]), [[...new Array(decodes).fill(1), ...prompts]]);
  }
});

test("AX5: 256 - 128 leaves 128, then 64, then 63 for decodes; 67 decodes beside 192 prompt tokens do not fit", () => {
  const sim = new Simulation(TEXT);
  addDecodes(sim, 67);
  sim.add("a", tokensOf(1, 128));
  sim.add("b", tokensOf(2, 64));
  const rows = sim.step();
  // 256 - 67 - 128 = 61: three whole pages of b.
  assert.deepEqual(lens([rows]), [[...new Array(67).fill(1), 128, 48]]);
});

test("AX6: chunks of one request depend on each other and never share a step, whatever budget is left", () => {
  const sim = new Simulation({ ...TEXT, maxPagesPerBatch: 100 });
  sim.add("R1", tokensOf(1, 250));
  sim.add("R2", tokensOf(2, 300));
  assert.deepEqual(lens(sim.runAll()), [[128, 128], [122, 128], [44]]);
});

test("AX7: a task larger than the budget is split by it; nothing spins", () => {
  const sim = new Simulation({ ...TEXT, idealChunk: 4096 });
  sim.add("huge", tokensOf(1, 1000));
  assert.deepEqual(lens(sim.runAll()), [[256], [256], [256], [232]]);
  const tiny = new Simulation({ pageSize: 16, idealChunk: 128, maxPagesPerBatch: 1 });
  tiny.add("huge", tokensOf(1, 50));
  assert.deepEqual(lens(tiny.runAll()), [[16], [16], [16], [2]]);
});

test("AX8: fixed mode packs chunks of several requests by their padded size: 3 invocations at 256, 5 at 128", () => {
  const invocations = (maxPagesPerBatch: number) => {
    const sim = new Simulation({ ...TEXT, mode: "chunked", fixedChunk: 128, maxPagesPerBatch });
    sim.add("R1", tokensOf(1, 250));
    sim.add("R2", tokensOf(2, 300));
    return lens(sim.runAll());
  };
  assert.deepEqual(invocations(16), [[128, 128], [122, 128], [44]]);
  assert.deepEqual(invocations(8), [[128], [128], [122], [128], [44]]);
});

test("AX8: the fixed chunk size is the option's: 32 gives 8 and 10 chunks, two requests in each invocation", () => {
  const sim = new Simulation({ ...TEXT, mode: "chunked", fixedChunk: 32 });
  const [r1, r2] = [sim.add("R1", tokensOf(1, 250)), sim.add("R2", tokensOf(2, 300))];
  const steps = sim.runAll();
  assert.deepEqual([r1.numChunks, r2.numChunks, steps.length], [8, 10, 10]);
  assert.ok(steps.slice(0, 8).every((rows) => rows.length === 2));
});
