// Clients share the steps (docs/internals/scheduler.md, "Several clients"), whatever each of them asks for.
import assert from "node:assert/strict";
import { test } from "node:test";
import { makeRequest, type Row, Simulation, tokensOf } from "../../../test/support/simulation.js";
import type { RequestId } from "../../core/ids.js";
import type { Request } from "../../core/request.js";
import { RequestQueue } from "../request-queue.js";
import { ClientShares, shareOf } from "./client-shares.js";
import { FairOrder } from "./fair-order.js";

const ROOM = { pageSize: 4, maxPagesPerBatch: 8, idealChunk: 32, prefixCaching: false } as const;

/** Tokens of each client's rows; ids begin with the client's name. */
function tokensByClient(steps: readonly Row[][]): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const { id, queryLen } of steps.flat()) {
    const client = id.split(" ")[0]!;
    sums[client] = (sums[client] ?? 0) + queryLen;
  }
  return sums;
}

test("a newcomer's short prompt is in the next step, however many prompts another client has", () => {
  const sim = new Simulation(ROOM);
  for (let i = 0; i < 40; i++) sim.add(`many ${i}`, tokensOf(i + 1, 200), { client: "many" });
  for (let i = 0; i < 10; i++) {
    sim.step();
    const short = sim.add(`other ${i}`, tokensOf(100 + i, 12), { client: "other" });
    sim.step();
    assert.equal(short.state, "finished");
  }
});

test("the last token of a budget that decodes of several clients left is a prompt's, if it needs no more", () => {
  const sim = new Simulation({ ...ROOM, maxPagesPerBatch: 1, idealChunk: 4 });
  for (const client of ["a", "b", "c"]) sim.add(client, tokensOf(1, 1), { client, maxTokens: 9 });
  assert.equal(sim.step().length, 3);
  const short = sim.add("short", tokensOf(2, 1), { client: "d" });
  assert.equal(sim.step().length, 4);
  assert.equal(short.state, "finished");
});

test("turns: a client's next prompt comes when it has had less than the others; equals by who has had nothing longest, then the shorter", () => {
  const shares = new ClientShares();
  const [running, waiting] = [new RequestQueue(), new RequestQueue()];
  let numRequests = 0;
  const open = (queue: RequestQueue, client: string, more: Partial<Request> = {}): Request => {
    const id = `${client}${numRequests}`;
    const state = queue === running ? "running" : "waiting";
    const request = Object.assign(makeRequest(id, tokensOf(1, 20), { client }), { state, lastServedStep: 2, ...more });
    request.arrivalOrder = numRequests++;
    shares.open(request);
    queue.insert(request);
    return request;
  };
  const order = new FairOrder(shares);
  /** Each is given what it lacks, 16 at most. */
  const turns = (): string[] => {
    const ids: string[] = [];
    order.arrange(running, waiting);
    for (let next = order.next; next !== null; next = order.next) {
      ids.push(next.id);
      shares.charge(next, Math.min(16, next.numTokens - next.numComputed));
      order.pass();
    }
    shares.reset();
    return ids;
  };
  const nearlyDone = open(running, "a", { numComputed: 18 });
  open(running, "a");
  const behind = open(running, "b");
  shares.charge(behind, 6);
  assert.deepEqual(turns(), ["a0", "a1", "b2"]);
  assert.deepEqual(turns(), ["a0", "b2", "a1"], "level");
  for (const request of [nearlyDone, behind]) running.remove(request);
  for (let i = 0; i < 2; i++) open(waiting, "c", { lastServedStep: 3 });
  assert.deepEqual(turns(), ["a1", "c3", "c4"]);
  open(running, "d", { lastServedStep: 1 });
  assert.equal(turns()[0], "d5");
  shareOf(behind).lastServedStep = 5;
  running.insert(behind);
  assert.deepEqual(turns(), ["d5", "a1", "c3", "b2", "c4"], "its client had something in step 5");
  open(waiting, "b", { priority: -1 });
  assert.deepEqual(turns().slice(0, 2), ["b6", "d5"]);
});

