// Random traffic on tiny pools: arrivals with common prefixes, priorities, tenants, aborts, forks and failed steps. Every step keeps the
// scheduler's rules and the cache's books; every request ends exactly once, with the tokens it gets alone.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Request } from "../src/core/request.js";
import { makeRandom, type Random } from "./support/random.js";
import { expectedTokens, forkOf, Simulation, type SimulationOptions, tokensOf } from "./support/simulation.js";

class Traffic {
  readonly sim: Simulation;
  readonly random: Random;
  /** Live requests, and how many of their tokens were given to them rather than generated. */
  readonly live = new Map<Request, number>();
  numArrived = 0;
  readonly numEnded = { stop: 0, length: 0, abort: 0, error: 0 };
  numPreemptions = 0;
  numForks = 0;

  constructor(options: SimulationOptions, seed: number) {
    this.sim = new Simulation(options);
    this.random = makeRandom(seed);
  }

  step(isChecked: boolean): void {
    const { sim, random } = this;
    if (this.live.size < 12 && random(3) === 0) this.arrive();
    if (random(40) === 0) this.abortOne();
    if (random(25) === 0) this.forkOne();
    if (random(50) === 0) this.failStep();
    else sim.step();
    this.settle();
    if (!isChecked) return;
    sim.checkIntegrity();
    for (const request of sim.scheduler.running()) sim.checkContent(request);
    assert.equal(sim.scheduler.numRunning + sim.scheduler.numWaiting, this.live.size, "a request is lost");
  }

  drain(): void {
    for (let i = 0; this.live.size > 0; i++) {
      assert.ok(i < 5000, "does not drain");
      this.sim.step();
      this.settle();
      this.sim.checkIntegrity();
    }
    assert.equal(this.sim.cache.stats().pagesUsed, 0, "pages leak");
    for (const [g, { numPages }] of this.sim.groups.entries()) assert.equal(this.sim.cache.available(g), numPages - 1);
  }

  arrive(): void {
    const { random } = this;
    const common = tokensOf(random(3), random(30));
    const prompt = [...common, ...tokensOf(10 + this.numArrived, 1 + random(random(8) === 0 ? 120 : 20))];
    const request = this.sim.add(`r${this.numArrived++}`, prompt, {
      priority: random(4) === 0 ? random(3) - 1 : 0,
      salt: random(5) === 0 ? `tenant ${random(50)}` : "",
      client: `client ${this.numArrived % 3}`,
      maxTokens: 1 + random(25),
      promptLogprobs: random(10) === 0 ? 0 : null,
    });
    this.live.set(request, prompt.length);
  }

  abortOne(): void {
    const request = this.pick();
    if (request === undefined) return;
    assert.equal(this.sim.scheduler.abort(request.id), request);
    assert.equal(this.sim.scheduler.abort(request.id), null);
    this.sim.finished.push(request);
  }

  forkOne(): void {
    const parent = this.pick();
    if (parent === undefined || parent.numGenerated === 0) return;
    const maxTokens = parent.numGenerated + 1 + this.random(10);
    const child = forkOf(parent, `f${this.numArrived++}`, 5000 + this.random(10), { maxTokens });
    this.live.set(child, child.numTokens);
    const copy = this.sim.scheduler.fork(parent, child);
    this.sim.copy(copy);
    if (copy !== null) this.numForks++;
  }

  /** A step whose forward throws: its rows fail, the others go on. */
  failStep(): void {
    const { scheduler } = this.sim;
    const step = scheduler.schedule();
    this.sim.finished.push(...scheduler.takeRefused());
    if (step === null) return;
    scheduler.crash(step);
    for (const request of step.rows.slice(0, step.numRows)) {
      scheduler.fail(request);
      this.sim.finished.push(request);
    }
  }

  /** Takes leave of what has ended: once each, with the right tokens. */
  settle(): void {
    for (const request of this.sim.finished) {
      const numGiven = this.live.get(request);
      assert.ok(numGiven !== undefined, `${request.id} ended twice`);
      this.live.delete(request);
      assert.equal(request.state, "finished");
      for (const table of request.tables) assert.equal(table.numPages, 0);
      this.numEnded[request.finishReason!]++;
      this.numPreemptions += request.numPreemptions;
      const generated = [...request.tokens.slice(numGiven, request.numTokens)];
      const given = request.tokens.slice(0, numGiven);
      assert.deepEqual(generated, expectedTokens(given, generated.length, request.salt), `${request.id} differs`);
    }
    this.sim.finished.length = 0;
  }

  pick(): Request | undefined {
    return [...this.live.keys()][this.random(Math.max(1, this.live.size))];
  }
}

const FULL = { kind: "full", numPages: 33 } as const;

