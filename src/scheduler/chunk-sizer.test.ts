// How long a prompt's next chunk is, and when it has none.
import assert from "node:assert/strict";
import { test } from "node:test";
import { rowsOf, Simulation, tokensOf } from "../../test/support/simulation.js";

test("the end of a prompt needs no more budget than it has tokens; for a page, decodes make room in the next step", () => {
  for (const clients of [["a"], ["a", "b"]]) {
    const sim = new Simulation({ pageSize: 4, maxPagesPerBatch: 2, idealChunk: 4 });
    const clientOf = (i: number) => ({ client: clients[i % clients.length]! });
    for (let i = 0; i < 6; i++) sim.add(`writer ${i}`, tokensOf(i + 1, 1), { maxTokens: 99, ...clientOf(i) });
    while (sim.scheduler.numRunning < 6) sim.step();
    sim.add("prompt", tokensOf(9, 6), clientOf(0));
    const step = () => {
      const rows = sim.step();
      const chunk = rows.find(({ id }) => id === "prompt");
      return [chunk?.start, chunk?.queryLen, rows.reduce((sum, { queryLen }) => sum + queryLen, 0)];
    };
    assert.deepEqual(step(), [undefined, undefined, 6], "two tokens are left, and its first chunk is a page");
    assert.deepEqual(step(), [0, 4, 8], "now it comes before some of the decodes");
    assert.deepEqual(step(), [4, 2, 8], "two tokens are left again");
  }
});

test("what decodes left for a prompt that has gone is theirs again, to the last token", () => {
  const sim = new Simulation({ pageSize: 4, maxPagesPerBatch: 1, idealChunk: 4 });
  for (let i = 0; i < 3; i++) sim.add(`writer ${i}`, tokensOf(i + 1, 1), { maxTokens: 9 });
  assert.equal(sim.step().length, 3);
  const prompt = sim.add("prompt", tokensOf(9, 6));
  sim.add("writer 3", tokensOf(4, 1), { maxTokens: 9, priority: -1 });
  assert.equal(sim.step().length, 4);
  assert.equal(sim.step().length, 4);
  sim.scheduler.abort(prompt.id);
  assert.equal(sim.step().length, 4);
});

test("where states are kept, a prompt's last whole page ends a chunk, and what is left is one of its own", () => {
  const FULL = { kind: "full", numPages: 20 } as const;
  const STATE = { kind: "state", numPages: 9 } as const;
  const lengths = (groups: readonly (typeof FULL | typeof STATE)[], promptLen: number, prefixCaching = true) => {
    const sim = new Simulation({ pageSize: 4, maxPagesPerBatch: 4, idealChunk: 8, groups, prefixCaching });
    sim.add("r", tokensOf(1, promptLen));
    return sim.runAll().map(([row]) => row!.queryLen);
  };
  for (const [promptLen, plain, split] of [
    [14, [8, 6], [8, 4, 2]],
    [16, [8, 8], [8, 8]],
    [7, [7], [4, 3]],
    [3, [3], [3]],
    [10, [8, 2], [8, 2]],
  ] as const) {
    assert.deepEqual(lengths([FULL], promptLen), plain);
    assert.deepEqual(lengths([FULL, STATE], promptLen, false), plain, "nothing is kept");
    assert.deepEqual(lengths([FULL, STATE], promptLen), split);
  }
});

test("a prompt with a chunk in flight does not wait for a shared page: it could not take the page over when that lands", () => {
  const sim = new Simulation({ pageSize: 1, maxPagesPerBatch: 4, idealChunk: 1 });
  const launch = () =>
    rowsOf(sim.scheduler.schedule(sim.scheduler.createStep())).map(({ id, start }) => `${id} ${start}`);
  let isReady = true;
  sim.add("late", tokensOf(1, 5)).readiness = { isReady: () => isReady };
  assert.deepEqual(launch(), ["late 0"]);
  isReady = false;
  sim.add("scored", tokensOf(1, 5), { promptLogprobs: 0, priority: -1 }); // it computes every position, whoever has it
  assert.deepEqual(launch(), ["scored 0"]);
  isReady = true;
  assert.deepEqual(launch(), ["scored 1", "late 1"]);
});

test("a prompt waits for its next page, a single one too, in whichever of the steps in flight it is", () => {
  const sim = new Simulation({ pageSize: 4, maxPagesPerBatch: 4, idealChunk: 4 });
  const launch = () =>
    rowsOf(sim.scheduler.schedule(sim.scheduler.createStep())).map(({ id, start }) => `${id} ${start}`);
  sim.add("other", tokensOf(2, 4));
  assert.deepEqual(launch(), ["other 0"]);
  sim.add("first", tokensOf(1, 4));
  assert.deepEqual(launch(), ["first 0"]);
  sim.add("second", tokensOf(1, 5));
  sim.add("third", tokensOf(3, 5));
  assert.deepEqual(launch(), ["third 0"]);
});
