// Members who join over a real NATS, with engines that compute nothing: what they say of themselves, who goes on in whose place, what is
// left when they leave.

import assert from "node:assert/strict";
import { hostname } from "node:os";
import { after, test } from "node:test";
import { Kvm } from "@nats-io/kv";
import { TestNats, whyNoNats } from "../../test/support/nats.js";
import { entryOf } from "../../test/support/told-cluster.js";
import { until } from "../../test/support/until.js";
import { clusterConfig } from "../config/cluster-config.js";
import { packageVersion } from "../config/version.js";
import type { RelayEngine } from "../engine/client/relay.js";
import { Mailbox } from "./bus/mailbox.js";
import { PROTOCOL } from "./bus/wire.js";
import { joinAsReplica, joinAsRouter, openMailbox, type ReplicaOptions, vocabularyOf } from "./join.js";
import { Lease } from "./membership/lease.js";
import type { MemberEntry } from "./membership/registration.js";
import { readStatus } from "./membership/status.js";

const skip = whyNoNats();
const nats = skip === false ? await TestNats.start() : null;
after(() => nats?.[Symbol.asyncDispose]());

let numClusters = 0;
const newConfig = (options: object = {}) =>
  clusterConfig({ nats: [nats!.url], cluster: `join-${numClusters++}`, leaseSeconds: 60, ...options });

const NO_STATS = {
  ...{ pagesTotal: 0, pagesCached: 0, promptTokens: 0, cachedTokens: 0, generatedTokens: 0, requestsFinished: 0 },
};

/** An engine with so many pages in use, which writes down what it takes. */
class ToldEngine {
  readonly model = { name: "m" };
  readonly eosIds = [2];
  readonly adapters = [
    { name: "sql", path: "/secret", isPinned: true, identity: "numbers", byteLength: 8, maxRank: 4 },
  ];
  readonly facts: object;
  readonly taken: unknown[] = [];
  state = "ready";
  isLeft = false;
  readonly #pagesUsed: number;

  constructor(pagesUsed: number, facts: object = {}) {
    this.#pagesUsed = pagesUsed;
    const usual = {
      vocabSize: 3,
      pageSize: 4,
      pageBytes: 64,
      identity: "same",
      poolTokens: 64,
      maxContext: 32,
      config: { secret: 1 },
    };
    this.facts = { ...usual, ...facts };
  }

