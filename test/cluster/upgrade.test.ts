// Replicas that differ in what they compute: replaced one after the other under load, and never mixed in one answer or one cache.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Policy } from "../../src/cluster/router/choose.js";
import { createEngine } from "../../src/engine/client/engine.js";
import { type Asked, alone, numReplicas, stream } from "../support/cluster-streams.js";
import { holdRelays } from "../support/held-relays.js";
import { TestNats, whyNoNats } from "../support/nats.js";
import { type ServedProcess, startProcess } from "../support/served-process.js";
import { drawn, PATIENCE_MS, SmallCluster, story, TINY_MODEL, tinyEngine, whole } from "../support/small-cluster.js";
import { until } from "../support/until.js";

const skip = whyNoNats();
let nats: TestNats;
before(async () => {
  if (skip === false) nats = await TestNats.start();
});
after(async () => {
  if (skip === false) await nats[Symbol.asyncDispose]();
});

/** Another version, as far as bits are concerned. */
const OTHER = { kvDtype: "i8", pageSize: 32 } as const;
const askFor = (i: number): Asked => ({ prompt: `Story ${i}: `, max_tokens: 60, seed: i, temperature: 0.9 });

test("a rolling upgrade: both replicas are replaced by another version under load; every stream is wholly of one of them", {
  skip,
}, async () => {
  const cluster = ["--nats", nats.url, "--cluster", "upgrade", "--log-level", "silent"];
  const lease = ["--lease-seconds", "9"]; // nobody is to be missed here
  const startReplica = (drainSeconds: number, ...more: string[]): Promise<ServedProcess> => {
    const drain = ["--drain-seconds", String(drainSeconds)];
    return startProcess([...cluster, ...lease, ...drain, "--model", TINY_MODEL, "--num-pages", "400", ...more]);
  };
  const startOther = () =>
    startReplica(PATIENCE_MS / 1000, "--kv-dtype", OTHER.kvDtype, "--page-size", String(OTHER.pageSize));
  const patience = ["--patience-seconds", String(PATIENCE_MS / 1000)]; // nor does anybody give up
  const routerArgs = [...cluster, ...lease, ...patience, "--model", TINY_MODEL];
  await using router = await startProcess(routerArgs, "ignore", ["route"]);
  await using first = await startReplica(0); // hands over at once what it has begun
  await using second = await startReplica(PATIENCE_MS / 1000); // the last of its version lets them finish
  const known = (count: number) =>
    until(async () => (await numReplicas(router.url)) === count, `${count} replicas are known`, 50);
  await known(2);

  let isOver = false;
  let numTokens = 0;
  let numWanted = 0;
  const results: string[] = [];
  let next = 0;
  const ask = async (): Promise<void> => {
    const i = next++;
    results[i] = await stream(router.url, askFor(i), () => numTokens++);
  };
  const client = async (): Promise<void> => {
    for (;;) {
      await until(() => isOver || numTokens < numWanted, "more is asked for");
      if (isOver) return;
      await ask();
    }
  };
  const clients = Promise.all(Array.from({ length: 2 }, client));
  /** Returns while the clients are in the middle of a stream. */
  const moreTokens = (): Promise<void> => {
    numWanted = numTokens + 40;
    return until(() => numTokens >= numWanted, "more tokens");
  };
  await moreTokens();
  await using _third = await startOther();
  await known(3);
  await moreTokens();
  first.child.kill("SIGTERM");
  assert.equal(await first.exit, 0);
  await using _fourth = await startOther();
  await known(3);
  await moreTokens();
  second.child.kill("SIGTERM");
  assert.equal(await second.exit, 0);
  await moreTokens();
  isOver = true;
  await clients;
  await ask(); // when only the other version is left

  await using before = await createEngine({ model: TINY_MODEL, threads: 1, numPages: 400 });
  await using behind = await createEngine({ model: TINY_MODEL, threads: 1, numPages: 400, ...OTHER });
  const all = results.map((_, i) => i);
  const [old, fresh] = await Promise.all(
    [before, behind].map((engine) => Promise.all(all.map((i) => alone(engine, askFor(i))))),
  );
  for (const i of all) assert.ok(results[i] === old![i] || results[i] === fresh![i], `stream ${i}: ${results[i]}`);
  assert.equal(results[0], old![0]);
  assert.equal(results.at(-1), fresh!.at(-1));
  assert.ok(
    all.some((i) => old![i] !== fresh![i]),
    "the versions do not differ: the test shows nothing",
  );
});

