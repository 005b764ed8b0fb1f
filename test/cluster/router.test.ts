// A router and replicas in one process over a real NATS: where requests go, what happens when messages are lost, when the connection is
// cut, when there is too much to do. The processes that die are in survives.test.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Mailbox } from "../../src/cluster/bus/mailbox.js";
import { openMailbox, type RouterMember } from "../../src/cluster/join.js";
import { choose, type Policy } from "../../src/cluster/router/choose.js";
import { clusterConfig } from "../../src/config/cluster-config.js";
import type { Engine, GenerateOptions } from "../../src/engine/types.js";
import { holdRelays } from "../support/held-relays.js";
import { TestNats, whyNoNats } from "../support/nats.js";
import { makeRandom } from "../support/random.js";
import {
  drawn,
  natsAndLone,
  pagesUsed,
  SHORT_LEASE,
  SmallCluster,
  type SmallClusterOptions,
  story,
  whole,
} from "../support/small-cluster.js";
import { until } from "../support/until.js";

const skip = whyNoNats();
const calm = natsAndLone(skip);

const startCluster = (
  numReplicas: number,
  options: SmallClusterOptions = {},
  { url } = calm.nats,
): Promise<SmallCluster> =>
  SmallCluster.start(url, { replicas: Array.from({ length: numReplicas }, () => ({})), ...options });

test("answers through a router are those of an engine alone: text, tokens, log-probabilities, samples, embeddings, errors", {
  skip,
}, async () => {
  await using cluster = await startCluster(2);
  const { engine } = cluster;
  const cases: readonly GenerateOptions[] = [
    {},
    { n: 3 },
    { promptLogprobs: 2 },
    { stop: ["a"] },
    { n: 3, stop: ["a"] },
    { logitBias: [[65, -100]] },
  ];
  for (const [i, more] of cases.entries())
    assert.deepEqual(await whole(engine, i, more), await whole(calm.lone, i, more), JSON.stringify(more));
  const scores = (of: Engine) => of.generate(story(1), { ...drawn(1), promptLogprobs: 1 }).result();
  assert.deepEqual((await scores(engine)).promptLogprobs, (await scores(calm.lone)).promptLogprobs);
  assert.deepEqual(await engine.embed(["a cat", "a dog"]), await calm.lone.embed(["a cat", "a dog"]));
  const times = cluster.replicas.map(({ member }) => cluster.router.router.firstTokenMs(member.id));
  assert.ok(
    times.some((ms) => ms !== null && ms.p50 > 0 && ms.p99 >= ms.p50),
    "how long first tokens took",
  );
  assert.equal(cluster.router.router.numResumed, 0, "none had to go on elsewhere");
  await assert.rejects(engine.generate("x", { temperature: -1 }).result(), { code: "invalid_value" });
  const bad = engine.generate("x", { constraint: { kind: "regex", source: "(" } });
  await assert.rejects(bad.result(), { code: "invalid_regex" });
  const { trace } = await engine.generate("a cat", { maxTokens: 3, ignoreEos: true }).result();
  assert.equal(trace.completionTokens, 3);
  assert.ok(trace.timeToFirstTokenMs > 0 && trace.timeToFirstTokenMs <= trace.totalMs);
});

test("a prompt goes where its prefix is; a router that comes late knows it too; a hot prefix spreads", {
  skip,
}, async () => {
  // As if all were equally fast: on a busy machine a measured speed may be anything.
  const policy: Policy = (candidates, ...rest) =>
    choose(
      candidates.map((candidate) => ({ ...candidate, tokensPerSecond: 1000 })),
      ...rest,
    );
  await using cluster = await startCluster(3, { policy });
  const { engine, replicas } = cluster;
  const prompts = Array.from({ length: 6 }, (_, i) => story(i, 120));
  const numKnown = (of: RouterMember): number =>
    replicas.reduce((sum, { member }) => sum + of.router.numPages(member.id), 0);
  for (const prompt of prompts) {
    const before = numKnown(cluster.router);
    await engine.generate(prompt, { maxTokens: 2 }).result();
    await until(() => numKnown(cluster.router) > before, "the router hears of the prompt's pages");
  }
  const cachedAgain = async (of: Engine): Promise<number[]> => {
    const cached: number[] = [];
    for (const prompt of prompts) {
      const { trace } = await of.generate(`${prompt} and`, { maxTokens: 2 }).result();
      cached.push(trace.cachedTokens);
    }
    return cached;
  };
  for (const cached of await cachedAgain(engine)) assert.ok(cached >= 96, `${cached} tokens were cached`);
  await using late = await cluster.addRouter();
  await until(
    () => numKnown(late.member) > 0 && numKnown(late.member) === numKnown(cluster.router),
    "the late router knows as much",
  );
  const isIdle = (id: string): boolean => late.member.router.candidate(id, 0, 0).calls === 0;
  await until(() => replicas.every(({ member }) => isIdle(member.id)), "it has heard that nothing is left to do");
  for (const cached of await cachedAgain(late.engine)) assert.ok(cached >= 96, `${cached} tokens were cached`);

  const burst = Array.from({ length: 24 }, (_, i) => engine.generate(`${prompts[0]} ${i}`, { maxTokens: 30 }).result());
  await Promise.all(burst);
  const served = await Promise.all(replicas.map(async (replica) => (await replica.engine.stats()).requestsFinished));
  assert.ok(Math.min(...served) > 0, `one prefix was served by ${served} calls of each replica`);
});

