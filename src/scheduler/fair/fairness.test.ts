// The fairness rules of docs/internals/scheduler.md, each with the traffic that would break it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Simulation, tokensOf } from "../../../test/support/simulation.js";

/** One chunk fills the budget, so every step has one winner among the prompts. */
const TIGHT = { pageSize: 4, maxPagesPerBatch: 4, idealChunk: 16, prefixCaching: false } as const;

test("a long prompt progresses although a short one arrives before every step", () => {
  const sim = new Simulation(TIGHT);
  const long = sim.add("long", tokensOf(1, 160));
  let steps = 0;
  while (long.state !== "finished") {
    sim.add(`short ${steps}`, tokensOf(steps + 2, 16));
    sim.step();
    assert.ok(++steps < 100, "the long prompt starves");
  }
  // 10 chunks; a short one may come between two of them, and the queue they leave behind slows it only a little.
  assert.ok(steps <= 60, `took ${steps} steps`);
});

test("short prompts progress although a long one is under way", () => {
  const sim = new Simulation(TIGHT);
  sim.add("long", tokensOf(1, 1600));
  sim.step();
  for (let i = 0; i < 20; i++) {
    const short = sim.add(`short ${i}`, tokensOf(i + 2, 16));
    sim.step();
    sim.step();
    assert.equal(short.state, "finished", "within two steps");
  }
});

test("each of many prompts under way gets a chunk within as many steps", () => {
  const sim = new Simulation({ ...TIGHT, maxPagesPerBatch: 8 });
  const prompts = Array.from({ length: 6 }, (_, i) => sim.add(`p${i}`, tokensOf(i + 1, 400)));
  const lastServed = new Map<string, number>();
  for (let step = 0; step < 60; step++) {
    for (const { id } of sim.step()) lastServed.set(id, step);
    for (const { id, state } of prompts) {
      if (state !== "finished") assert.ok(step - (lastServed.get(id) ?? -1) <= 6, `${id} waits at step ${step}`);
    }
  }
});

test("beyond the first chunk of a step the earlier prompt goes first, so a burst finishes one by one", () => {
  const sim = new Simulation({ ...TIGHT, maxPagesPerBatch: 16 });
  const prompts = Array.from({ length: 6 }, (_, i) => sim.add(`p${i}`, tokensOf(i + 1, 64)));
  sim.runAll();
  const ends = prompts.map((request) => request.finishedMs);
  assert.ok(ends[0]! < ends[5]!, `finished at ${ends}`);
});

test("decodes that fill the budget do not shut a prompt out: it gets a page every other step", () => {
  // 16 decodes fill the whole budget of 16.
  const sim = new Simulation(TIGHT);
  const writers = Array.from({ length: 16 }, (_, i) => sim.add(`w${i}`, tokensOf(i + 1, 1), { maxTokens: 200 }));
  sim.step();
  assert.equal(sim.step().length, 16);
  sim.scheduler.finish(writers.pop()!, "stop");
  const long = sim.add("long", tokensOf(99, 40));
  let steps = 0;
  while (long.state !== "finished") {
    const rows = sim.step();
    const total = rows.reduce((sum, row) => sum + row.queryLen, 0);
    assert.ok(total >= 15, "the budget is used");
    assert.ok(++steps <= 20, "the prompt starves");
  }
  const counts = writers.map((request) => request.numGenerated);
  assert.ok(Math.max(...counts) - Math.min(...counts) <= steps / 2 + 1, `the decodes keep pace: ${counts}`);
});

test("with a budget of one page prompts and decodes alternate", () => {
  const sim = new Simulation({ pageSize: 4, maxPagesPerBatch: 1, idealChunk: 4, prefixCaching: false });
  const writer = sim.add("writer", tokensOf(1, 1), { maxTokens: 100 });
  sim.step();
  const long = sim.add("long", tokensOf(2, 40));
  const before = writer.numGenerated;
  let steps = 0;
  while (long.state !== "finished") {
    sim.step();
    assert.ok(++steps <= 25, "the prompt starves");
  }
  assert.ok(writer.numGenerated - before >= 9, "so does the decode");
});

test("what was kept for a prompt that cannot be admitted goes back to the decodes", () => {
  const sim = new Simulation({ ...TIGHT, pages: 18 });
  for (let i = 0; i < 15; i++) sim.add(`w${i}`, tokensOf(i + 1, 1), { maxTokens: 3 });
  sim.step();
  sim.add("blocked", tokensOf(99, 40)); // 10 pages, 3 are free
  for (let step = 0; step < 2; step++) assert.equal(sim.step().length, 15);
});

test("nobody overtakes a request that waits for pages", () => {
  const sim = new Simulation({ pageSize: 4, pages: 10, prefixCaching: false });
  const running = sim.add("running", tokensOf(1, 20), { maxTokens: 10 });
  sim.step();
  const big = sim.add("big", tokensOf(2, 36));
  const small = sim.add("small", tokensOf(3, 4));
  sim.runAll();
  assert.ok(running.finishedMs < big.firstScheduledMs);
  assert.ok(big.firstScheduledMs <= small.firstScheduledMs);
});
