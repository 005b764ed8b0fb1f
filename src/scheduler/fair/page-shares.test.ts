// Where one client has filled the pool (docs/internals/scheduler.md, "Several clients"): others' requests do not wait for its answers to end.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { expectedTokens, forkOf, Simulation, tokensOf } from "../../../test/support/simulation.js";
import type { Request } from "../../core/request.js";

/** 24 requests of one client that take four times the pool; it is full after some steps. */
function filledPool(numSteps: number): { sim: Simulation; greedy: Request[] } {
  const sim = new Simulation({ pageSize: 4, pages: 192, maxPagesPerBatch: 16, idealChunk: 32 });
  const greedy = Array.from({ length: 24 }, (_, i) =>
    sim.add(`greedy ${i}`, tokensOf(i, 40), { client: "greedy", maxTokens: 88 }),
  );
  for (let i = 0; i < numSteps; i++) sim.step();
  return { sim, greedy };
}

for (const numSteps of [30, 50, 70, 90])
  test(`a newcomer has its first token within two steps of a pool that another client has filled for ${numSteps} steps`, () => {
    const { sim, greedy } = filledPool(numSteps);
    assert.ok(sim.scheduler.numWaiting > 0);
    const newcomer = sim.add("newcomer", tokensOf(50, 20), { client: "other", maxTokens: 10 });
    sim.step();
    sim.step();
    assert.ok(newcomer.numGenerated >= 1);
    for (let i = 0; i < 10; i++) sim.step();
    assert.deepEqual([newcomer.finishReason, newcomer.numPreemptions], ["length", 0]);
    sim.runAll();
    for (const request of [...greedy, newcomer]) {
      const prompt = request.tokens.slice(0, request.promptLen);
      const answer = [...request.tokens.slice(request.promptLen, request.numTokens)];
      assert.deepEqual(answer, expectedTokens(prompt, request.sampling.maxTokens));
    }
  });

test("the last request of whoever has most beyond its part yields, and first gets as many tokens as it had to compute again", () => {
  const sim = new Simulation({ pageSize: 4, pages: 24, maxPagesPerBatch: 16, idealChunk: 64 });
  const rows = [1, 2, 3].map((i) => sim.add(`greedy ${i}`, tokensOf(i, 24), { client: "greedy", maxTokens: 60 }));
  sim.add("small", tokensOf(4, 4), { client: "small", maxTokens: 40 });
  sim.step();
  sim.add("greedy 4", tokensOf(5, 24), { client: "greedy" });
  sim.step();
  const newcomers: Request[] = [];
  const arrive = () => {
    const i = newcomers.length;
    newcomers.push(sim.add(`new ${i}`, tokensOf(10 + i, 20), { client: `new ${i}` }));
    sim.step();
    sim.step();
    return newcomers[i]!.state;
  };
  assert.equal(arrive(), "finished");
  assert.deepEqual(
    rows.map(({ numPreemptions }) => numPreemptions),
    [0, 0, 1],
  );
  const last = rows[2]!;
  while (last.state !== "running") sim.step();
  assert.ok(last.preemptibleFrom > last.numTokens);
  arrive();
  assert.equal(last.numPreemptions, 1, "the one before it yields");
});

test("a client's only request does not yield, however much it has", () => {
  const sim = new Simulation({ pageSize: 4, pages: 24, maxPagesPerBatch: 32, idealChunk: 128 });
  const only = sim.add("only", tokensOf(1, 84), { client: "a", maxTokens: 10 });
  sim.step();
  const newcomer = sim.add("newcomer", tokensOf(2, 24), { client: "b" });
  while (only.state !== "finished") sim.step();
  assert.deepEqual([only.numPreemptions, newcomer.state], [0, "waiting"]);
  sim.runAll();
  assert.equal(newcomer.finishReason, "length");
});