const CONFIGS: [string, number, SimulationOptions][] = [
  ["extend", 10_000, { pageSize: 4, pages: 32, maxPagesPerBatch: 4, idealChunk: 8 }],
  [
    "extend, a target",
    3_000,
    { pageSize: 4, pages: 32, maxPagesPerBatch: 8, idealChunk: 16, targetStepMs: 9, msPerToken: 1 },
  ],
  ["extend, one page a step", 3_000, { pageSize: 4, pages: 30, maxPagesPerBatch: 1, idealChunk: 16 }],
  ["extend, pages of one token", 3_000, { pageSize: 1, pages: 150, maxPagesPerBatch: 16, idealChunk: 7 }],
  ["extend, plain cache", 3_000, { pageSize: 4, pages: 32, maxPagesPerBatch: 8, idealChunk: 8, prefixCaching: false }],
  [
    "a window beside full attention",
    5_000,
    { pageSize: 4, maxPagesPerBatch: 4, idealChunk: 8, groups: [FULL, { kind: "window", numPages: 25, window: 10 }] },
  ],
  [
    "windows only, two of them",
    3_000,
    {
      pageSize: 4,
      maxPagesPerBatch: 8,
      idealChunk: 8,
      groups: [
        { kind: "window", numPages: 25, window: 10 },
        { kind: "window", numPages: 31, attentionChunk: 12 },
      ],
    },
  ],
  [
    "two full groups of unequal pools",
    3_000,
    { pageSize: 4, maxPagesPerBatch: 8, idealChunk: 8, groups: [FULL, { kind: "latent", numPages: 29 }] },
  ],
  ["states only", 3_000, { pageSize: 4, maxPagesPerBatch: 4, idealChunk: 8, groups: [{ kind: "state", numPages: 9 }] }],
  [
    "states beside full attention",
    5_000,
    { pageSize: 4, maxPagesPerBatch: 4, idealChunk: 8, groups: [FULL, { kind: "state", numPages: 12 }] },
  ],
  [
    "full, window and state",
    10_000,
    {
      pageSize: 4,
      maxPagesPerBatch: 4,
      idealChunk: 8,
      groups: [FULL, { kind: "window", numPages: 29, window: 10 }, { kind: "state", numPages: 14 }],
    },
  ],
  [
    "full, window and state, plain cache",
    3_000,
    {
      pageSize: 4,
      maxPagesPerBatch: 4,
      idealChunk: 8,
      prefixCaching: false,
      groups: [FULL, { kind: "window", numPages: 25, window: 10 }, { kind: "state", numPages: 9 }],
    },
  ],
  [
    "full, window and state, chunked",
    3_000,
    {
      mode: "chunked",
      pageSize: 4,
      maxPagesPerBatch: 4,
      idealChunk: 8,
      groups: [FULL, { kind: "window", numPages: 25, window: 10 }, { kind: "state", numPages: 14 }],
    },
  ],
  ["a second tier", 5_000, { pageSize: 4, pages: 32, maxPagesPerBatch: 4, idealChunk: 8, hostBytes: 4_000 }],
  ["a second tier of five pages", 3_000, { pageSize: 4, pages: 32, maxPagesPerBatch: 4, idealChunk: 8, hostBytes: 80 }],
  [
    "a second tier of full, window and state",
    5_000,
    {
      pageSize: 4,
      maxPagesPerBatch: 4,
      idealChunk: 8,
      groups: [FULL, { kind: "window", numPages: 29, window: 10 }, { kind: "state", numPages: 14 }],
      hostBytes: 10_000,
    },
  ],
  [
    "a second tier of states only",
    3_000,
    {
      pageSize: 4,
      maxPagesPerBatch: 4,
      idealChunk: 8,
      groups: [{ kind: "state", numPages: 9 }],
      hostBytes: 400,
    },
  ],
  ["chunked", 3_000, { mode: "chunked", pageSize: 4, pages: 32, maxPagesPerBatch: 4, idealChunk: 8 }],
];

/** `npm run test:long` takes all the steps. */
const SHARE = process.env.PAGODA_LONG_TESTS === "1" ? 1 : 0.4;

for (const [name, allSteps, options] of CONFIGS) {
  const numSteps = allSteps * SHARE;
  test(`fuzz, ${name}: ${numSteps} steps with the books checked each step, then drained without a leak`, () => {
    const traffic = new Traffic(options, 12345);
    for (let i = 0; i < numSteps; i++) traffic.step(true);
    traffic.drain();
    // Otherwise the traffic was too tame to prove anything.
    assert.ok(traffic.numArrived > numSteps / 100, `${traffic.numArrived} arrivals`);
    assert.ok(traffic.numPreemptions > 10, `${traffic.numPreemptions} preemptions`);
    assert.ok(traffic.numForks > 0, `${traffic.numForks} forks`);
    for (const reason of ["length", "abort", "error"] as const) assert.ok(traffic.numEnded[reason] > 0, reason);
    const { hostTier } = traffic.sim.cache.stats();
    if (hostTier !== null) assert.ok(hostTier.restored > 10, `${hostTier.restored} pages came back`);
    if (options.prefixCaching !== false) assert.ok(traffic.sim.cache.stats().hits > 10);
  });
}

test("10,000 further steps of the same traffic leave the heap as it was", () => {
  const { gc } = globalThis;
  assert.ok(gc, "run with --expose-gc");
  const traffic = new Traffic(CONFIGS[0]![2], 999);
  for (let i = 0; i < 5_000; i++) traffic.step(false);
  traffic.drain();
  // A leak of one small object a step would be some 500 KB, every time; what the compiler adds, late on a busy machine, comes once.
  let grown = Number.POSITIVE_INFINITY;
  for (let tries = 0; grown >= 250_000 && tries < 5; tries++) {
    gc();
    const before = process.memoryUsage().heapUsed;
    for (let i = 0; i < 10_000; i++) traffic.step(false);
    traffic.drain();
    gc();
    grown = process.memoryUsage().heapUsed - before;
  }
  assert.ok(grown < 250_000, `the heap grew by ${grown} bytes`);
});