test("two clients compute as many prompt tokens, though one has one prompt and the other twenty", () => {
  const sim = new Simulation({ ...ROOM, pages: 4000, msPerToken: 1 });
  for (let i = 0; i < 20; i++) sim.add(`many ${i}`, tokensOf(i + 1, 400), { client: "many" });
  sim.add("one 0", tokensOf(50, 800), { client: "one" });
  const { many, one } = tokensByClient(Array.from({ length: 40 }, () => sim.step()));
  assert.equal(many! + one!, 40 * 32, "and the budget is used");
  assert.ok(Math.abs(many! - one!) <= 32, `${many} and ${one}`);
});

test("what a client does not need is for the others", () => {
  const sim = new Simulation(ROOM);
  sim.add("long 0", tokensOf(1, 100), { client: "long" });
  sim.add("short 0", tokensOf(2, 3), { client: "short" });
  assert.deepEqual(
    sim.step().map(({ id, queryLen }) => [id, queryLen]),
    [
      ["short 0", 3],
      ["long 0", 28], // the next page has 4 tokens, 1 is left
    ],
  );
  assert.deepEqual(tokensByClient([sim.step()]), { long: 32 }, "the other has left");
});

test("decodes of one client take turns where they make the step long; another's single one is in every step", () => {
  const sim = new Simulation({ ...ROOM, maxPagesPerBatch: 16, targetStepMs: 20, msPerToken: 1 });
  sim.add("pace", tokensOf(60, 40), { client: "writer" }); // how long a token takes is known after a long step
  sim.runAll();
  const answers = { writer: 16, pair: 2, reader: 1 };
  for (const [client, count] of Object.entries(answers))
    for (let i = 0; i < count; i++) sim.add(`${client} ${i}`, tokensOf(i + 1, 1), { client, maxTokens: 100 });
  for (let i = 0; i < 8; i++) sim.step();
  const lastSteps = new Map<string, number>();
  for (let i = 0; i < 30; i++) {
    const rows = sim.step();
    assert.deepEqual(tokensByClient([rows]), { writer: 7, pair: 2, reader: 1 }, "half of the step, parted");
    for (const { id } of rows) {
      assert.ok(i - (lastSteps.get(id) ?? i) <= 3, `${id} waited for ${i - lastSteps.get(id)!} steps`);
      lastSteps.set(id, i);
    }
  }
  assert.equal(lastSteps.size, 19, "each of them has its turns");
  for (const name of ["pair 0", "pair 1", "reader 0"]) sim.scheduler.abort(name as RequestId);
  assert.deepEqual(tokensByClient([sim.step()]), { writer: 16 }, "alone it has them all");
});

test("clients that all have many answers have them all in every step: nobody would gain by turns", () => {
  const sim = new Simulation({ ...ROOM, maxPagesPerBatch: 16, targetStepMs: 20, msPerToken: 1 });
  sim.add("pace", tokensOf(60, 40), { client: "a" });
  sim.runAll();
  for (const client of ["a", "b"])
    for (let i = 0; i < 16; i++) sim.add(`${client} ${i}`, tokensOf(i + 1, 1), { client, maxTokens: 100 });
  for (let i = 0; i < 8; i++) sim.step();
  assert.deepEqual(tokensByClient([sim.step()]), { a: 16, b: 16 });
});

test("nobody is starved by clients that come and go with short prompts", () => {
  const sim = new Simulation({ ...ROOM, maxPagesPerBatch: 4 });
  const long = sim.add("long", tokensOf(1, 160), { client: "long" });
  let steps = 0;
  while (long.state !== "finished") {
    sim.add(`${steps}`, tokensOf(steps + 2, 16), { client: `new ${steps}` }); // as much as a step computes
    sim.step();
    assert.ok(++steps < 300, "the long prompt starves");
  }
});