test("what is lost on the way is made good: every answer is whole, and nothing stays behind", { skip }, async () => {
  const random = makeRandom(7);
  let numLost = 0;
  class Lossy extends Mailbox {
    override publish(subject: string, message: object): void {
      if (random(100) < 20) numLost++;
      else super.publish(subject, message);
    }
  }
  await using cluster = await startCluster(2, { Kind: Lossy, leaseSeconds: SHORT_LEASE });
  const { engine, replicas } = cluster;
  const ask = (of: Engine, i: number) => whole(of, i, i % 4 === 0 ? { n: 2 } : {});
  // The busier the machine, the more goes in one message, and the fewer can be lost.
  for (let first = 0; numLost <= 10; first += 16) {
    const all = Array.from({ length: 16 }, (_, i) => first + i);
    const got = await Promise.all(all.map((i) => ask(engine, i)));
    for (const [at, i] of all.entries()) assert.deepEqual(got[at], await ask(calm.lone, i), `answer ${i}`);
  }
  for (const replica of replicas)
    await until(async () => (await pagesUsed(replica.engine)) === 0, "all pages come back");
});

test("a caller that leaves ends its call at the replica, even when the word of it is lost; so does a router that is silent", {
  skip,
}, async () => {
  let isDeaf = false;
  class Deaf extends Mailbox {
    override publish(subject: string, message: object): void {
      const { type } = message as { type?: string };
      if (isDeaf || (isForgetful && type === "abort")) return;
      super.publish(subject, message);
    }
  }
  let isForgetful = false;
  await using cluster = await startCluster(1, { Kind: Deaf, leaseSeconds: SHORT_LEASE });
  const { engine, replicas } = cluster;
  const { member, engine: served } = replicas[0]!;
  const begin = async (): Promise<AsyncIterator<unknown>> => {
    const chunks = engine.generate(story(1), { maxTokens: 16000, ignoreEos: true })[Symbol.asyncIterator]();
    await chunks.next();
    return chunks;
  };
  const isIdle = async (): Promise<boolean> => member.replica.numCalls === 0 && (await pagesUsed(served)) === 0;
  holdRelays(served);
  await (await begin()).return!();
  await until(isIdle, "the call is aborted");
  isForgetful = true;
  await (await begin()).return!();
  await until(isIdle, "the call is found to be nobody's");
  isForgetful = false;
  const chunks = await begin();
  isDeaf = true; // as if the router were gone
  await until(isIdle, "the calls of a silent router are ended");
  isDeaf = false;
  await chunks.return!();
});

test("too much is refused with 429 and when to come again, by the capacity of the cluster; a call that has begun is not", {
  skip,
}, async () => {
  const limits = { slots: 1, maxQueued: 1 };
  await using cluster = await startCluster(2, { replicas: [{ limits }, { limits }] });
  const { engine } = cluster;
  const long = Array.from({ length: 4 }, (_, i) => engine.generate(story(i), { maxTokens: 60, ignoreEos: true }));
  const refused = engine.generate(story(9), { maxTokens: 2 });
  await assert.rejects(refused.result(), (error: { code: string; details: { limit: number; retryAfter: number } }) => {
    assert.equal(error.code, "queue_full");
    assert.equal(error.details.limit, 4);
    assert.ok(error.details.retryAfter >= 1);
    return true;
  });
  for (const { samples } of await Promise.all(long.map((one) => one.result())))
    assert.equal(samples[0]!.tokenIds.length, 60);
});

test("a replica that drains hands its calls over; the last one's go on when another comes", { skip }, async () => {
  await using cluster = await startCluster(2);
  const { engine, replicas, router } = cluster;
  for (const { engine: one } of replicas) holdRelays(one);
  const all = Array.from({ length: 8 }, (_, i) => i);
  const ask = (of: Engine, i: number) => of.generate(story(i), { ...drawn(i), maxTokens: 200 });
  const got = all.map((i) => ask(engine, i));
  await Promise.all(got.map((one) => one[Symbol.asyncIterator]().next()));
  assert.ok(
    replicas.every(({ member }) => member.replica.numCalls > 0),
    "both serve",
  );
  await replicas[0]!.member.drain(0);
  assert.equal(replicas[0]!.member.replica.numCalls, 0);
  await replicas[1]!.member.drain(0);
  await cluster.addReplica();
  for (const i of all)
    assert.deepEqual((await got[i]!.result()).samples, (await ask(calm.lone, i).result()).samples, `answer ${i}`);
  assert.ok(router.router.numResumed > 0);
});

