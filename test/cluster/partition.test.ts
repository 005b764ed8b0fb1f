// Members that live and are cut off: the way to NATS of a replica, of a router, of both swallows everything and closes nothing. Answers stay
// what they are, requests that cannot be served get an error after the lease and the router's patience, and nobody is restarted.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Policy } from "../../src/cluster/router/choose.js";
import { CutProxy } from "../support/cut-proxy.js";
import { holdRelays } from "../support/held-relays.js";
import { whyNoNats } from "../support/nats.js";
import { drawn, natsAndLone, pagesUsed, SHORT_LEASE, SmallCluster, story, whole } from "../support/small-cluster.js";
import { until } from "../support/until.js";

const skip = whyNoNats();
const LONG = 1500;
const PATIENCE_MS = 1500;
const leaseSeconds = SHORT_LEASE;
const calm = natsAndLone(skip);

const isIdle = async ({ engine, member }: SmallCluster["replicas"][number]): Promise<boolean> =>
  member.replica.numCalls === 0 && (await pagesUsed(engine)) === 0;

test("a replica that is cut off is missed after its lease, its answers go on elsewhere, and it comes back by itself", {
  skip,
}, async () => {
  await using proxy = await CutProxy.start(calm.nats.url);
  let wanted = "";
  const policy: Policy = (candidates) => candidates.find(({ id }) => id === wanted) ?? candidates[0] ?? null;
  await using cluster = await SmallCluster.start(calm.nats.url, {
    replicas: [{ nats: proxy.url }, {}],
    policy,
    leaseSeconds,
  });
  const { engine, replicas, router } = cluster;
  const [cut, other] = [replicas[0]!, replicas[1]!];
  wanted = cut.member.id;
  const relay = cut.engine.relay;
  holdRelays(cut.engine);
  const asked = (i: number) => [story(i), { ...drawn(i), maxTokens: LONG }] as const;
  const answer = engine.generate(...asked(1));
  const chunks = answer[Symbol.asyncIterator]();
  await chunks.next();
  assert.equal(cut.member.replica.numCalls, 1);
  proxy.cut();
  await until(() => other.member.replica.numCalls === 1, "the answer goes on at the other");
  await until(() => isIdle(cut), "the one that is cut off ends what nobody hears");
  cut.engine.relay = relay;
  proxy.heal();
  while ((await chunks.next()).done !== true);
  assert.deepEqual((await answer.result()).samples, (await calm.lone.generate(...asked(1)).result()).samples);
  assert.ok(router.router.numLost >= 1);
  await until(() => router.router.replicas().some(({ id }) => id === wanted), "it is back", 20);
  const before = (await cut.engine.stats()).requestsFinished;
  await until(async () => {
    assert.deepEqual(await whole(engine, 2), await whole(calm.lone, 2));
    return (await cut.engine.stats()).requestsFinished > before;
  }, "it serves again");
  for (const replica of replicas) await until(() => isIdle(replica), "nothing stays behind");
});

test("a router that is cut off ends what it cannot go on with, says that it has no replica, and goes on when it is back", {
  skip,
}, async () => {
  await using proxy = await CutProxy.start(calm.nats.url);
  await using cluster = await SmallCluster.start(calm.nats.url, {
    routerNats: proxy.url,
    patienceMs: PATIENCE_MS,
    leaseSeconds,
  });
  const { engine, replicas } = cluster;
  await using second = await cluster.addRouter();
  const begun = engine.generate(story(1), { ...drawn(1), maxTokens: 16_000 })[Symbol.asyncIterator]();
  await begun.next();
  proxy.cut();
  const noReplica = { code: "no_replica", kind: "capacity" };
  await assert.rejects(async () => {
    while ((await begun.next()).done !== true);
  }, noReplica);
  await assert.rejects(engine.generate(story(2), { maxTokens: 2 }).result(), noReplica);
  await until(() => engine.health().state === "away", "it says so");
  await until(() => isIdle(replicas[0]!), "the replica ends what nobody hears");
  assert.deepEqual(await whole(second.engine, 3), await whole(calm.lone, 3)); // through a router that is not cut off
  proxy.heal();
  await until(() => engine.health().state === "ready", "it has its replica again");
  assert.deepEqual(await whole(engine, 4), await whole(calm.lone, 4));
  await until(() => isIdle(replicas[0]!), "nothing stays behind");
});

test("a cut that is longer than the connection lives is survived too: both connect again", { skip }, async () => {
  await using proxy = await CutProxy.start(calm.nats.url);
  const replicas = [{ nats: proxy.url }];
  await using cluster = await SmallCluster.start(calm.nats.url, {
    replicas,
    routerNats: proxy.url,
    patienceMs: PATIENCE_MS,
    leaseSeconds,
  });
  const { engine, router } = cluster;
  proxy.cut();
  await assert.rejects(engine.generate(story(1), { maxTokens: 2 }).result(), { code: "no_replica" });
  await until(() => !router.router.mailbox.isConnected, "the connection is given up");
  await assert.rejects(engine.generate(story(2), { maxTokens: 2 }).result(), { code: "no_replica" });
  proxy.heal();
  await until(() => engine.health().state === "ready", "all are there again");
  assert.deepEqual(await whole(engine, 3), await whole(calm.lone, 3));
  await until(() => isIdle(cluster.replicas[0]!), "nothing stays behind");
});
