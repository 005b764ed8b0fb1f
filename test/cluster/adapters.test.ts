// Adapters in a cluster: a request goes to a replica that has the adapter it names, goes on at another that has the same, and gets the bits
// that it gets at home.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { TestNats, whyNoNats } from "../support/nats.js";
import { LONG_LEASE, SmallCluster, story, tinyEngine, whole } from "../support/small-cluster.js";
import { writeTinyAdapter } from "../support/tiny-adapter.js";
import { until } from "../support/until.js";

const skip = whyNoNats();
let nats: TestNats;
before(async () => {
  if (skip === false) nats = await TestNats.start();
});
after(async () => {
  if (skip === false) await nats[Symbol.asyncDispose]();
});

const SQL = writeTinyAdapter({ seed: 1 });
const POET = writeTinyAdapter({ seed: 2, rank: 8 });

test("requests go to replicas that hold their adapter, cached pages and all, and give the bits of one engine", {
  skip,
}, async () => {
  await using cluster = await SmallCluster.start(nats.url, {
    replicas: [
      { engine: { adapter: [`sql=${SQL}`] } },
      {},
      { engine: { adapter: [`sql=${SQL}`, `poet=${POET}`] } },
      { engine: { adapter: [`poet=${SQL}`] } }, // other numbers than the one before has under this name
    ],
  });
  const { engine, replicas } = cluster;
  await until(() => engine.adapters.length === 2, "the router has heard of adapters");
  assert.deepEqual(
    engine.adapters.map(({ name }) => name),
    ["poet", "sql"],
  );
  await using lone = await tinyEngine({ adapter: [`sql=${SQL}`, `poet=${POET}`, `other=${SQL}`] });
  const identityOf = (name: string) => lone.adapters.find((own) => own.name === name)!.identity;
  const { identity } = engine.adapters[0]!;
  const poet = [identityOf("poet"), identityOf("sql")].indexOf(identity) === 0 ? "poet" : "other";
  const atHome = { sql: "sql", poet } as const;
  const choices = ["sql", "poet", { name: "sql", scale: 0.5 }] as const;
  for (let i = 0; i < 9; i++) {
    const adapter = choices[i % 3]!;
    const own = typeof adapter === "string" ? atHome[adapter] : adapter;
    assert.deepEqual(await whole(engine, i, { adapter }), await whole(lone, i, { adapter: own }), `request ${i}`);
  }
  assert.deepEqual(await whole(engine, 3), await whole(lone, 3), "without an adapter");
  const finished = async (): Promise<number[]> =>
    Promise.all(replicas.map(async (replica) => (await replica.engine.stats()).requestsFinished));
  const [, none] = await finished();
  assert.ok(none! <= 1, "a replica without adapters gets only what names none");
  // The same prompt again: its pages are where this adapter computed them, and nowhere for another.
  const long = { maxTokens: 4, temperature: 0 };
  const cachedOf = async (adapter: string): Promise<number> => {
    const { trace } = await engine.generate(story(50, 400), { ...long, adapter }).result();
    return trace.cachedTokens;
  };
  assert.equal(await cachedOf("sql"), 0);
  assert.ok((await cachedOf("sql")) > 300);
  assert.equal(await cachedOf("poet"), 0);
  await assert.rejects(engine.generate("x", { adapter: "none" }).result(), { code: "adapter_unknown" });
});

test("an answer goes on where the same adapter is; one that was unloaded is asked for elsewhere", {
  skip,
}, async () => {
  await using cluster = await SmallCluster.start(nats.url, {
    replicas: [{ engine: { adapter: [`sql=${SQL}`] } }, { engine: { adapter: [`sql=${SQL}`] } }, {}],
    leaseSeconds: LONG_LEASE,
  });
  const { engine, replicas } = cluster;
  await until(() => engine.adapters.length === 1, "the router has heard of it");
  await using lone = await tinyEngine({ adapter: [`sql=${SQL}`] });
  const options = { adapter: "sql", maxTokens: 400 };
  const answers = [0, 1, 2, 3].map((i) => whole(engine, i, options));
  await until(async () => (await replicas[0]!.engine.stats()).generatedTokens > 20, "answers have begun");
  await replicas[0]!.member.drain(0);
  for (const [i, answer] of answers.entries()) assert.deepEqual(await answer, await whole(lone, i, options), `${i}`);
  assert.ok(cluster.router.router.numResumed > 0);

  // The router still believes that it is there.
  await cluster.addReplica({ engine: { adapter: [`sql=${SQL}`] } });
  await until(
    () => cluster.router.router.replicas().filter(({ state }) => state === "ready").length === 3,
    "it is known",
  );
  await replicas[1]!.engine.unloadAdapter("sql");
  for (let i = 0; i < 4; i++)
    assert.deepEqual(await whole(engine, i, { adapter: "sql" }), await whole(lone, i, { adapter: "sql" }));
});
