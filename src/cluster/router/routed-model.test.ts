import assert from "node:assert/strict";
import { test } from "node:test";
import { OutputObjects, type RequestOutput } from "../../../test/support/outputs.js";
import { addOf, type EntryOptions, entryOf, ToldCluster } from "../../../test/support/told-cluster.js";
import { until } from "../../../test/support/until.js";
import type { EngineFacts, FromEngine } from "../../engine/messages.js";
import { RoutedModel } from "./routed-model.js";

const FACTS = { maxContext: 99, pageSize: 4, device: "none" } as EngineFacts;

/** A routed model among replicas that say what they are told to; and everything that it says itself. */
class Told implements Disposable {
  readonly cluster = new ToldCluster();
  readonly model: RoutedModel;
  #said: FromEngine[] = [];
  readonly #objects = new OutputObjects();

  constructor({ patienceMs = 60_000, prefillTokens = 512 } = {}) {
    const { router } = this.cluster;
    const options = { router, cluster: "test", facts: FACTS, patienceMs, model: "m", vocabulary: "v", prefillTokens };
    this.model = new RoutedModel({ ...options, listener: (message) => this.#said.push(message) });
  }

  come(id: string, options: EntryOptions = {}): void {
    this.cluster.members.onReplica(entryOf(id, options));
  }

  /** What was sent to replicas of requests and aborts: "replica type id ..." */
  sent(): string[] {
    return this.cluster.line.taken().flatMap(([to, message]) => {
      const { type, id, index } = message;
      if (type === "abort") return [`${to} abort ${id} ${index}`];
      const { resumed, sampling } = message as {
        resumed: { index: number; tokens: number[] } | null;
        sampling: { n: number; maxTokens: number };
      };
      if (type !== "add") return [];
      const what =
        resumed === null ? `n=${sampling.n} max=${sampling.maxTokens}` : `${resumed.index}:[${resumed.tokens}]`;
      return [`${to} add ${id} ${what}`];
    });
  }

  /** What it said since the last time, outputs in short. */
  async said(): Promise<unknown[]> {
    await Promise.resolve();
    await Promise.resolve();
    const said = this.#said;
    this.#said = [];
    return said.flatMap((message): unknown[] =>
      message.type === "outputs" ? this.#objects.of(message).map(short) : [message],
    );
  }

  output(from: string, ...outputs: object[]): void {
    this.cluster.line.hear(from, { type: "outputs", outputs: outputs.map((output) => ({ at: 0, ...output })) });
  }

  /** The events of a call's way, without their times. */
  way(callId: string): string[] {
    const { events } = this.cluster.router.journeys.list().find(({ id }) => id === callId)!;
    return events.map((event) => {
      const { atMs: _, type, ...rest } = event as Record<string, unknown> & { type: string };
      if (type === "chosen") return `${rest.task} by ${rest.replica}`;
      return [type, ...Object.values(rest)].join(" ");
    });
  }

  [Symbol.dispose](): void {
    void this.model.close();
    this.cluster[Symbol.dispose]();
  }
}

function short({ callId, index, tokens, finishReason, error, trace }: RequestOutput): string {
  const end =
    error !== null ? ` ${error.code}` : finishReason === null ? "" : ` ${finishReason} ${trace?.completionTokens}`;
  return `${callId}.${index} [${tokens}]${end}`;
}

test("the model is away while no replica is ready, and says so once; its limits are those that all replicas keep", async () => {
  using told = new Told();
  const away = {
    type: "away",
    reason:
      "No replica of m that could take this request has been heard in the cluster test for 60 s. Retry later; pagoda cluster status shows who is there.",
  };
  assert.deepEqual(await told.said(), [{ type: "ready", facts: FACTS }, away]);
  told.come("a", { state: "restarting" });
  const ready = (device: string, maxContext: number) => ({
    type: "ready",
    facts: {
      ...FACTS,
      ...entryOf("a").facts,
      device,
      maxContext,
      poolTokens: Number.POSITIVE_INFINITY,
      deterministic: true,
    },
  });
  assert.deepEqual(await told.said(), [ready("cluster: 1 replica", 512)]);
  told.come("a");
  assert.deepEqual(await told.said(), [{ type: "away", reason: null }, ready("cluster: 1 replica", 512)]);
  told.come("b", { facts: { maxContext: 100 } });
  told.come("other", { model: "another" });
  told.come("worded", { vocabulary: "another" });
  assert.deepEqual((await told.said()).at(-1), ready("cluster: 2 replicas", 100));
  told.cluster.members.onLost("a", "it left");
  told.cluster.members.onLost("b", "it left");
  assert.deepEqual((await told.said()).at(-1), away);
  told.model.post({ type: "query", seq: 4, what: "stats", rows: [] });
  told.model.post({ type: "query", seq: 5, what: "cache", rows: [] });
  told.model.post({ type: "query", seq: 6, what: "plan", rows: [] });
  for (const type of ["warm", "watch_prefixes"] as const) told.model.post({ type });
  const [stats, ...others] = (await told.said()) as { seq: number; value: { device: string } }[];
  assert.deepEqual([stats!.seq, stats!.value.device], [4, "cluster: 0 replicas"]);
  assert.deepEqual(others, [
    { type: "reply", seq: 5, value: { pageSize: 4, groups: [], nodes: [], requests: [] } },
    { type: "reply", seq: 6, value: [] },
  ]);
});

test("a call with an adapter goes to replicas that hold the numbers that most hold under its name", async () => {
  using told = new Told();
  const adapter = (identity: string) => ({ name: "sql", identity, byteLength: 8, maxRank: 4 });
  told.come("a", { adapters: [adapter("one")] });
  told.come("b");
  told.come("c", { adapters: [adapter("two")] });
  told.come("d", { adapters: [adapter("two")] });
  const listed = (await told.said()).filter((said) => (said as { type?: string }).type === "adapters");
  assert.deepEqual((listed.at(-1) as { adapters: unknown }).adapters, [
    { ...adapter("two"), path: "sql", isPinned: false },
  ]);
  const ref = { name: "sql", path: "sql", scale: 2, isPinned: false };
  const sent: string[] = [];
  for (const callId of ["x", "y", "z"]) {
    told.model.post(addOf(callId, { adapter: ref }));
    for (const [to, { type, adapter: asked }] of told.cluster.line.taken()) {
      if (type !== "add") continue;
      sent.push(to);
      assert.deepEqual(asked, { name: "sql", scale: 2, identity: "two" });
    }
  }
  assert.deepEqual([...new Set(sent)].sort(), ["c", "d"]);
  // It has left since: another is asked.
  const error = { code: "adapter_unknown", details: { value: "sql", known: "none" } };
  const [first] = sent;
  told.output(first!, { id: "0", finishReason: "error", error });
  const [next] = told.sent();
  assert.ok(next!.startsWith(first === "c" ? "d add" : "c add"), next);
});

test("an answer whose replica is lost goes on at another, sample by sample, from the last token that came", async () => {
  using told = new Told();
  told.come("a");
  await told.said();
  told.model.post(addOf("x", { n: 2 }));
  assert.deepEqual(told.sent(), ["a add 0 n=2 max=10"]);
  told.output("a", { id: "0", tokens: [7] }, { id: "0", index: 1, tokens: [8, 9] });
  assert.deepEqual(await told.said(), ["x.0 [7]", "x.1 [8,9]"]);
  told.come("b");
  told.cluster.members.onLost("a", "it left");
  assert.deepEqual(told.sent(), ["a abort 0 -1", "b add 1 0:[7]", "b add 2 1:[8,9]"]);
  told.cluster.line.hear("b", { type: "gone", ids: ["2"] });
  assert.deepEqual(told.sent(), ["b add 3 1:[8,9]"], "the other one is still there");
  told.model.post({ type: "abort", callId: "x", index: 1 });
  assert.deepEqual(told.sent(), ["b abort 3 1"], "at the one that has this sample");
  told.output("b", { id: "1", at: 1, tokens: [10], finishReason: "stop" });
  assert.deepEqual(await told.said().then((said) => said.filter((one) => typeof one === "string")), [
    "x.0 [10] stop 4",
  ]);
  assert.equal(told.cluster.router.numCalls, 1, "of a sample that has ended nothing is open");
  told.output("b", { id: "3", index: 1, at: 2, tokens: [11], finishReason: "length", trace: { cachedTokens: 3 } });
  assert.deepEqual(await told.said(), ["x.1 [11] length 5"]);
  assert.deepEqual([told.cluster.router.numCalls, told.cluster.router.numResumed], [0, 3]);
  assert.deepEqual(told.way("x"), [
    "answer by a",
    "first_token a",
    "lost a it left 3",
    "answer by b",
    "answer by b",
    "lost b it knows nothing of the request 3",
    "answer by b",
    "end length 5 3",
  ]);
});

test("what has ended is forgotten; an answer that goes on is heard to its end; one that nobody has room for is told so at once", async () => {
  using told = new Told();
  told.come("a");
  told.come("b");
  await told.said();
  told.model.post(addOf("x"));
  const [first] = told.sent();
  const replica = first!.split(" ")[0]!;
  told.output(replica, { id: "0", tokens: [7] });
  told.cluster.members.onLost(replica, "it left");
  told.sent();
  const other = replica === "a" ? "b" : "a";
  for (const at of [1, 2]) told.output(other, { id: "1", at, tokens: [7 + at] });
  told.output(other, { id: "1", at: 3, finishReason: "stop" });
  const outputs = async () => (await told.said()).filter((one) => typeof one === "string");
  assert.deepEqual(await outputs(), ["x.0 [7]", "x.0 [8]", "x.0 [9]", "x.0 [] stop 3"]);
  const way = told.way("x");
  told.model.post({ type: "abort", callId: "x", index: -1 });
  assert.deepEqual([told.way("x"), told.sent(), way.at(-1)], [way, [], "end stop 3 0"]);
  told.come(other, { load: { calls: { count: 4, queued: [] } } });
  await told.said();
  told.model.post(addOf("y"));
  assert.deepEqual(await outputs(), ["y.0 [] queue_full"]);
});

test("which beginnings prompts share is remembered where they are sent, once for each call", async () => {
  using told = new Told();
  told.come("a");
  await told.said();
  for (const id of ["x", "y"]) told.model.post(addOf(id));
  told.output("a", { id: "0", tokens: [7] });
  told.cluster.line.hear("a", { type: "gone", ids: ["0"] }); // it goes on, and is none that begins
  const [{ model, from, to, requests, hits, tokens }] = told.cluster.router.heat.hottest(1) as [
    ReturnType<typeof told.cluster.router.heat.hottest>[number],
  ];
  assert.deepEqual([model, from, to, requests, hits, tokens], ["m", 0, 8, 2, 1, [1, 2, 3, 4, 5, 6, 7, 8]]);
});

test("a prompt is given to be computed once; then it is answered, whatever became of that", async () => {
  using told = new Told({ prefillTokens: 200 });
  const paged = { exchangesPages: true, facts: { pageBytes: 4 } };
  told.come("p", { role: "prefill", ...paged });
  told.come("a", paged);
  await told.said();
  told.model.post(addOf("x", { length: 200 }));
  assert.deepEqual(told.sent(), ["p add 0 n=1 max=0"]);
  told.come("q", { role: "prefill", ...paged });
  told.cluster.members.onLost("p", "it left");
  assert.deepEqual(told.sent(), ["p abort 0 -1", "a add 1 n=1 max=10"]);
});

test("all samples of an answer wait for a replica together, and go on together", async () => {
  using told = new Told();
  told.come("a");
  await told.said();
  told.model.post(addOf("x", { n: 2 }));
  told.model.post(addOf("y"));
  told.output("a", { id: "0", tokens: [7] }, { id: "0", index: 1, tokens: [8] });
  told.sent();
  told.cluster.members.onLost("a", "it left");
  assert.deepEqual(told.sent(), ["a abort 0 -1", "a abort 1 -1"]);
  told.come("b");
  assert.deepEqual(told.sent(), ["b add 2 0:[7]", "b add 3 1:[8]", "b add 4 n=1 max=10"]);
});

test("a call is aborted as a whole, or one sample of it: at its replica, or, when it has none, here", async () => {
  using told = new Told();
  told.come("a");
  await told.said();
  told.model.post(addOf("x", { n: 2 }));
  told.model.post({ type: "abort", callId: "x", index: 1 });
  told.model.post({ type: "abort", callId: "unknown", index: 1 });
  assert.deepEqual(told.sent(), ["a add 0 n=2 max=10", "a abort 0 1"]);
  assert.deepEqual(await told.said(), [], "its replica will say how it fared");
  told.output("a", { id: "0", tokens: [7] });
  told.cluster.members.onLost("a", "it left");
  const lost = await told.said();
  assert.deepEqual(lost.slice(0, 2), ["x.0 [7]", "x.1 [] abort 1"], "nobody is left to say it");
  told.come("b");
  assert.deepEqual(told.sent(), ["a abort 0 -1", "b add 1 0:[7]"]);
  told.model.post({ type: "abort", callId: "x", index: -1 });
  told.model.post({ type: "abort", callId: "x", index: -1 });
  assert.deepEqual(told.sent(), ["b abort 1 -1"]);
  assert.deepEqual(told.way("x").slice(-2), ["answer by b", "end abort 1 "], "once");
  await told.said();

  told.cluster.members.onLost("b", "it left");
  await told.said();
  told.model.post(addOf("y", { n: 2 }));
  told.model.post({ type: "abort", callId: "y", index: 0 });
  assert.deepEqual(await told.said(), ["y.0 [] abort 0"]);
  told.model.post({ type: "abort", callId: "y", index: 1 });
  assert.deepEqual(await told.said(), ["y.1 [] abort 0"]);
  told.model.post(addOf("z"));
  told.model.post({ type: "abort", callId: "z", index: -1 });
  told.come("c");
  assert.deepEqual(told.sent(), [], "nobody waits for them any more");
  assert.deepEqual(
    [told.way("y"), told.way("z")],
    [
      ["waiting", "end abort 0 "],
      ["waiting", "end abort 0 "],
    ],
  );
});

test("one that replicas refuse goes to the others; all full is an error before it has begun", async () => {
  using told = new Told();
  told.come("a", { load: { tokensPerSecond: 5000 } });
  told.come("b", { load: { tokensPerSecond: 100 } });
  await told.said();
  told.model.post(addOf("x"));
  const refused = { error: { code: "queue_full", details: {} } };
  told.output("a", { id: "0", ...refused });
  assert.deepEqual(told.sent(), ["a add 0 n=1 max=10", "b add 1 n=1 max=10"]);
  assert.deepEqual(await told.said(), []);
  told.output("b", { id: "1", ...refused });
  assert.deepEqual(await told.said(), ["x.0 [] queue_full"]);
  assert.deepEqual(told.way("x").slice(-2), [
    "lost b The queue holds {value} requests, its limit is {limit}. Retry later. 0",
    "end queue_full 0 ",
  ]);
  told.model.post(addOf("y"));
  told.output("a", { id: "2", error: { code: "no_token_left", details: { index: 1 } } });
  assert.deepEqual(await told.said(), ["y.0 [] no_token_left"]);
  assert.equal(told.way("y").at(-1), "end no_token_left 0 ");
  assert.equal(told.cluster.router.numCalls, 0);
});

test("what a replica said is asked for again when something before it was lost; a request that kills replicas is given up", async () => {
  using told = new Told();
  told.come("a");
  await told.said();
  told.model.post(addOf("x"));
  told.output("a", { id: "0", tokens: [7] });
  told.sent();
  told.output("a", { id: "0", at: 2, tokens: [9] });
  assert.deepEqual(told.sent(), ["a abort 0 -1", "a add 1 0:[7]"]);
  told.output("a", { id: "0", at: 1, tokens: [8] });
  assert.deepEqual(await told.said(), ["x.0 [7]"], "the first attempt is of no use any more");
  const dead = (id: string) => told.output("a", { id, error: { code: "engine_dead", details: { reason: "x." } } });
  assert.equal(told.cluster.router.numCalls, 1);
  for (const id of ["1", "2", "3"]) dead(id);
  assert.deepEqual(await told.said(), []);
  dead("4");
  assert.deepEqual(await told.said(), ["x.0 [] replicas_lost"]);
  assert.deepEqual([told.cluster.router.numCalls, told.way("x").at(-1)], [0, "end replicas_lost 1 "]);
  told.model.post(addOf("y", { n: 2 }));
  told.output("a", { id: "5", tokens: [7] }, { id: "5", index: 1, tokens: [8] });
  told.cluster.line.hear("a", { type: "gone", ids: ["5"] });
  told.sent();
  for (const id of ["6", "8", "9", "a"]) dead(id);
  assert.deepEqual(told.sent(), ["a add 8 0:[7]", "a add 9 0:[7]", "a add a 0:[7]", "a abort 7 -1"], "so is all of it");
  assert.equal(told.cluster.router.numCalls, 0);
});

test("without a replica requests wait for so long; an answer that has begun does not go on at another version", async () => {
  using told = new Told({ patienceMs: 0 });
  await told.said();
  told.model.post(addOf("x"));
  const heard: unknown[] = [];
  const hears = (what: string) => async () => {
    heard.push(...(await told.said()).filter((one) => typeof one === "string"));
    return heard.includes(what);
  };
  await until(hears("x.0 [] no_replica"), "it is given up");
  told.come("a");
  told.model.post(addOf("y"));
  told.output("a", { id: "0", tokens: [7] });
  told.come("b", { facts: { identity: "another" } });
  told.cluster.members.onLost("a", "it left");
  await until(hears("y.0 [] replicas_replaced"), "it is given up");
  assert.deepEqual(told.way("y").slice(2), ["lost a it left 1", "waiting", "end replicas_replaced 1 "]);
});

test("patience is counted from when a request lost its last replica, by the clock", async (t) => {
  let nowMs = 50_000;
  t.mock.method(performance, "now", () => nowMs);
  using told = new Told({ patienceMs: 1000 });
  await told.said();
  const outcomes = async () => (await told.said()).filter((one) => typeof one === "string");
  /** Has the waiting looked at. */
  const look = (id: string) => told.come(id, { model: "another" });
  told.model.post(addOf("x"));
  nowMs += 1000;
  look("1");
  assert.deepEqual(await outcomes(), [], "just as long as it may");
  nowMs += 1;
  look("2");
  assert.deepEqual(await outcomes(), ["x.0 [] no_replica"]);
  told.come("a");
  told.model.post(addOf("y"));
  told.output("a", { id: "0", tokens: [7] });
  nowMs += 5000;
  told.cluster.members.onLost("a", "it left");
  nowMs += 1000;
  look("3");
  assert.deepEqual(await outcomes(), ["y.0 [7]"], "it has waited since then");
  nowMs += 1;
  look("4");
  assert.deepEqual(await outcomes(), ["y.0 [] no_replica"]);

  using patient = new Told({ patienceMs: 1000, prefillTokens: 200 });
  const facts = { pageBytes: 4 };
  patient.come("p", { role: "prefill", exchangesPages: true, facts });
  patient.come("a", { exchangesPages: true, facts });
  patient.model.post(addOf("z", { length: 200 }));
  nowMs += 5000;
  for (const id of ["p", "a"]) patient.come(id, { exchangesPages: true, facts, state: "draining" });
  patient.output("p", { id: "0", finishReason: "length" });
  nowMs += 1000;
  patient.come("5", { model: "another" });
  const said = async () => (await patient.said()).filter((one) => typeof one === "string");
  assert.deepEqual(await said(), [], "it has waited since its prompt was computed");
  nowMs += 1;
  patient.come("6", { model: "another" });
  assert.deepEqual(await said(), ["z.0 [] no_replica"]);
});

test("one that is closed hears of no replica any more, and nothing of it is left", async () => {
  const numTimers = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
  using told = new Told();
  const before = numTimers();
  await told.said();
  await told.model.close();
  assert.equal(numTimers(), before - 1);
  told.come("a");
  assert.deepEqual(await told.said(), []);
});

test("one that waits is taken up when a replica comes that can hold it", async () => {
  using told = new Told();
  told.come("small", { facts: { maxContext: 18 } });
  await told.said();
  told.model.post(addOf("x"));
  assert.deepEqual(told.sent(), []);
  told.come("large", { facts: { maxContext: 19 } });
  assert.deepEqual(told.sent(), ["large add 0 n=1 max=10"]);
  told.cluster.line.isConnected = false;
  told.model.post(addOf("y"));
  assert.deepEqual(told.sent(), []);
  told.cluster.line.isConnected = true;
  const later: string[] = [];
  await until(() => later.push(...told.sent()) > 0, "it is looked at again by itself");
  assert.deepEqual(later, ["large add 1 n=1 max=10"]);
  await told.model.close();
  assert.deepEqual(told.sent(), ["large abort 0 -1", "large abort 1 -1"]);
});

test("a long prompt is computed by a prefill replica first, and answered whatever becomes of that", async () => {
  using told = new Told({ prefillTokens: 200 });
  const facts = { pageBytes: 4 };
  told.come("p", { role: "prefill", exchangesPages: true, facts });
  told.come("a", { exchangesPages: true, facts });
  await told.said();
  told.model.post(addOf("x", { length: 200 }));
  assert.deepEqual(told.sent(), ["p add 0 n=1 max=0"]);
  told.output("p", { id: "0", tokens: [] });
  assert.deepEqual(told.sent(), []);
  told.output("p", { id: "0", finishReason: "length" });
  assert.deepEqual([told.sent(), told.cluster.router.numPrefilled], [["a add 1 n=1 max=10"], 1]);
  told.model.post(addOf("y", { length: 200, salt: "s" }));
  told.output("p", { id: "2", finishReason: "error", error: { code: "invalid_value", details: {} } });
  assert.deepEqual([told.sent(), told.cluster.router.numPrefilled], [["p add 2 n=1 max=0", "a add 3 n=1 max=10"], 1]);
  told.model.post(addOf("z", { length: 200, salt: "t" }));
  told.cluster.members.onLost("p", "it left");
  assert.deepEqual(told.sent(), ["p add 4 n=1 max=0", "p abort 4 -1", "a add 5 n=1 max=10"]);
  told.model.post(addOf("short", { length: 199 }));
  assert.deepEqual(told.sent(), ["a add 6 n=1 max=10"]);
  assert.deepEqual(told.way("x"), ["prefill by p", "prefilled p", "answer by a"]);
});

test("a call with media is refused: their rows are not carried to replicas", () => {
  using told = new Told();
  told.come("a");
  const media = [{ start: 0, end: 1, id: new Int32Array(4), rows: new Float32Array(2) }];
  assert.throws(() => told.model.post({ ...addOf("c"), media }), { code: "invalid_value" });
  assert.deepEqual(told.sent(), []);
});
