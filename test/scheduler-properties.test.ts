// Properties of scheduler and cache over arbitrary small worlds.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { CacheManager } from "../src/cache/cache-manager.js";
import { expectedTokens, makeRequest, Simulation, tokensOf } from "./support/simulation.js";

const world = fc.record({
  mode: fc.constantFrom("extend" as const, "chunked" as const),
  pageSize: fc.integer({ min: 1, max: 6 }),
  maxPagesPerBatch: fc.integer({ min: 1, max: 5 }),
  idealChunk: fc.integer({ min: 1, max: 20 }),
  pages: fc.integer({ min: 1, max: 30 }),
  prefixCaching: fc.boolean(),
});

const arrivals = fc.array(
  fc.record({
    family: fc.nat(2),
    common: fc.nat(12),
    own: fc.integer({ min: 1, max: 15 }),
    maxTokens: fc.integer({ min: 1, max: 10 }),
    priority: fc.integer({ min: -1, max: 1 }),
    afterStep: fc.nat(12),
  }),
  { minLength: 1, maxLength: 12 },
);

test("property: whatever the world, every request that fits ends with the tokens it gets alone, and no page leaks", () => {
  fc.assert(
    fc.property(world, arrivals, (options, list) => {
      const sim = new Simulation(options);
      const requests = new Map<string, number[]>();
      for (let step = 0; step <= 12; step++) {
        for (const [i, arrival] of list.entries()) {
          if (arrival.afterStep !== step) continue;
          const prompt = [...tokensOf(arrival.family, arrival.common), ...tokensOf(10 + i, arrival.own)];
          requests.set(`r${i}`, prompt);
          sim.add(`r${i}`, prompt, { maxTokens: arrival.maxTokens, priority: arrival.priority });
        }
        sim.step();
        sim.checkIntegrity();
      }
      sim.runAll(5000);
      assert.equal(sim.finished.length, list.length);
      for (const request of sim.finished) {
        const prompt = requests.get(request.id)!;
        const generated = [...request.tokens.slice(prompt.length, request.numTokens)];
        assert.deepEqual(generated, expectedTokens(prompt, generated.length));
        const needed = Math.ceil((prompt.length + request.sampling.maxTokens - 1) / sim.pageSize);
        if (needed <= options.pages) assert.equal(generated.length, request.sampling.maxTokens);
      }
      assert.equal(sim.cache.stats().pagesUsed, 0);
      sim.checkIntegrity();
    }),
    { seed: 3, numRuns: 400 },
  );
});

test("property: with pages to spare, a step that leaves a page of budget unused has served everybody", () => {
  fc.assert(
    fc.property(world, arrivals, (options, list) => {
      const sim = new Simulation({ ...options, mode: "extend", pages: 1000, prefixCaching: false });
      for (const [i, { own, maxTokens }] of list.entries()) sim.add(`r${i}`, tokensOf(i, own), { maxTokens });
      for (;;) {
        const numLive = sim.scheduler.numRunning + sim.scheduler.numWaiting;
        const rows = sim.step();
        if (rows.length === 0) break;
        const numTokens = rows.reduce((sum, row) => sum + row.queryLen, 0);
        if (numTokens <= sim.scheduler.budget - sim.pageSize && numLive < sim.scheduler.budget) {
          assert.equal(rows.length, numLive);
        }
      }
    }),
    { seed: 4, numRuns: 300 },
  );
});

test("property: attach finds exactly the longest published page-aligned prefix of the same salt", () => {
  const sequence = fc.record({
    salt: fc.constantFrom("", "a"),
    tokens: fc.array(fc.nat(1), { minLength: 1, maxLength: 12 }),
  });
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 4 }), fc.array(sequence, { maxLength: 20 }), (pageSize, sequences) => {
      const cache = new CacheManager({ pageSize, prefixCaching: true, groups: [{ kind: "full", numPages: 500 }] });
      const published = new Set<string>();
      for (const [i, { salt, tokens }] of sequences.entries()) {
        const request = makeRequest(`r${i}`, tokens, { salt });
        let expected = 0;
        while (
          expected + pageSize < tokens.length &&
          published.has(`${salt}:${tokens.slice(0, expected + pageSize)}`)
        ) {
          expected += pageSize;
        }
        assert.equal(cache.attach(request), expected);
        assert.ok(cache.tryReserve(request, tokens.length));
        request.numComputed = tokens.length;
        cache.release(request);
        for (let end = pageSize; end <= tokens.length; end += pageSize) {
          published.add(`${salt}:${tokens.slice(0, end)}`);
        }
        cache.checkIntegrity([]);
      }
      assert.equal(cache.stats().entries, published.size, "one node for each distinct prefix");
    }),
    { seed: 5, numRuns: 300 },
  );
});
