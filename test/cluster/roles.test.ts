// Prompts computed on one replica and answered by another: which request takes which way, that the bits are the same, and that no failure
// on the way is noticed.

import assert from "node:assert/strict";
import { test } from "node:test";
import { choose, type Policy } from "../../src/cluster/router/choose.js";
import type { Engine } from "../../src/engine/types.js";
import { whyNoNats } from "../support/nats.js";
import { drawn, natsAndLone, pagesUsed, SmallCluster, story } from "../support/small-cluster.js";
import { until } from "../support/until.js";

const skip = whyNoNats();
const calm = natsAndLone(skip);

/** As if all were equally fast: on a busy machine a measured speed may be anything. */
const policy: Policy = (candidates, ...rest) =>
  choose(
    candidates.map((candidate) => ({ ...candidate, tokensPerSecond: 1000 })),
    ...rest,
  );
const PREFILL_AND_DECODE = [{ role: "prefill" }, { role: "decode" }] as const;
const LONG = 2000;
const ask = (of: Engine, i: number, length: number) => of.generate(story(i, length), drawn(i)).result();
/** An engine counts a request a moment after its caller has the last of it. */
const served = (replicas: readonly { readonly engine: Engine }[], counts: readonly number[]): Promise<void> =>
  until(async () => {
    const all = await Promise.all(replicas.map(({ engine }) => engine.stats()));
    return all.every(({ requestsFinished }, i) => requestsFinished === counts[i]);
  }, `the replicas have served ${counts}`);

test("a long prompt is computed by the prefill replica and answered by the other, a short one by the other alone", {
  skip,
}, async () => {
  await using cluster = await SmallCluster.start(calm.nats.url, { replicas: PREFILL_AND_DECODE, policy });
  const { engine, router, replicas } = cluster;
  const [prefill, decode] = [replicas[0]!, replicas[1]!];
  assert.deepEqual((await ask(engine, 1, 100)).samples, (await ask(calm.lone, 1, 100)).samples);
  await served(replicas, [0, 1]);

  const { samples, trace } = await ask(engine, 2, LONG);
  assert.deepEqual(samples, (await ask(calm.lone, 2, LONG)).samples);
  assert.ok(trace.cachedTokens > LONG - 100, `${trace.cachedTokens} tokens were fetched`);
  await served(replicas, [1, 2]);
  assert.equal((await prefill.engine.stats()).generatedTokens, 0);
  assert.equal(router.router.numPrefilled, 1);
  assert.ok(decode.member.replica.peers!.counts.numFetched > 100);

  // What is cached need not be computed by anybody; several samples, and scores of the prompt, which pages do not hold.
  await ask(engine, 2, LONG);
  assert.equal(router.router.numPrefilled, 1);
  const three = (of: Engine) => of.generate(story(3, LONG), { ...drawn(3), n: 3, promptLogprobs: 1 }).result();
  assert.deepEqual((await three(engine)).samples, (await three(calm.lone)).samples);
  assert.equal(router.router.numPrefilled, 1);
  for (const { engine: one } of replicas) await until(async () => (await pagesUsed(one)) === 0, "pages come back");
});

test("when the prefill replica is lost, full or gives damaged pages, the prompt is computed where it is answered", {
  skip,
}, async () => {
  const limits = { slots: 1, maxQueued: 0 };
  await using cluster = await SmallCluster.start(calm.nats.url, {
    replicas: [{ role: "prefill", limits }, { role: "decode" }],
    policy,
  });
  const { engine, router, replicas } = cluster;
  const [prefill, decode] = [replicas[0]!, replicas[1]!];
  const lend = prefill.engine.lendPages.bind(prefill.engine);
  prefill.engine.lendPages = async (...args) =>
    (await lend(...args)).map((byte, at) => (at === 9000 ? byte ^ 1 : byte));
  assert.deepEqual((await ask(engine, 1, LONG)).samples, (await ask(calm.lone, 1, LONG)).samples);
  assert.equal(decode.member.replica.peers!.counts.numFailed, 1);

  // Two at once, room for one: the other is answered without a prefill.
  const both = await Promise.all([ask(engine, 2, LONG), ask(engine, 3, LONG)]);
  for (const [at, i] of [2, 3].entries()) assert.deepEqual(both[at]!.samples, (await ask(calm.lone, i, LONG)).samples);
  assert.equal(router.router.numPrefilled, 2);

  // It takes the prompt and is never heard again.
  prefill.engine.relay = () => () => undefined;
  const lost = ask(engine, 4, LONG);
  await until(() => prefill.member.replica.numCalls === 1, "the prompt is there");
  await prefill.member.close();
  assert.deepEqual((await lost).samples, (await ask(calm.lone, 4, LONG)).samples);
  assert.equal(router.router.numPrefilled, 2);
});

test("a prefill replica answers only when no other is left, and then the others take over again", {
  skip,
}, async () => {
  await using cluster = await SmallCluster.start(calm.nats.url, { replicas: PREFILL_AND_DECODE, policy });
  const { engine, replicas } = cluster;
  await replicas[1]!.member.drain(0);
  assert.deepEqual((await ask(engine, 1, 100)).samples, (await ask(calm.lone, 1, 100)).samples);
  await served(replicas, [1, 0]);
  const fresh = await cluster.addReplica({ role: "decode" });
  const isKnown = () => cluster.router.router.replicas().some(({ id }) => id === fresh.member.id);
  await until(isKnown, "the new replica is known");
  await ask(engine, 2, 100);
  await served([replicas[0]!, fresh], [1, 1]);
});
