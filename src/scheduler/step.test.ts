// What a row in a step does to its request.
import assert from "node:assert/strict";
import { test } from "node:test";
import { makeRequest, rowsOf, Simulation, tokensOf } from "../../test/support/simulation.js";
import { Request } from "../core/request.js";
import type { Step } from "./scheduler.js";

test("a request whose tokens the device chooses is scheduled ahead of them, as far as its answer can go", () => {
  for (const [maxTokens, decodes] of [
    [1, []],
    [2, [6]],
    [4, [6, 7, 8]],
  ] as const) {
    for (const runsAhead of [true, false]) {
      const sim = new Simulation({ pageSize: 4, maxPagesPerBatch: 4, idealChunk: 4 });
      const { id, sampling } = makeRequest("r", [], { maxTokens });
      const request = new Request({ id, prompt: tokensOf(1, 6), sampling, runsAhead });
      sim.scheduler.add(request);
      const seen: number[][] = [];
      for (;;) {
        const step = sim.scheduler.schedule(sim.scheduler.createStep());
        if (step === null) break;
        const { start, queryLen } = rowsOf(step)[0]!;
        seen.push([start, queryLen, request.numPending, request.numComputed, request.numInFlight, request.numSteps]);
      }
      const promised = runsAhead ? 1 : 0;
      const ahead = runsAhead ? decodes.map((start, i) => [start, 1, i + 2, start + 1, start + 1, i + 3]) : [];
      assert.deepEqual(seen, [[0, 4, 0, 4, 4, 1], [4, 2, promised, 6, 6, 2], ...ahead]);
    }
  }
});

/** Scheduled ahead of its tokens in steps of its own; none has landed. */
function fly(sim: Simulation, promptLen: number, maxTokens: number) {
  const { id, sampling } = makeRequest("r", [], { maxTokens });
  const request = new Request({ id, prompt: tokensOf(1, promptLen), sampling, runsAhead: true });
  sim.scheduler.add(request);
  const steps: Step[] = [];
  for (let step = launch(sim); step !== null; step = launch(sim)) steps.push(step);
  return { request, steps };
}

const launch = (sim: Simulation): Step | null => sim.scheduler.schedule(sim.scheduler.createStep());

test("a row ends where its tokens do", () => {
  const { steps } = fly(new Simulation({ pageSize: 4, maxPagesPerBatch: 4, idealChunk: 4 }), 6, 2);
  assert.deepEqual(
    steps.map((step) => step.endOf(0)),
    [4, 6, 7],
  );
});

test("a request that would outgrow the pool is scheduled no further while it is in flight, and ends when it has landed", () => {
  const sim = new Simulation({ pageSize: 4, pages: 4 });
  const { request, steps } = fly(sim, 16, 4);
  assert.deepEqual([steps.length, request.numTokensWithPending, request.state], [1, 17, "running"]);
  sim.scheduler.land(steps[0]!);
  request.accept([5], 0, 1);
  assert.equal(launch(sim), null);
  assert.deepEqual([request.state, request.finishReason, request.numGenerated], ["finished", "length", 1]);
});

test("a page is cached once its last token is known, though that is after the page has landed", () => {
  const sim = new Simulation({ pageSize: 4, maxPagesPerBatch: 4, idealChunk: 4 });
  const { request, steps } = fly(sim, 3, 2);
  for (const step of steps) sim.scheduler.land(step);
  assert.equal(sim.cache.stats().entries, 0);
  for (const token of [5, 6]) request.accept([token], 0, 1);
  sim.scheduler.finish(request, "length");
  assert.equal(sim.cache.stats().entries, 1);
  sim.checkIntegrity();
});

test("a request that is ended in flight keeps its pages until its last flight has landed, and has nothing pending then", () => {
  const sim = new Simulation({ pageSize: 4, maxPagesPerBatch: 4, idealChunk: 4 });
  const { request, steps } = fly(sim, 3, 3);
  sim.scheduler.abort(request.id);
  for (const step of steps) {
    assert.deepEqual([request.numPending, sim.cache.stats().pagesUsed > 0], [3, true]);
    sim.scheduler.land(step);
  }
  assert.deepEqual([request.numPending, sim.cache.stats().pagesUsed], [0, 0]);
});
