// What happens when pages run out: who pays, what is kept, and that the outcome is the same.
import assert from "node:assert/strict";
import { test } from "node:test";
import { makeRandom } from "../../test/support/random.js";
import { expectedTokens, forkOf, Simulation, tokensOf } from "../../test/support/simulation.js";

test("when pages run out the latest arrival gives way, and later finishes with the same tokens", () => {
  const sim = new Simulation({ pageSize: 4, pages: 6 });
  const first = sim.add("first", tokensOf(1, 8), { maxTokens: 12 });
  const second = sim.add("second", tokensOf(2, 8), { maxTokens: 12 });
  sim.runAll();
  assert.deepEqual([first.numPreemptions, second.numPreemptions > 0], [0, true]);
  assert.ok(first.finishedMs < second.finishedMs);
  assert.deepEqual([...first.tokens.slice(8, 20)], expectedTokens(tokensOf(1, 8), 12));
  assert.deepEqual([...second.tokens.slice(8, 20)], expectedTokens(tokensOf(2, 8), 12));
  sim.checkIntegrity();
});

test("the step tells who was preempted; the request waits with its tokens and no pages", () => {
  const sim = new Simulation({ pageSize: 4, pages: 6 });
  const first = sim.add("first", tokensOf(1, 7), { maxTokens: 9 });
  const second = sim.add("second", tokensOf(2, 7), { maxTokens: 9 });
  for (let i = 0; i < 6; i++) sim.step();
  const step = sim.scheduler.schedule()!;
  assert.deepEqual(step.preempted.slice(0, step.numPreempted), [second]);
  assert.deepEqual(
    [second.state, second.tables[0]!.numPages, second.numComputed, second.numTokens],
    ["waiting", 0, 0, 13],
  );
  assert.deepEqual(step.rows.slice(0, step.numRows), [first]);
  sim.computeStep(step);
  sim.scheduler.land(step);
  sim.appendNext(first);
  assert.equal(sim.scheduler.schedule()!.numPreempted, 0, "told once");
});

test("nobody is preempted while a step is in flight: what lands may free the pages that are short", () => {
  const sim = new Simulation({ pageSize: 4, pages: 5 });
  const first = sim.add("first", tokensOf(1, 8), { maxTokens: 9 });
  const second = sim.add("second", tokensOf(2, 7), { maxTokens: 2 });
  sim.step();
  // The second still has room in its pages: its token is computed while the first, without a page for its own, waits.
  sim.scheduler.finish(first, "stop");
  const third = sim.add("third", tokensOf(3, 8), { maxTokens: 9 });
  const inFlight = sim.scheduler.schedule(sim.scheduler.createStep())!;
  assert.deepEqual(inFlight.rows.slice(0, inFlight.numRows), [second, third]);
  for (let i = 0; i < 5; i++) third.appendToken(1); // there is one page for it, and it needs two
  assert.equal(sim.scheduler.schedule(sim.scheduler.createStep()), null);
  assert.deepEqual([third.state, third.numPreemptions], ["running", 0]);
  sim.computeStep(inFlight);
  sim.scheduler.land(inFlight);
  sim.scheduler.finish(second, "length");
  assert.deepEqual(
    sim.step().map(({ id }) => id),
    ["third"],
  );
  assert.equal(third.numPreemptions, 0);
});

test("worse priority pays before later arrival", () => {
  const sim = new Simulation({ pageSize: 4, pages: 6 });
  const worse = sim.add("worse", tokensOf(1, 8), { maxTokens: 12, priority: 1 });
  const better = sim.add("better", tokensOf(2, 8), { maxTokens: 12 });
  sim.runAll();
  assert.deepEqual([worse.numPreemptions > 0, better.numPreemptions], [true, 0]);
});

test("a better request does not wait for pages that a worse one holds", () => {
  const sim = new Simulation({ pageSize: 4, pages: 4 });
  const worse = sim.add("worse", tokensOf(1, 12), { maxTokens: 4, priority: 1 });
  sim.step();
  const better = sim.add("better", tokensOf(2, 12), { maxTokens: 4 });
  assert.deepEqual(
    sim.step().map((row) => row.id),
    ["better"],
  );
  assert.equal(worse.numPreemptions, 1);
  sim.runAll();
  assert.deepEqual([...worse.tokens.slice(12, 16)], expectedTokens(tokensOf(1, 12), 4));
  assert.deepEqual([...better.tokens.slice(12, 16)], expectedTokens(tokensOf(2, 12), 4));
});

