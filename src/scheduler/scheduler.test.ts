import assert from "node:assert/strict";
import { test } from "node:test";
import { expectedTokens, forkOf, makeRequest, rowsOf, Simulation, tokensOf } from "../../test/support/simulation.js";
import { CacheManager } from "../cache/cache-manager.js";
import type { RequestId } from "../core/ids.js";
import { Request } from "../core/request.js";
import { SAMPLING_DEFAULTS } from "../core/sampling.js";
import { Scheduler } from "./scheduler.js";

test("an empty scheduler has nothing to run", () => {
  const sim = new Simulation();
  assert.equal(sim.scheduler.schedule(), null);
  assert.equal(sim.scheduler.schedule(), null);
});

test("a request catches up from prompt to last token and then rests", () => {
  const sim = new Simulation({ pageSize: 4, maxPagesPerBatch: 4, idealChunk: 8 });
  const request = sim.add("r", tokensOf(1, 10), { maxTokens: 3 });
  assert.deepEqual(sim.runAll(), [
    [{ id: "r", start: 0, queryLen: 8 }],
    [{ id: "r", start: 8, queryLen: 2 }],
    [{ id: "r", start: 10, queryLen: 1 }],
    [{ id: "r", start: 11, queryLen: 1 }],
  ]);
  assert.deepEqual([...request.tokens.slice(10, 13)], expectedTokens(tokensOf(1, 10), 3));
  assert.equal(request.state, "finished");
  assert.equal(request.finishReason, "length");
  assert.deepEqual([request.numChunks, request.numSteps], [2, 4]);
  assert.deepEqual([request.firstScheduledMs, request.finishedMs], [1, 4]);
});

test("a request was first scheduled when its first step was made, at time 0 too", () => {
  const sim = new Simulation({ pageSize: 4, idealChunk: 4 });
  const request = sim.add("a", tokensOf(1, 8));
  const step = sim.scheduler.schedule()!;
  sim.computeStep(step);
  sim.scheduler.land(step);
  sim.step();
  assert.deepEqual([request.firstScheduledMs, request.state], [0, "finished"]);
});

test("a request that must be whole is never cut: it waits for a step with room for all of it", () => {
  for (const mode of ["extend", "chunked"] as const) {
    const options = { mode, pageSize: 4, maxPagesPerBatch: 6, idealChunk: 8, fixedChunk: 8, prefixCaching: false };
    const sim = new Simulation(options);
    for (const [i, length] of [10, 13, 3, 24, 1].entries()) sim.add(`r${i}`, tokensOf(i, length), { isAtomic: true });
    const steps: { id: string; start: number; queryLen: number }[][] = [];
    while (sim.scheduler.numWaiting + sim.scheduler.numRunning > 0) {
      // Its vector is all that such a request gives: it ends with its step.
      const rows = sim.step();
      steps.push(rows);
      for (const { id } of rows) sim.scheduler.abort(id as RequestId);
    }
    const whole = (i: number, queryLen: number) => ({ id: `r${i}`, start: 0, queryLen });
    const expected = [[whole(0, 10), whole(1, 13)], [whole(2, 3)], [whole(3, 24)], [whole(4, 1)]];
    assert.deepEqual(steps, expected, mode);
  }
});

test("first tokens of further samples count: a step draws no more than its budget, but for those of its last prompt", () => {
  for (const clients of [["a"], ["a", "b"]]) {
    // Two prompts of two tokens with six more samples each are 16 tokens: the budget.
    const sim = new Simulation({ pageSize: 4, maxPagesPerBatch: 4, idealChunk: 8 });
    for (let i = 0; i < 5; i++) sim.add(`r${i}`, tokensOf(i, 2), { n: 7, client: clients[i % clients.length]! });
    const ends = sim.runAll().map((rows) => rows.map(({ id }) => id));
    assert.deepEqual(ends, [["r0", "r1"], ["r2", "r3"], ["r4"]]);
  }
  // Only what ends a prompt is drawn from.
  const sim = new Simulation({ pageSize: 4, maxPagesPerBatch: 4, idealChunk: 8 });
  sim.add("long", tokensOf(1, 10), { n: 9 });
  sim.add("next", tokensOf(2, 8));
  assert.deepEqual(
    sim.runAll().map((rows) => rows.map(({ id, queryLen }) => `${id} ${queryLen}`)),
    [["long 8", "next 8"], ["long 2"]],
  );
});