test("better priority goes before a smaller share", () => {
  const sim = new Simulation({ ...ROOM, maxPagesPerBatch: 4 });
  sim.add("greedy 0", tokensOf(1, 64), { client: "greedy" });
  sim.step();
  sim.add("greedy 1", tokensOf(2, 64), { client: "greedy", priority: -1 });
  sim.add("modest 0", tokensOf(3, 64), { client: "modest" });
  assert.equal(sim.step()[0]!.id, "greedy 1");
});

test("what could never run is refused when its turn comes, and the others have theirs in the same step", () => {
  const sim = new Simulation({ ...ROOM, pages: 20 });
  const tooLong = sim.add("a 0", tokensOf(1, 100), { client: "a" });
  sim.add("a 1", tokensOf(2, 8), { client: "a" });
  sim.add("b 0", tokensOf(3, 8), { client: "b" });
  assert.deepEqual(
    sim
      .step()
      .map(({ id, queryLen }) => `${id}: ${queryLen}`)
      .toSorted(),
    ["a 1: 8", "b 0: 8"],
  );
  assert.equal(tooLong.finishReason, "error");
});

test("what could never run is refused, and holds up no other client", () => {
  const sim = new Simulation({ ...ROOM, pages: 20 });
  const running = sim.add("a 0", tokensOf(1, 60), { client: "a" });
  sim.step();
  const waits = sim.add("a 1", tokensOf(2, 60), { client: "a" });
  const tooLong = sim.add("b 0", tokensOf(3, 100), { client: "b" });
  sim.runAll();
  assert.equal(tooLong.finishReason, "error");
  assert.deepEqual([running.finishReason, waits.finishReason], ["length", "length"]);
});

const LONG = { pageSize: 4, maxPagesPerBatch: 32, idealChunk: 64, prefixCaching: false, msPerToken: 1 } as const;
const longest = (steps: readonly Row[][]): number =>
  Math.max(...steps.map((rows) => rows.reduce((sum, { queryLen }) => sum + queryLen, 0)));

test("a step of several clients takes no longer than its target; that of a client alone uses the budget", () => {
  const sim = new Simulation({ ...LONG, targetStepMs: 50 });
  const steps = (count: number): Row[][] => Array.from({ length: count }, () => sim.step());
  sim.add("a 0", tokensOf(1, 2000), { client: "a" });
  sim.add("a 1", tokensOf(2, 2000), { client: "a" });
  assert.equal(longest(steps(4)), 128);
  const other = sim.add("b 0", tokensOf(3, 1), { client: "b", maxTokens: 30 });
  assert.ok(longest(steps(20)) <= 50);
  sim.scheduler.abort(other.id);
  assert.equal(longest(steps(2)), 128);
});

test("however slow tokens are, a quarter of a chunk of prompts goes with the decodes, and short prompts share it", () => {
  const sim = new Simulation({ ...LONG, idealChunk: 128, targetStepMs: 1 });
  sim.add("long", tokensOf(1, 400), { client: "long" });
  sim.step();
  sim.add("writer", tokensOf(2, 1), { client: "writer", maxTokens: 90 });
  sim.step();
  for (let i = 0; i < 3; i++) sim.add(`short ${i}`, tokensOf(3 + i, 6), { client: `short ${i}` });
  assert.deepEqual(
    sim.step().map(({ id, queryLen }) => [id, queryLen]),
    [
      ["writer", 1],
      ["short 0", 6],
      ["short 1", 6],
      ["short 2", 6],
      ["long", 12],
    ],
  );
});

test("one slow step changes the length of the next ones little", () => {
  const sim = new Simulation({ ...LONG, targetStepMs: 100 });
  sim.add("a 0", tokensOf(1, 1000), { client: "a" });
  sim.add("b 0", tokensOf(2, 1000), { client: "b" });
  sim.step();
  const step = sim.scheduler.schedule()!;
  sim.computeStep(step);
  sim.nowMs += 5000;
  sim.scheduler.land(step);
  assert.ok(longest([sim.step()]) >= 72);
});