  health = () => ({ state: this.state });
  stats = async () => ({ ...NO_STATS, pagesUsed: this.#pagesUsed, running: 1, waiting: 2 });
  tokenizer = { bytes: (id: number) => Uint8Array.of(id) };
  watchPrefixes = () => undefined;
  lendPages = async () => Uint8Array.of(1, 2);
  takePages = async (...given: unknown[]) => {
    this.taken.push(given);
    return { numTaken: 1, reason: null };
  };

  readonly inspect = { steps: (options: { signal: AbortSignal }) => this.#steps(options) };

  async *#steps({ signal }: { signal: AbortSignal }): AsyncGenerator<never> {
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    this.isLeft = true;
  }
}

const LIMITS = { slots: 3, maxQueued: 5, address: "http://here", host: "127.0.0.1" };
const join = (engine: ToldEngine, config = newConfig(), more: Partial<ReplicaOptions> = {}) =>
  joinAsReplica(engine as unknown as RelayEngine, config, { ...LIMITS, ...more });

test("a replica and a router say all of themselves in the bucket; when they leave nothing of them is there", {
  skip,
}, async () => {
  const config = newConfig();
  const engine = new ToldEngine(7, { poolTokens: Number.POSITIVE_INFINITY });
  const beganMs = Date.now();
  const member = await join(engine, config);
  assert.match(member.id, /^[A-Za-z0-9-]*-[0-9a-f]{10}$/);
  assert.equal(
    member.id.slice(0, -11),
    hostname()
      .replaceAll(/[^A-Za-z0-9]+/g, "-")
      .slice(0, 40),
  );
  const router = await joinAsRouter(config);
  assert.deepEqual(
    router.router.replicas().map(({ id }) => id),
    [member.id],
  );
  await router.register({ address: "http://there", models: ["m"] });
  const { replicas, routers, models, cluster } = await readStatus(config);
  const { startedMs, load, pageAddress, ...said } = replicas[0]!;
  assert.match(pageAddress!, /^http:\/\/127\.0\.0\.1:\d+$/);
  assert.ok(startedMs >= beganMs && startedMs <= Date.now());
  assert.deepEqual(said, {
    ...{ kind: "replica", id: member.id, model: "m", version: packageVersion(), protocol: PROTOCOL, role: "both" },
    ...{ vocabulary: vocabularyOf(engine as unknown as RelayEngine), address: "http://here", exchangesPages: true },
    ...{ leaseMs: 60_000, slots: 3, maxQueued: 5, state: "ready" },
    adapters: [{ name: "sql", identity: "numbers", byteLength: 8, maxRank: 4 }],
    facts: { vocabSize: 3, pageSize: 4, pageBytes: 64, identity: "same", poolTokens: null, maxContext: 32 },
  });
  assert.deepEqual(load, {
    ...{ tokensPerSecond: 1000, running: 1, waiting: 2, pagesUsed: 7, pagesTotal: 0, pagesCached: 0, promptTokens: 0 },
    ...{ cachedTokens: 0, generatedTokens: 0, requestsFinished: 0, calls: { count: 0, queued: [] }, callsOf: {} },
    ...{ meanCallMs: load.meanCallMs, callsFailed: 0, callsRefused: 0, pagesFetched: 0, fetchesFailed: 0 },
  });
  const { id, startedMs: _, ...told } = routers[0]!;
  assert.deepEqual(told, {
    ...{ kind: "router", version: packageVersion(), protocol: PROTOCOL, leaseMs: 60_000, address: "http://there" },
    ...{ models: ["m"], calls: 0, resumed: 0, prefilled: 0, lost: 0 },
  });
  assert.notEqual(id, member.id);
  assert.deepEqual([cluster, models.m?.ready, models.m?.waiting], [config.cluster, 1, 2]);
  engine.state = "restarting";
  const mailbox = await openMailbox(config);
  const listed = () => new Lease(mailbox, 60_000).list();
  void member.drain(1);
  await until(
    async () => (await listed()).some((entry) => entry.kind === "replica" && entry.state === "draining"),
    "said",
  );
  await member.close();
  await until(() => router.router.replicas().length === 0, "it left");
  assert.deepEqual([router.router.numLost, engine.isLeft], [1, true]);
  await router[Symbol.asyncDispose]();
  assert.deepEqual(await listed(), []);
  await mailbox.close();
});

test("whoever comes first makes the bucket, as long-lived as the cluster's lease says", { skip }, async () => {
  const mailbox = await openMailbox(newConfig());
  const ttlOf = async (config: ReturnType<typeof newConfig>) =>
    (await (await new Kvm(mailbox.nats).open(`pagoda_${config.cluster}`)).status()).ttl;
  const [asked, routed] = [newConfig(), newConfig()];
  assert.deepEqual(await readStatus(asked), { cluster: asked.cluster, models: {}, replicas: [], routers: [] });
  await (await joinAsRouter(routed)).close();
  assert.deepEqual([await ttlOf(asked), await ttlOf(routed)], [120_000, 120_000]);
  await mailbox.close();
});

test("the pages of one that drains go to the emptiest of those that could go on in its place", { skip }, async () => {
  const config = newConfig();
  const mailbox = await openMailbox(config);
  const gone = new Lease(mailbox, 60_000);
  const silent = { exchangesPages: true, leaseMs: 0, load: { pagesUsed: 0 }, facts: { identity: "same" } };
  await gone.hold(() => entryOf("gone", silent)); // whose lease is over when it is looked for
  const engines = {
    fuller: new ToldEngine(5),
    emptiest: new ToldEngine(3),
    full: new ToldEngine(9),
    other: new ToldEngine(0, { identity: "another" }),
    restarting: new ToldEngine(0),
    alone: new ToldEngine(0),
  };
  engines.restarting.state = "restarting";
  const alone = { ...config, pageTransfers: false };
  const joined = Object.entries(engines).map(([name, engine]) => join(engine, name === "alone" ? alone : config));
  const members = await Promise.all(joined);
  const leaving = await join(new ToldEngine(1), config);
  await leaving.drain(1);
  await until(() => engines.emptiest.taken.length > 0, "they came");
  assert.deepEqual(
    Object.entries(engines).flatMap(([name, { taken }]) => taken.map(() => name)),
    ["emptiest"],
  );
  await gone.end();
  await leaving.close();
  for (const member of members) await member[Symbol.asyncDispose]();
  const last = await join(new ToldEngine(1), config);
  await last.drain(1); // nobody is left to take anything
  await last.close();
  await mailbox.close();
});

test("a lease is said again when it should be, not so soon again, and never after its end; the bucket forgets after two", {
  skip,
}, async (t) => {
  const mailbox = await openMailbox(newConfig(), Mailbox);
  const lease = new Lease(mailbox, 600_000);
  let slots = 0;
  const heard: number[] = [];
  const slotsOf = (data: Uint8Array) => (JSON.parse(Buffer.from(data).toString()) as { slots: number }).slots;
  mailbox.nats.subscribe(mailbox.subjects.entries, {
    callback: (_, { data }) => void heard.push(data.length === 0 ? -1 : slotsOf(data)),
  });
  assert.deepEqual(await lease.list(), []);
  await new Lease(mailbox, 600_000).end(); // one that was never held
  await lease.hold(() => entryOf("a", { slots: ++slots }));
  const listed = await new Lease(mailbox, 600_000).list();
  assert.deepEqual(listed as MemberEntry[], [entryOf("a", { slots: 1 })]);
  const { ttl, history } = await (await new Kvm(mailbox.nats).open(mailbox.subjects.bucket)).status();
  assert.deepEqual([ttl, history], [1_200_000, 1]);
  let nowMs = 50_000;
  const clock = t.mock.method(performance, "now", () => nowMs);
  /** How often it was said once that is begun. */
  const numSaid = async (passedMs: number) => {
    nowMs += passedMs;
    lease.renewNow();
    await new Promise((resolve) => setImmediate(resolve));
    return slots;
  };
  assert.deepEqual([await numSaid(0), await numSaid(99), await numSaid(1), await numSaid(0)], [2, 2, 3, 3]);
  mailbox.isConnected = false;
  await lease.renew();
  mailbox.isConnected = true;
  clock.mock.restore();
  await lease.end();
  await until(() => heard.includes(-1), "it goes at once");
  await lease.renew();
  assert.deepEqual([await lease.list(), heard, slots], [[], [1, 2, 3, -1], 4]);
  await mailbox.close();

  const beating = await openMailbox(newConfig());
  let numBeats = 0;
  const short = new Lease(beating, 60);
  await short.hold(() => entryOf("b", { slots: ++numBeats }));
  await until(() => numBeats > 3, "it beats by itself");
  await short.end();
  await beating.close();
});

test("one joins by the mailbox it is given, in the role it is given; two vocabularies that differ have two names", {
  skip,
}, async () => {
  const config = newConfig();
  const mailbox = await openMailbox(config);
  const member = await join(new ToldEngine(0), config, { mailbox, role: "prefill" });
  assert.equal(member.id, mailbox.member);
  const [entry] = await new Lease(mailbox, 60_000).list();
  assert.equal(entry?.kind === "replica" && entry.role, "prefill");
  const router = await joinAsRouter(config, mailbox);
  assert.deepEqual(
    router.router.replicas().map(({ id }) => id),
    [member.id],
  );
  router.router.close();
  await member.close();
  assert.ok(mailbox.nats.isClosed());
  const vocabulary = (known: number, vocabSize = 3) => {
    const bytes = (id: number) => {
      if (id >= known) throw new Error("no such token");
      return Uint8Array.of(id);
    };
    return vocabularyOf({ facts: { vocabSize } as RelayEngine["facts"], eosIds: [2], tokenizer: { bytes } });
  };
  assert.deepEqual(new Set([vocabulary(3), vocabulary(9), vocabulary(2), vocabulary(3, 4)]).size, 3);
});