test("an answer that has begun waits for its own version and ends with an error without it; one that has not goes to any", {
  skip,
}, async () => {
  await using lone = await tinyEngine();
  await using other = await tinyEngine(OTHER);
  let wanted = "";
  const policy: Policy = (candidates) => candidates.find(({ id }) => id === wanted) ?? candidates[0] ?? null;
  await using cluster = await SmallCluster.start(nats.url, { policy });
  const { engine, replicas } = cluster;
  holdRelays(replicas[0]!.engine);
  const rest = async (answer: AsyncIterator<unknown>): Promise<void> => {
    while ((await answer.next()).done !== true);
  };
  const long = engine.generate(story(1), { ...drawn(1), maxTokens: 1500 });
  const begun = long[Symbol.asyncIterator]();
  await begun.next();
  const fresh = await cluster.addReplica({ engine: OTHER });
  const isKnown = (id: string) => () => cluster.router.router.replicas().some((entry) => entry.id === id);
  await until(isKnown(fresh.member.id), "the other version is known");
  await replicas[0]!.member.drain(0);
  assert.equal(fresh.member.replica.numCalls, 0, "it is not asked to finish what another version began");
  assert.deepEqual(await whole(engine, 2), await whole(other, 2)); // what comes now is served
  await cluster.addReplica(); // its own version again, in time
  await rest(begun);
  const whatCame = (await long.result()).samples;
  assert.deepEqual(whatCame, (await lone.generate(story(1), { ...drawn(1), maxTokens: 1500 }).result()).samples);

  await using hasty = await cluster.addRouter({ patienceMs: 300 });
  await until(() => hasty.member.router.replicas().length === 3, "it knows them all");
  wanted = replicas[2]!.member.id;
  holdRelays(replicas[2]!.engine);
  const lost = hasty.engine.generate(story(3), { ...drawn(3), maxTokens: 6000 })[Symbol.asyncIterator]();
  await lost.next();
  assert.equal(replicas[2]!.member.replica.numCalls, 1);
  await replicas[2]!.member.drain(0);
  await assert.rejects(rest(lost), { code: "replicas_replaced" });
});

test("pages of another page size or dtype are neither lent nor taken, whatever a router says", { skip }, async () => {
  const [f32, f16] = [{ kvDtype: "f32" }, { kvDtype: "f16" }] as const;
  let target = "";
  const forced: Policy = (candidates) => {
    const other = candidates.find(({ id }) => id !== target);
    const chosen = candidates.find(({ id }) => id === target) ?? candidates[0]!;
    return other === undefined ? chosen : { ...chosen, fetch: { peer: other.id, tokens: 100, ms: 1 } };
  };
  await using cluster = await SmallCluster.start(nats.url, {
    replicas: [{ engine: f32 }, { engine: f16 }],
    policy: forced,
  });
  const { engine, replicas, router } = cluster;
  const [first, second] = [replicas[0]!, replicas[1]!];
  const prompt = story(7, 160);
  target = first.member.id;
  await engine.generate(prompt, { maxTokens: 2 }).result();
  await until(() => router.router.numPages(first.member.id) >= 9, "the prefix is published");
  target = second.member.id;
  await using lone = await tinyEngine(f16);
  const ask = (of: typeof engine) => of.generate(prompt, drawn(7)).result();
  const { samples, trace } = await ask(engine);
  assert.deepEqual(samples, (await ask(lone)).samples);
  assert.equal(trace.cachedTokens, 0);
  const counts = second.member.replica.peers!.counts;
  assert.deepEqual([counts.numFetched, counts.numFailed], [0, 1]);
  // Nor are they offered when a replica leaves: there is none of its kind to take them.
  await first.member.drain(0);
  assert.equal(counts.numFetched, 0);
});