test("pages that a client's requests share count once", () => {
  const sim = new Simulation({ pageSize: 4, pages: 30, maxPagesPerBatch: 16, idealChunk: 64 });
  const parent = sim.add("parent", tokensOf(1, 20), { client: "a", maxTokens: 9 });
  sim.step();
  const samples = Array.from({ length: 4 }, (_, i) => forkOf(parent, `sample ${i}`, 7 + i, { maxTokens: 9 }));
  for (const sample of samples) sim.copy(sim.scheduler.fork(parent, sample));
  const first = sim.add("first", tokensOf(2, 36), { client: "b", maxTokens: 9 });
  sim.step();
  assert.equal(first.state, "running");
  // The samples have 5 pages together and one each: no more than a third of the pool, of which 11 pages are left.
  const newcomer = sim.add("newcomer", tokensOf(3, 30), { client: "c" });
  sim.step();
  sim.step();
  assert.equal(
    newcomer.state,
    "waiting",
    "nobody has more than its part: it waits until each that runs has a page to spare",
  );
  for (const { id, numPreemptions } of [parent, ...samples, first]) assert.equal(numPreemptions, 0, id);
});

test("worse priority does not make better ones yield", () => {
  const { sim, greedy } = filledPool(50);
  const newcomer = sim.add("newcomer", tokensOf(50, 150), { client: "other", priority: 1 });
  for (let i = 0; i < 30; i++) sim.step();
  assert.equal(newcomer.state, "waiting");
  assert.ok(greedy.some(({ state }) => state === "running"));
});

const arrivals = fc.array(
  fc.record({
    client: fc.nat(3),
    promptLen: fc.integer({ min: 1, max: 60 }),
    maxTokens: fc.integer({ min: 1, max: 40 }),
    priority: fc.constantFrom(0, 0, 0, 1),
    afterStep: fc.nat(60),
  }),
  { minLength: 8, maxLength: 40 },
);

test("property: whatever clients ask of a small pool, every request ends with the tokens it gets alone, and none is preempted for ever", () => {
  fc.assert(
    fc.property(arrivals, fc.integer({ min: 26, max: 60 }), fc.boolean(), (list, pages, prefixCaching) => {
      const sim = new Simulation({ pageSize: 4, pages, maxPagesPerBatch: 8, idealChunk: 16, prefixCaching });
      const requests: Request[] = [];
      for (let step = 0; step <= 60; step++) {
        for (const [i, { client, promptLen, maxTokens, priority, afterStep }] of list.entries()) {
          if (afterStep !== step) continue;
          requests.push(sim.add(`r${i}`, tokensOf(i, promptLen), { client: `c${client}`, maxTokens, priority }));
        }
        sim.step();
        sim.checkIntegrity();
      }
      sim.runAll(5000);
      for (const request of requests) {
        const prompt = request.tokens.slice(0, request.promptLen);
        const answer = [...request.tokens.slice(request.promptLen, request.numTokens)];
        assert.deepEqual(answer, expectedTokens(prompt, request.sampling.maxTokens));
        // Each time it has got a token meanwhile, or one that came before it has needed a page.
        assert.ok(request.numPreemptions <= 10, `${request.id} was preempted ${request.numPreemptions} times`);
      }
      assert.equal(sim.cache.stats().pagesUsed, 0);
    }),
    { seed: 8, numRuns: 300 },
  );
});

test("property: a short request of a client that has none running begins within a few steps, whatever another has filled the pool with", () => {
  const shapes = fc.array(fc.tuple(fc.integer({ min: 8, max: 60 }), fc.integer({ min: 20, max: 120 })), {
    minLength: 12,
    maxLength: 30,
  });
  fc.assert(
    fc.property(shapes, fc.integer({ min: 10, max: 100 }), (list, numSteps) => {
      const sim = new Simulation({ pageSize: 4, pages: 120, maxPagesPerBatch: 16, idealChunk: 32 });
      for (const [i, [promptLen, maxTokens]] of list.entries())
        sim.add(`greedy ${i}`, tokensOf(i, promptLen), { client: "greedy", maxTokens });
      for (let i = 0; i < numSteps; i++) sim.step();
      const newcomer = sim.add("newcomer", tokensOf(90, 24), { client: "other", maxTokens: 12 });
      for (let i = 0; i < 16; i++) sim.step();
      assert.deepEqual([newcomer.finishReason, newcomer.numPreemptions], ["length", 0]);
    }),
    { seed: 9, numRuns: 200 },
  );
});