test("a request whose mask is not ready sits out, prompt or token, and the others go on", () => {
  const sim = new Simulation({ pageSize: 4 });
  const slow = sim.add("slow", tokensOf(1, 6), { maxTokens: 3 });
  let isReady = false;
  slow.readiness = { isReady: () => isReady };
  sim.add("other", tokensOf(2, 5), { maxTokens: 6 });
  const ids = (): string[] => sim.step().map(({ id }) => id);
  assert.deepEqual([ids(), ids()], [["other"], ["other"]], "its prompt waits");
  isReady = true;
  assert.deepEqual(ids().sort(), ["other", "slow"]);
  isReady = false;
  assert.deepEqual(ids(), ["other"], "its next token waits");
  isReady = true;
  sim.runAll();
  assert.deepEqual([...slow.tokens.slice(6, 9)], expectedTokens(tokensOf(1, 6), 3));
});

test("a prompt found in the cache computes only its tail", () => {
  const sim = new Simulation({ pageSize: 4 });
  sim.add("first", tokensOf(1, 10));
  sim.runAll();
  const second = sim.add("second", tokensOf(1, 11));
  assert.deepEqual(sim.runAll(), [[{ id: "second", start: 8, queryLen: 3 }]]);
  assert.equal(second.numCached, 8);
});

test("decodes come first in the step, whatever their priority; then chunks", () => {
  const sim = new Simulation();
  sim.add("writer", tokensOf(1, 5), { maxTokens: 10, priority: 9 });
  sim.step();
  sim.add("prompt", tokensOf(2, 300));
  assert.deepEqual(
    sim.step().map((row) => row.id),
    ["writer", "prompt"],
  );
});

test("better priority is admitted first; equals go by arrival", () => {
  const sim = new Simulation({ maxPagesPerBatch: 4, idealChunk: 64 });
  sim.add("low", tokensOf(1, 64), { priority: 5 });
  sim.add("first", tokensOf(2, 64));
  sim.add("second", tokensOf(3, 64));
  sim.add("high", tokensOf(4, 64), { priority: -1 });
  assert.deepEqual(
    sim.runAll().map((rows) => rows.map((row) => row.id)),
    [["high"], ["first"], ["second"], ["low"]],
  );
});

test("a request that could never fit is ended, and those behind it run", () => {
  const sim = new Simulation({ pageSize: 4, pages: 4 });
  const huge = sim.add("huge", tokensOf(1, 17));
  sim.add("small", tokensOf(2, 16));
  assert.equal(sim.runAll().length, 1);
  assert.deepEqual([huge.state, huge.finishReason], ["finished", "error"]);
  assert.deepEqual(
    sim.finished.map((request) => request.id),
    ["huge", "small"],
  );
  assert.deepEqual(sim.scheduler.takeRefused(), [], "told once");
});

test("a request that outgrows the whole pool ends with what it has", () => {
  for (const promptLen of [10, 16]) {
    const sim = new Simulation({ pageSize: 4, pages: 4 });
    const prompt = tokensOf(1, promptLen);
    const request = sim.add("r", prompt, { maxTokens: 100 });
    sim.runAll();
    assert.equal(request.finishReason, "length");
    assert.deepEqual(
      [...request.tokens.slice(promptLen, request.numTokens)],
      expectedTokens(prompt, 4 * 4 + 1 - promptLen),
    );
    assert.equal(sim.cache.available(), 4);
  }
});