test("a better request takes what it can from worse ones; where that is too little, the others go on", () => {
  const sim = new Simulation({ pageSize: 4, pages: 4 });
  sim.add("best", tokensOf(1, 9), { maxTokens: 3 });
  const worst = sim.add("worst", tokensOf(2, 2), { maxTokens: 3, priority: 2 });
  sim.step();
  const middle = sim.add("middle", tokensOf(3, 8), { maxTokens: 3, priority: 1 });
  assert.deepEqual(
    sim.step().map(({ id }) => id),
    ["best"],
  );
  assert.deepEqual([worst.numPreemptions, middle.state], [1, "waiting"]);
});

test("a better request waits for what is in flight: a worse one is preempted when that has landed, and no row is added before", () => {
  const sim = new Simulation({ pageSize: 4, pages: 4, maxPagesPerBatch: 4, idealChunk: 4 });
  const worse = sim.add("worse", tokensOf(1, 12), { priority: 1 });
  const inFlight = sim.scheduler.schedule(sim.scheduler.createStep())!;
  sim.add("better", tokensOf(2, 12));
  assert.equal(sim.scheduler.schedule(sim.scheduler.createStep()), null);
  assert.deepEqual([worse.state, worse.numPreemptions], ["running", 0]);
  sim.computeStep(inFlight);
  sim.scheduler.land(inFlight);
  assert.deepEqual(
    sim.step().map(({ id }) => id),
    ["better"],
  );
  assert.equal(worse.numPreemptions, 1);
});

test("one of worse priority is not let in for the pages that a better one waits for, only to lose them in the next step", () => {
  const sim = new Simulation({ pageSize: 4, pages: 26, maxPagesPerBatch: 8, idealChunk: 16 });
  const worse = sim.add("worse", tokensOf(1, 4), { client: "b", maxTokens: 30, priority: 1 });
  sim.step();
  for (const [i, promptLen] of [20, 32, 56].entries())
    sim.add(`a ${i}`, tokensOf(2 + i, promptLen), { client: "a", maxTokens: 12 });
  sim.runAll();
  assert.equal(worse.numPreemptions, 1);
});

test("equal priority never preempts to be admitted", () => {
  const sim = new Simulation({ pageSize: 4, pages: 4 });
  const first = sim.add("first", tokensOf(1, 12), { maxTokens: 4 });
  sim.step();
  sim.add("second", tokensOf(2, 12), { maxTokens: 4 });
  sim.runAll();
  assert.equal(first.numPreemptions, 0);
});

test("a preempted request finds most of its work in the directory again", () => {
  const sim = new Simulation({ pageSize: 4, pages: 12 });
  sim.nowMs = -1; // it is first scheduled at time 0
  sim.add("first", tokensOf(1, 16), { maxTokens: 12 });
  const second = sim.add("second", tokensOf(2, 16), { maxTokens: 12 });
  let caughtUp = 0;
  for (let rows = sim.step(); rows.length > 0; rows = sim.step()) {
    const row = rows.find(({ id, start }) => id === "second" && start > 0);
    if (second.numPreemptions > 0 && row !== undefined && row.queryLen > 1) caughtUp += row.queryLen;
  }
  assert.ok(second.numPreemptions > 0);
  assert.ok(caughtUp > 0 && caughtUp <= 8, `recomputed ${caughtUp} tokens of 28`);
  assert.equal(second.numCached, 0, "the cache hit it reports is that of its first admission");
});

test("a preempted request that finds all but its last token again has no chunk more", () => {
  const sim = new Simulation({ pageSize: 4, pages: 5 });
  const first = sim.add("first", tokensOf(1, 7), { maxTokens: 6 });
  const second = sim.add("second", tokensOf(2, 4), { maxTokens: 10 });
  while (first.state !== "finished") sim.step();
  assert.deepEqual([second.state, second.numPreemptions, second.numTokens], ["waiting", 1, 9]);
  sim.runAll();
  assert.deepEqual([second.numChunks, second.numSteps, second.finishReason], [1, 10, "length"]);
});

test("a re-prefill keeps the chunk rules", () => {
  const sim = new Simulation({ pageSize: 4, pages: 20, maxPagesPerBatch: 2, idealChunk: 8, prefixCaching: false });
  const first = sim.add("first", tokensOf(1, 30), { maxTokens: 30 });
  const second = sim.add("second", tokensOf(2, 30), { maxTokens: 30 });
  sim.runAll(); // checkRules looks at every row
  assert.ok(second.numPreemptions > 0);
  assert.deepEqual([...first.tokens.slice(30, 60)], expectedTokens(tokensOf(1, 30), 30));
  assert.deepEqual([...second.tokens.slice(30, 60)], expectedTokens(tokensOf(2, 30), 30));
});

