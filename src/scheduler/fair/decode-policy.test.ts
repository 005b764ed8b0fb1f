// Which decodes a step has where several clients share it, and in which order.
import assert from "node:assert/strict";
import { test } from "node:test";
import { makeRequest, type Row, Simulation, tokensOf } from "../../../test/support/simulation.js";
import { RequestQueue } from "../request-queue.js";
import { ClientShares } from "./client-shares.js";
import { DecodePolicy } from "./decode-policy.js";

const ROOM = { pageSize: 4, maxPagesPerBatch: 16, idealChunk: 32, prefixCaching: false, targetStepMs: 20 } as const;

/** How many of its decodes each client has in a step, where a token takes `msPerToken` and a step itself nothing. */
function rowsOf(answers: Record<string, number>, msPerToken: number): Record<string, number> {
  const sim = new Simulation({ ...ROOM, msPerToken });
  sim.add("pace", tokensOf(60, 40)); // how long a token takes is known after a long step
  sim.runAll();
  for (const [client, count] of Object.entries(answers))
    for (let i = 0; i < count; i++) sim.add(`${client} ${i}`, tokensOf(i + 1, 1), { client, maxTokens: 100 });
  for (let i = 0; i < 10; i++) sim.step();
  const sums: Record<string, number> = {};
  for (const { id } of sim.step()) sums[id.split(" ")[0]!] = (sums[id.split(" ")[0]!] ?? 0) + 1;
  return sums;
}

test("two clients share what half a step has room for; what one does not need is for the other", () => {
  // Steps take as long as they should with 20 tokens: 10 decodes are half of it.
  assert.deepEqual(rowsOf({ many: 16, one: 1 }, 1), { many: 9, one: 1 });
  assert.deepEqual(rowsOf({ many: 16, three: 3 }, 1), { many: 7, three: 3 });
  assert.deepEqual(rowsOf({ many: 9, one: 1 }, 1), { many: 9, one: 1 });
  assert.deepEqual(rowsOf({ many: 10, one: 1 }, 1), { many: 9, one: 1 });
  assert.deepEqual(rowsOf({ many: 16 }, 1), { many: 16 }, "alone it has them all");
  const [pairs, ones] = [2, 1].map((count) => ({ a: count, b: count, c: count, d: count, e: count, one: 1 }));
  assert.deepEqual(rowsOf(pairs!, 1), ones, "one of each, where two would be too many");
});

test("decodes that are as many as fit stay in order of arrival; one more, and those that have waited longest come first", () => {
  const shares = new ClientShares();
  const running = new RequestQueue();
  for (const [arrivalOrder, lastServedStep] of [3, 1, 2].entries()) {
    const request = makeRequest(`${arrivalOrder}`, [1], { client: `c${arrivalOrder}`, maxTokens: 9 });
    request.appendToken(1);
    running.insert(Object.assign(request, { arrivalOrder, lastServedStep, numComputed: 1 }));
    shares.open(request);
  }
  const turns = new DecodePolicy(shares);
  const ids = (maxRows: number): string => {
    turns.arrange(running, maxRows, 0);
    return Array.from({ length: turns.count }, (_, i) => turns.at(i).id).join(" ");
  };
  assert.deepEqual([ids(4), ids(3), ids(2)], ["0 1 2", "0 1 2", "1 2 0"]);
});

test("where decodes do not all fit, whoever has waited longest comes first, better priority before that", () => {
  const sim = new Simulation({ ...ROOM, msPerToken: 1 });
  sim.add("pace", tokensOf(60, 40));
  sim.runAll();
  for (let i = 0; i < 12; i++) sim.add(`many ${i}`, tokensOf(i + 1, 1), { client: "many", maxTokens: 100 });
  sim.add("one", tokensOf(40, 1), { client: "one", maxTokens: 100 });
  sim.add("late", tokensOf(41, 1), { client: "many", maxTokens: 100, priority: 1 });
  sim.add("soon", tokensOf(42, 1), { client: "many", maxTokens: 100, priority: -1 });
  for (let i = 0; i < 12; i++) sim.step();
  const ids = (rows: Row[]) => rows.map(({ id }) => id);
  const last = new Map<string, number>();
  for (let i = 0; i < 20; i++) {
    const rows = ids(sim.step());
    assert.equal(rows[0], "soon", "in every step");
    assert.ok(!rows.includes("late"), "while better ones wait");
    const rest = rows.slice(1).filter((id) => id !== "one");
    const waits = rest.map((id) => last.get(id) ?? -1);
    if (i > 2)
      assert.deepEqual(
        waits,
        waits.toSorted((a, b) => a - b),
      );
    for (const id of rows) last.set(id, i);
  }
  for (let i = 0; i < 8; i++) sim.scheduler.abort(`many ${i}` as never);
  sim.step();
  assert.deepEqual(ids(sim.step()), ["soon", "many 8", "many 9", "many 10", "many 11", "one", "late"]);
});
