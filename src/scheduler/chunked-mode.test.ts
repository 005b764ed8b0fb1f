// The second mode: fixed chunks, prefill and decode never in one step.
import assert from "node:assert/strict";
import { test } from "node:test";
import { expectedTokens, makeRequest, Simulation, tokensOf } from "../../test/support/simulation.js";

test("prefill and decode steps take turns", () => {
  const sim = new Simulation({ mode: "chunked", pageSize: 4, maxPagesPerBatch: 4, fixedChunk: 8 });
  sim.add("writer", tokensOf(1, 8), { maxTokens: 6 });
  sim.step();
  sim.add("prompt", tokensOf(2, 24));
  assert.deepEqual(
    sim.runAll().map((rows) => rows.map((row) => `${row.id} ${row.start}+${row.queryLen}`)),
    [
      ["writer 8+1"],
      ["prompt 0+8"],
      ["writer 9+1"],
      ["prompt 8+8"],
      ["writer 10+1"],
      ["prompt 16+8"],
      ["writer 11+1"],
      ["writer 12+1"],
    ],
  );
});

test("every chunk costs its full size: two of 8 fill a budget of 16, however short", () => {
  const sim = new Simulation({ mode: "chunked", pageSize: 4, maxPagesPerBatch: 4, fixedChunk: 8 });
  for (let i = 0; i < 4; i++) sim.add(`p${i}`, tokensOf(i + 1, 2));
  assert.deepEqual(
    sim.runAll().map((rows) => rows.length),
    [2, 2],
  );
});

test("decodes of all requests share a step, up to the budget", () => {
  const sim = new Simulation({ mode: "chunked", pageSize: 4, maxPagesPerBatch: 4, fixedChunk: 4 });
  for (let i = 0; i < 4; i++) sim.add(`p${i}`, tokensOf(i + 1, 4), { maxTokens: 2 });
  assert.deepEqual(
    sim.runAll().map((rows) => rows.length),
    [4, 4],
  );
});

test("decodes fill the budget to its last token, whether or not prompts take turns with them", () => {
  const sim = new Simulation({ mode: "chunked", pageSize: 4, maxPagesPerBatch: 1, fixedChunk: 4 });
  for (let i = 0; i < 4; i++) sim.add(`w${i}`, tokensOf(i + 1, 1), { maxTokens: 12 });
  const numRows = sim.runAll().map((rows) => rows.length);
  assert.deepEqual(numRows.slice(0, 12), [1, 1, 1, 2, 1, 3, 1, 4, 4, 4, 4, 4]);
});

test("a chunk larger than the budget is cut to it, and to whole pages", () => {
  const sim = new Simulation({ mode: "chunked", pageSize: 4, maxPagesPerBatch: 2, fixedChunk: 30 });
  sim.add("prompt", tokensOf(1, 20));
  assert.deepEqual(
    sim.runAll().map((rows) => rows[0]!.queryLen),
    [8, 8, 4],
  );
});

test("both modes give the same tokens, preempted or not", () => {
  for (const mode of ["extend", "chunked"] as const) {
    const sim = new Simulation({ mode, pageSize: 4, pages: 12, maxPagesPerBatch: 4, idealChunk: 8 });
    const requests = [10, 7, 21, 4].map((length, i) => sim.add(`r${i}`, tokensOf(i + 1, length), { maxTokens: 15 }));
    sim.runAll();
    assert.ok(requests.some((request) => request.numPreemptions > 0));
    for (const [i, request] of requests.entries()) {
      const prompt = tokensOf(i + 1, request.promptLen);
      assert.deepEqual([...request.tokens.slice(request.promptLen, request.numTokens)], expectedTokens(prompt, 15));
    }
  }
});

test("who finds all but its last token in the cache has a page for it in a window group before it decodes", () => {
  const sim = new Simulation({
    mode: "chunked",
    pageSize: 4,
    maxPagesPerBatch: 4,
    fixedChunk: 8,
    groups: [
      { kind: "full", numPages: 60 },
      { kind: "window", numPages: 60, window: 8 },
    ],
  });
  const prompt = tokensOf(1, 32);
  sim.add("ahead", prompt);
  const behind = makeRequest("behind", prompt, { maxTokens: 3, priority: 1 });
  behind.appendToken(7); // as a sample that found no page when it was forked
  sim.scheduler.add(behind);
  sim.runAll(); // checkRules looks for the pages of every row
  assert.deepEqual([behind.numGenerated, behind.numCached], [3, 32]);
});
