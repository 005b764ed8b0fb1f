// Two routers before one small replica: its queue decides who is served next, and who is turned away when there is no more room, whichever
// router they came through.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Engine } from "../../src/engine/types.js";
import { holdRelays } from "../support/held-relays.js";
import { TestNats, whyNoNats } from "../support/nats.js";
import { pagesUsed, SmallCluster, story } from "../support/small-cluster.js";
import { until } from "../support/until.js";

test("what is urgent goes before what waits, through another router too; when all is full the least urgent is turned away", {
  skip: whyNoNats(),
}, async () => {
  await using nats = await TestNats.start();
  await using cluster = await SmallCluster.start(nats.url, {
    replicas: [{ limits: { slots: 1, maxQueued: 3 } }],
  });
  await using second = await cluster.addRouter();
  const { member, engine: served } = cluster.replicas[0]!;
  await until(() => second.member.router.replicas().length === 1, "the other router knows the replica");
  const order: string[] = [];
  const ask = async (of: Engine, name: string, priority: number, i: number): Promise<void> => {
    // The next one begins only when this one is given up, after its turn was noted.
    for await (const _ of of.generate(story(i), { maxTokens: 1000, ignoreEos: true, priority })) {
      order.push(name);
      break;
    }
  };
  holdRelays(served);
  const [a, b] = [cluster.engine, second.engine];
  const running = a.generate(story(0), { maxTokens: 1000, ignoreEos: true, priority: 0 })[Symbol.asyncIterator]();
  await running.next();
  const numCalls = (count: number) => until(() => member.replica.numCalls === count, `${count} calls are there`);
  const low = [ask(a, "low 1", 9, 1), ask(a, "low 2", 8, 2), ask(a, "low 3", 9, 3)];
  await numCalls(4);
  const isFull = () => second.member.router.candidate(member.id, 0, 9).calls === 4;
  await until(isFull, "the other router hears that the replica is full");

  const isRefused = (error: { code: string; details: { limit: number; retryAfter: number } }): boolean =>
    error.code === "queue_full" && error.details.limit === 4 && error.details.retryAfter >= 1;
  await assert.rejects(ask(b, "no better", 9, 4), isRefused);
  const high = ask(b, "high", -5, 5);
  await assert.rejects(low[2]!, isRefused); // the worst, and of those the last
  await numCalls(4);
  await running.return!();
  await Promise.all([high, low[0], low[1]]);
  assert.deepEqual(order, ["high", "low 2", "low 1"]);
  const { callsRefused, callsFailed } = member.replica.load();
  assert.deepEqual([callsRefused, callsFailed], [1, 0]);
  await until(async () => member.replica.numCalls === 0 && (await pagesUsed(served)) === 0, "nothing stays behind");
});