test("abort frees the pages of waiting and running requests at once", () => {
  const sim = new Simulation({ pageSize: 4, pages: 8 });
  const running = sim.add("running", tokensOf(1, 20), { maxTokens: 50 });
  const waiting = sim.add("waiting", tokensOf(2, 30));
  sim.step();
  assert.deepEqual([sim.scheduler.numRunning, sim.scheduler.numWaiting], [1, 1]);
  assert.equal(sim.scheduler.abort("running" as RequestId), running);
  assert.equal(sim.scheduler.abort("waiting" as RequestId), waiting);
  assert.equal(sim.scheduler.abort("waiting" as RequestId), null);
  assert.equal(sim.scheduler.abort("unknown" as RequestId), null);
  assert.deepEqual([running.finishReason, waiting.finishReason], ["abort", "abort"]);
  assert.equal(sim.cache.available(), 8);
  assert.equal(sim.scheduler.get("running" as RequestId), undefined);
  sim.checkIntegrity();
});

test("a failed step leaves nothing of itself in the cache", () => {
  const sim = new Simulation({ pageSize: 4 });
  const request = sim.add("r", tokensOf(1, 10));
  sim.scheduler.crash(sim.scheduler.schedule()!);
  sim.scheduler.fail(request);
  assert.equal(request.finishReason, "error");
  assert.equal(sim.cache.stats().entries, 0);
  sim.scheduler.fail(request);
  sim.scheduler.finish(request, "stop");
  assert.equal(request.finishReason, "error", "over is over");
  sim.checkIntegrity();
});

test("a fork runs beside its parent on shared pages and both get their own tokens", () => {
  for (const promptLen of [10, 12]) {
    const sim = new Simulation({ pageSize: 4, pages: 12 });
    const prompt = tokensOf(1, promptLen);
    const parent = sim.add("parent", prompt, { maxTokens: 8 });
    sim.step();
    const child = forkOf(parent, "child", 777, { maxTokens: 7 });
    sim.copy(sim.scheduler.fork(parent, child));
    assert.equal(sim.scheduler.numRunning, 2);
    assert.equal(child.lastServedStep, parent.lastServedStep, "as if served by the last step, like any newcomer");
    assert.equal(child.tables[0]!.pages[1], parent.tables[0]!.pages[1]);
    sim.checkIntegrity();
    sim.runAll();
    assert.deepEqual([...parent.tokens.slice(promptLen, parent.numTokens)], expectedTokens(prompt, 8));
    assert.deepEqual([...child.tokens.slice(promptLen + 1, child.numTokens)], expectedTokens([...prompt, 777], 6));
    assert.equal(sim.cache.stats().pagesUsed, 0);
  }
});

test("a fork without a free page waits and finds its prefix in the directory", () => {
  const sim = new Simulation({ pageSize: 4, pages: 3 });
  const prompt = tokensOf(1, 9);
  const parent = sim.add("parent", prompt, { maxTokens: 3 });
  sim.step();
  const child = forkOf(parent, "child", 777, { maxTokens: 3 });
  assert.equal(sim.scheduler.fork(parent, child), null);
  assert.equal(child.state, "waiting");
  const steps = sim.runAll();
  assert.deepEqual(steps.at(-2), [{ id: "child", start: 8, queryLen: 2 }]);
  assert.deepEqual([...child.tokens.slice(10, 12)], expectedTokens([...prompt, 777], 2));
});

test("a fork whose tokens are all computed is not run until a token is added", () => {
  const sim = new Simulation({ pageSize: 4 });
  const parent = sim.add("parent", tokensOf(1, 6), { maxTokens: 2 });
  sim.step();
  const child = makeRequest("child", tokensOf(1, 6), { maxTokens: 2 });
  sim.copy(sim.scheduler.fork(parent, child));
  assert.deepEqual(sim.step(), [{ id: "parent", start: 6, queryLen: 1 }]);
  assert.deepEqual(sim.step(), []);
  child.appendToken(5);
  assert.deepEqual(sim.step(), [{ id: "child", start: 6, queryLen: 1 }]);
});