test("forks rank beside their parent, before later arrivals", () => {
  const sim = new Simulation({ pageSize: 4, pages: 8 });
  const parent = sim.add("parent", tokensOf(1, 8), { maxTokens: 10 });
  const later = sim.add("later", tokensOf(2, 8), { maxTokens: 10 });
  sim.step();
  const child = forkOf(parent, "child", 7, { maxTokens: 10 });
  sim.copy(sim.scheduler.fork(parent, child));
  sim.runAll();
  assert.deepEqual([parent.numPreemptions, child.numPreemptions, later.numPreemptions > 0], [0, 0, true]);
});

test("a request is let in where each that runs has a further page, if its answer may need one", () => {
  const sim = new Simulation({ pageSize: 4, pages: 8 });
  sim.add("grows", tokensOf(1, 8), { maxTokens: 9 });
  sim.add("fits", tokensOf(2, 7), { maxTokens: 2 }); // its last token is never computed
  sim.step();
  const tooMuch = sim.add("too much", tokensOf(3, 9), { maxTokens: 5 });
  sim.step();
  assert.equal(tooMuch.state, "waiting", "three pages are free, and one is for the first, which just took one");
  const sim2 = new Simulation({ pageSize: 4, pages: 4 });
  const alone = sim2.add("alone", tokensOf(1, 16), { maxTokens: 2 });
  sim2.step();
  assert.equal(alone.numChunks, 1, "who is alone needs nothing to spare");
});

for (const oversubscribed of [2, 4, 8])
  test(`a pool that is asked for ${oversubscribed} times what it has: few tokens are computed twice`, () => {
    const random = makeRandom(5);
    const shapes = Array.from({ length: 120 }, () => [4 + random(100), 4 + random(100)] as const);
    // Of 48 at a time.
    const pages = Math.ceil((48 * 108) / 4 / oversubscribed);
    const sim = new Simulation({ pageSize: 4, pages, maxPagesPerBatch: 32, idealChunk: 32 });
    const requests = shapes.map(([prompt, maxTokens], i) => sim.add(`r${i}`, tokensOf(i, prompt), { maxTokens }));
    const numComputed = sim
      .runAll()
      .flat()
      .reduce((sum, { queryLen }) => sum + queryLen, 0);
    const numNeeded = requests.reduce((sum, { numTokens }) => sum + numTokens - 1, 0);
    assert.ok(requests.some(({ numPreemptions }) => numPreemptions > 0));
    for (const { id, numPreemptions } of requests) assert.ok(numPreemptions <= 3, `${id}: ${numPreemptions} times`);
    assert.ok(numComputed < 1.13 * numNeeded, `${numComputed / numNeeded} times`);
  });

for (const numClients of [1, 4])
  test(`where pages are short, little is computed twice: who was preempted comes back first; clients: ${numClients}`, () => {
    const sim = new Simulation({ pageSize: 4, pages: 130, maxPagesPerBatch: 16, idealChunk: 32 });
    const requests = Array.from({ length: 8 }, (_, i) =>
      sim.add(`r${i}`, tokensOf(i, 200), { client: `client ${i % numClients}`, maxTokens: 200 }),
    );
    const numComputed = sim
      .runAll()
      .flat()
      .reduce((sum, { queryLen }) => sum + queryLen, 0);
    assert.ok(requests.some(({ numPreemptions }) => numPreemptions > 0));
    for (const { id, numPreemptions } of requests) assert.ok(numPreemptions <= 1, `${id}: ${numPreemptions} times`);
    assert.ok(numComputed < 1.3 * 8 * 399, `${numComputed} tokens`);
  });

test("a newcomer of another client does not take the pages that a preempted request lost", () => {
  const sim = new Simulation({ pageSize: 4, pages: 6 });
  sim.add("first", tokensOf(1, 8), { client: "a", maxTokens: 12 });
  const second = sim.add("second", tokensOf(2, 8), { client: "b", maxTokens: 12 });
  while (second.numPreemptions === 0) sim.step();
  const newcomer = sim.add("newcomer", tokensOf(3, 4), { client: "c" });
  sim.runAll();
  assert.ok(newcomer.firstScheduledMs > second.firstScheduledMs);
  assert.equal(second.numPreemptions, 1);
});