test("pages move: a prefix is fetched from the replica that holds it, and computed when the transfer is damaged", {
  skip,
}, async () => {
  let isTurned = false;
  /** To the one that holds most; once turned, to the other, which is to fetch. */
  const policy: Policy = (candidates) => {
    const [most, least] = [...candidates].sort((a, b) => b.heldTokens - a.heldTokens);
    const tokens = most!.heldTokens - least!.heldTokens;
    return isTurned ? { ...least!, fetch: { peer: most!.id, tokens, ms: 1 } } : most!;
  };
  await using cluster = await startCluster(2, { policy });
  const { engine, router, replicas } = cluster;
  const ask = (i: number, of: Engine = engine) => of.generate(story(i, 160), { ...drawn(i), maxTokens: 5 }).result();
  const numKnown = (): number => replicas.reduce((sum, { member }) => sum + router.router.numPages(member.id), 0);
  const firstPages: number[] = [];
  for (const { engine: one } of replicas) {
    const lend = one.lendPages.bind(one);
    one.lendPages = (...args) => {
      firstPages.push(args[2]);
      return lend(...args);
    };
  }
  for (const i of [2, 1]) {
    isTurned = false;
    const before = numKnown();
    await ask(i);
    await until(() => numKnown() >= before + 10, "the prefix is published");
    isTurned = true;
    const lenders = replicas.map(({ engine: one }) => [one, one.lendPages] as const);
    if (i === 2)
      for (const [one, lend] of lenders)
        one.lendPages = async (...args) => (await lend(...args)).map((byte, at) => (at === 1000 ? byte ^ 1 : byte));
    const { samples, trace } = await ask(i);
    for (const [one, lend] of lenders) one.lendPages = lend;
    assert.deepEqual(samples, (await ask(i, calm.lone)).samples);
    assert.ok(i === 1 ? trace.cachedTokens >= 144 : trace.cachedTokens < 144, `${trace.cachedTokens} were fetched`);
    await until(() => numKnown() >= before + 2 * 10, "both hold it");
  }
  isTurned = false;
  const longer = `${story(1, 160)}${story(8, 100)}`; // both hold its beginning
  const before = numKnown();
  await engine.generate(longer, { maxTokens: 2 }).result();
  await until(() => numKnown() >= before + 6, "the rest of it is published");
  isTurned = true;
  await engine.generate(longer, { maxTokens: 2 }).result();
  assert.deepEqual(firstPages, [0, 0, 10], "only what is not there is lent");
  const counts = replicas.map(({ member }) => member.replica.peers!.counts);
  assert.ok(counts.reduce((sum, { numFetched }) => sum + numFetched, 0) >= 9);
  assert.equal(
    counts.reduce((sum, { numFailed }) => sum + numFailed, 0),
    1,
  );
});

test("a replica that drains gives its hot prefixes away", { skip }, async () => {
  await using cluster = await startCluster(2);
  const { engine, router, replicas } = cluster;
  await engine.generate(story(5, 160), { maxTokens: 2 }).result();
  const holds = (i: number): number => router.router.numPages(replicas[i]!.member.id);
  await until(() => holds(0) + holds(1) >= 9, "the prefix is published");
  const holder = holds(0) > 0 ? 0 : 1;
  await replicas[holder]!.member.drain(0);
  await until(() => holds(1 - holder) >= 9, "the other holds it");
  const { trace } = await engine.generate(story(5, 160), { maxTokens: 2 }).result();
  assert.ok(trace.cachedTokens >= 144);
});

test("without NATS there is a clear error in time, and no restart is needed when it is back", { skip }, async () => {
  const own = await TestNats.start();
  try {
    await using cluster = await startCluster(1, { patienceMs: 1500, leaseSeconds: SHORT_LEASE }, own);
    const { engine, replicas } = cluster;
    await own.kill();
    await assert.rejects(engine.generate(story(1), { maxTokens: 2 }).result(), {
      code: "no_replica",
      kind: "capacity",
    });
    await until(() => engine.health().state === "away", "the router says that it has no replica");
    await own.start();
    await until(() => engine.health().state === "ready", "the replica is back");
    assert.deepEqual(await whole(engine, 3), await whole(calm.lone, 3));
    await until(async () => (await pagesUsed(replicas[0]!.engine)) === 0, "all pages come back");
  } finally {
    await own[Symbol.asyncDispose]();
  }
});

test("a message larger than NATS takes goes in parts, and one that lost a part is dropped", { skip }, async () => {
  const config = clusterConfig({ nats: [calm.nats.url], cluster: "parts" });
  const [a, b] = [await openMailbox(config), await openMailbox(config)];
  const heard: string[] = [];
  b.listen(b.subjects.inbox(b.member), (message) => heard.push((message as unknown as { text: string }).text));
  await b.nats.flush();
  const long = "x".repeat(3 * 2 ** 20);
  a.send(b.member, { text: long });
  a.nats.publish(b.subjects.inbox(b.member), `#${a.member}.9 1 2\nhalf of something`);
  a.nats.publish(b.subjects.inbox(b.member), "not even JSON");
  a.send(b.member, { text: "short" });
  await until(() => heard.length === 2, "both came");
  assert.deepEqual(heard, [long, "short"]);
  await a.close();
  await b.close();
});