test("no more requests run than the budget has rows, by fork or by priority", () => {
  const sim = new Simulation({ pageSize: 2, maxPagesPerBatch: 2, idealChunk: 2 });
  const parent = sim.add("parent", tokensOf(1, 3), { maxTokens: 9, priority: 1 });
  sim.step();
  sim.step();
  for (let i = 0; i < 5; i++)
    sim.copy(sim.scheduler.fork(parent, forkOf(parent, `child ${i}`, i, { maxTokens: 9, priority: 1 })));
  assert.deepEqual([sim.scheduler.numRunning, sim.scheduler.numWaiting], [4, 2]);
  sim.add("urgent", tokensOf(2, 2), { maxTokens: 9 });
  sim.step();
  assert.deepEqual([sim.scheduler.numRunning, sim.scheduler.numWaiting], [4, 3]);
  sim.runAll();
  assert.equal(sim.finished.length, 7);
});

test("an id is used once at a time, and an empty prompt is refused", () => {
  const sim = new Simulation();
  sim.add("twin", tokensOf(1, 5));
  assert.throws(() => sim.add("twin", tokensOf(1, 5)), /id is twin; it must be different from all ids in use/);
  sim.runAll();
  sim.add("twin", tokensOf(1, 5));
  assert.throws(() => sim.add("empty", []), { code: "empty_prompt" });
});

test("impossible options are refused with their names", () => {
  const cache = new CacheManager({ pageSize: 4, prefixCaching: true, groups: [{ kind: "full", numPages: 4 }] });
  const good = { mode: "extend", pageSize: 4, maxPagesPerBatch: 4, idealChunk: 8 } as const;
  for (const bad of [{ maxPagesPerBatch: 0 }, { idealChunk: Number.NaN }, { fixedChunk: 1.5 }, { pageSize: 8 }]) {
    const param = Object.keys(bad)[0]!;
    assert.throws(() => new Scheduler({ ...good, ...bad }, cache, () => 0), new RegExp(`Option ${param} is`));
  }
});

test("prompts that arrive together compute their common prefix once", () => {
  const sim = new Simulation({ pageSize: 4, maxPagesPerBatch: 16, idealChunk: 16 });
  const prefix = tokensOf(1, 32);
  const requests = Array.from({ length: 8 }, (_, i) => sim.add(`r${i}`, [...prefix, ...tokensOf(i + 2, 6)]));
  const steps = sim.runAll();
  const computed = steps.flat().reduce((sum, row) => sum + row.queryLen, 0);
  assert.equal(computed, 32 + 8 * 6);
  assert.equal(steps.length, 3, "two chunks of prefix, then all the tails at once");
  assert.equal(
    requests.reduce((sum, request) => sum + request.numCached, 0),
    7 * 32,
  );
  sim.checkIntegrity();
});

test("a prompt waits for no page of another tenant, nor for one that ends inside the page", () => {
  const sim = new Simulation({ pageSize: 4 });
  sim.add("a", tokensOf(1, 12));
  sim.add("other tenant", tokensOf(1, 12), { salt: "other" });
  sim.add("reads no cache", tokensOf(1, 12), { promptLogprobs: 0 });
  sim.add("needs its last page itself", tokensOf(1, 4));
  assert.equal(sim.step().length, 4);
});

test("equal pages after different beginnings are not shared", () => {
  const sim = new Simulation({ pageSize: 4, idealChunk: 4 });
  sim.add("a", [1, 1, 1, 1, ...tokensOf(5, 9)]);
  sim.add("b", [2, 2, 2, 2, ...tokensOf(5, 9)]);
  assert.equal(sim.step().length, 2);
  assert.equal(sim.step().length, 2);
});

test("when the step that computes a shared page fails, the one that waited computes the page itself", () => {
  const sim = new Simulation({ pageSize: 4 });
  const first = sim.add("first", tokensOf(1, 10));
  sim.add("second", tokensOf(1, 10));
  const step = sim.scheduler.schedule()!;
  assert.deepEqual([step.numRows, step.rows[0]], [1, first]);
  sim.scheduler.crash(step);
  sim.scheduler.fail(first);
  assert.deepEqual(sim.step(), [{ id: "second", start: 0, queryLen: 10 }]);
});

test("a page computed long ago, and evicted since, is not waited for", () => {
  const sim = new Simulation({ pageSize: 4, idealChunk: 8, groups: [{ kind: "window", numPages: 8, window: 6 }] });
  sim.add("c", tokensOf(3, 1), { maxTokens: 2 });
  sim.step();
  sim.add("a", tokensOf(1, 40), { maxTokens: 40 });
  assert.deepEqual(
    sim.step().map(({ id, start }) => `${id} ${start}`),
    ["c 1", "a 0"],
  );
  for (let i = 0; i < 5; i++) assert.equal(sim.step()[0]?.id, "a"); // its row in the second place stays as it was
  sim.add("b", tokensOf(1, 9));
  assert.deepEqual(
    sim.step().map(({ id, start }) => `${id} ${start}`),
    ["a 41", "b 0"],
  );
});

test("a prompt whose next page is computed in flight waits until it has landed, and then takes it over", () => {
  const sim = new Simulation({ pageSize: 4, maxPagesPerBatch: 4, idealChunk: 8 });
  const launch = () => sim.scheduler.schedule(sim.scheduler.createStep());
  const prompt = tokensOf(1, 17);
  sim.add("first", prompt);
  const flights = [launch()!];
  const second = sim.add("second", prompt);
  flights.push(launch()!);
  assert.deepEqual(
    flights.map((step) => rowsOf(step).map(({ id, start }) => `${id} ${start}`)),
    [["first 0"], ["first 8"]],
  );
  for (const step of flights) {
    sim.computeStep(step);
    sim.scheduler.land(step);
  }
  sim.runAll();
  assert.equal(second.numCached, 16);
});

test("steps land in the order they were scheduled in, each once; one in flight cannot be scheduled", () => {
  const sim = new Simulation({ pageSize: 4, maxPagesPerBatch: 4, idealChunk: 4 });
  const request = sim.add("a", tokensOf(1, 13), { maxTokens: 2 });
  const flights = [0, 1, 2].map(() => sim.scheduler.schedule(sim.scheduler.createStep())!);
  assert.throws(() => sim.scheduler.schedule(flights[1]), /still in flight/);
  for (const [i, step] of flights.entries()) {
    for (const other of flights) if (other !== step) assert.throws(() => sim.scheduler.land(other), /in the order/);
    sim.computeStep(step);
    sim.scheduler.land(step);
    assert.equal(request.numCommitted, 4 * (i + 1));
  }
  assert.throws(() => sim.scheduler.land(flights[2]!), /in the order/);
  sim.runAll();
  assert.deepEqual([request.numChunks, request.numSteps, request.numInFlight], [4, 5, 0]);
});

test("no step is made beside one in flight that has the guesses of more than an eighth of the rows", () => {
  for (const [numDrafting, numPlain, isOverlapped] of [
    [1, 6, false],
    [1, 7, true],
    [2, 13, false],
    [2, 14, true],
    [0, 2, true],
    [2, 0, false],
  ] as const) {
    const sim = new Simulation({ pageSize: 4, pages: 100, maxPagesPerBatch: 20 });
    for (let i = 0; i < numDrafting + numPlain; i++) {
      const request = new Request({
        ...{ id: `r${i}` as RequestId, prompt: tokensOf(i, 3), runsAhead: true, maxDrafts: i < numDrafting ? 2 : 0 },
        sampling: { ...SAMPLING_DEFAULTS, seed: 0, maxTokens: 8 },
      });
      sim.scheduler.add(request);
    }
    const steps = [sim.scheduler.createStep(), sim.scheduler.createStep()] as const;
    assert.equal(sim.scheduler.schedule(steps[0])!.numRows, numDrafting + numPlain);
    const label = `${numDrafting} and ${numPlain}`;
    assert.equal(sim.scheduler.schedule(steps[1])?.numRows, isOverlapped ? numPlain : undefined, label);
  }
});
