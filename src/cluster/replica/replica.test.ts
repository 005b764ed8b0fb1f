import assert from "node:assert/strict";
import { test } from "node:test";
import { type RequestOutput, sampleOutput } from "../../../test/support/outputs.js";
import { ToldLine } from "../../../test/support/told-cluster.js";
import { until } from "../../../test/support/until.js";
import { type PrefixChange, prefixKey } from "../../cache/prefix-journal.js";
import { EngineDeadError, type PagodaError, RequestError } from "../../core/errors.js";
import { SAMPLING_DEFAULTS } from "../../core/sampling.js";
import type { Deliver, RelayCall, RelayEngine } from "../../engine/client/relay.js";
import type { Mailbox } from "../bus/mailbox.js";
import type { PeerPages } from "./peer-pages.js";
import { Replica } from "./replica.js";

/** A replica whose engine says what it is told to, and does nothing by itself. */
class Told implements Disposable {
  readonly line = new ToldLine();
  readonly replica: Replica;
  readonly relayed = new Map<string, { call: RelayCall; deliver: Deliver }>();
  readonly aborted: string[] = [];
  prefixes!: (change: PrefixChange) => void;
  refuses: Error | null = null;

  constructor(slots = 4, maxQueued = 4) {
    const engine = {
      watchPrefixes: (listener: (change: PrefixChange) => void) => {
        this.prefixes = listener;
      },
      relay: (call: RelayCall, deliver: Deliver) => {
        if (this.refuses !== null) throw this.refuses;
        const id = call.options.id!;
        this.relayed.set(id, { call, deliver });
        return (index: number) => void this.aborted.push(`${id} ${index}`);
      },
    };
    this.replica = new Replica(engine as unknown as RelayEngine, this.line as unknown as Mailbox, { slots, maxQueued });
  }

  add(router: string, id: string, more: object = {}): void {
    const sampling = { ...SAMPLING_DEFAULTS, maxTokens: 10, seed: 1 };
    const request = {
      kind: "generate",
      prompt: [1, 2, 3],
      sampling,
      priority: 0,
      salt: "s",
      constraint: null,
      resumed: null,
    };
    this.line.hear(router, { type: "add", id, leaseMs: 60_000, ...request, ...more });
  }

  /** The engine gives the call up. */
  failed(id: string, error: PagodaError): void {
    this.relayed.get(id)!.deliver(error, true);
  }

  output(id: string, output: Partial<RequestOutput>, isLast = false): void {
    this.relayed.get(id)!.deliver(sampleOutput({ callId: id, ...output }), isLast);
  }

  /** What was sent since the last time, once this turn is over. */
  async sent(): Promise<unknown[]> {
    await Promise.resolve();
    return this.line.taken();
  }

  [Symbol.dispose](): void {
    this.replica.close();
  }
}

const outputs = (...list: object[]) => ({ type: "outputs", outputs: list });

test("a call is relayed as it was asked for; what a step gives a router goes as one message, with what came before it counted", async () => {
  using told = new Told();
  told.add("r", "0", { client: "c", priority: 3, constraint: { kind: "regex", source: "a" } });
  told.add("r", "0");
  told.add("r", "1", { resumed: { index: 1, tokens: [7, 8] }, kind: "pool", pooling: "mean" });
  told.add("q", "0");
  const { deliver: _, ...first } = told.relayed.get("r.0")!;
  assert.deepEqual(first.call, {
    ...{ kind: "generate", prompt: [1, 2, 3], resumed: null },
    options: {
      ...{ ...SAMPLING_DEFAULTS, maxTokens: 10, seed: 1, priority: 3, salt: "s", client: "c", id: "r.0" },
      constraint: { kind: "regex", source: "a" },
    },
  });
  const second = told.relayed.get("r.1")!.call;
  assert.deepEqual(
    [second.kind, second.resumed, second.pooling, second.options.client],
    ["pool", { index: 1, tokens: Int32Array.of(7, 8) }, "mean", ""],
  );
  assert.equal("constraint" in second.options, false);
  assert.equal(told.replica.numCalls, 3);
  told.output("r.0", { tokens: [5] });
  told.output("r.1", { index: 1, tokens: [9] });
  told.output("q.0", { tokens: [6], finishReason: "stop" }, true);
  assert.deepEqual(await told.sent(), [
    ["r", outputs({ id: "0", at: 0, tokens: [5] }, { id: "1", index: 1, at: 2, tokens: [9] })],
    ["q", outputs({ id: "0", at: 0, tokens: [6], finishReason: "stop" })],
  ]);
  told.output("r.0", { tokens: [4, 3] });
  told.output("r.0", { index: 2, tokens: [1] });
  told.output("r.0", { error: { code: "no_token_left", details: {} }, finishReason: "error" }, true);
  told.output("r.0", { tokens: [2] });
  assert.deepEqual(await told.sent(), [
    [
      "r",
      outputs(
        { id: "0", at: 1, tokens: [4, 3] },
        { id: "0", index: 2, at: 0, tokens: [1] },
        { id: "0", at: 3, finishReason: "error", error: { code: "no_token_left", details: {} } },
      ),
    ],
  ]);
  const { calls, callsOf, callsFailed, callsRefused } = told.replica.load();
  assert.deepEqual([calls.count, Object.keys(callsOf), callsFailed, callsRefused], [1, ["r"], 1, 0]);
});

test("so many at once, so many waiting; the worst that waits gives way, and who leaves makes room for the next", async () => {
  using told = new Told(1, 1);
  let numFull = 0;
  told.replica.onFull = () => numFull++;
  told.add("r", "0");
  assert.equal(numFull, 0);
  told.add("r", "1", { priority: 5 });
  assert.deepEqual([[...told.relayed.keys()], numFull], [["r.0"], 1]);
  told.add("r", "2", { priority: 5 });
  told.add("r", "3", { priority: 4 });
  const full = { code: "queue_full", details: { value: 2, limit: 2 } };
  assert.deepEqual(await told.sent(), [
    [
      "r",
      outputs(
        { id: "2", at: 0, finishReason: "error", error: full },
        { id: "1", at: 0, finishReason: "error", error: full },
      ),
    ],
  ]);
  assert.deepEqual([told.replica.load().callsRefused, told.replica.load().callsFailed, numFull], [2, 0, 2]);
  told.output("r.0", { finishReason: "stop" }, true);
  assert.deepEqual([...told.relayed.keys()], ["r.0", "r.3"]);
  await told.sent();
  told.refuses = new RequestError("invalid_value", { param: "x" });
  told.add("r", "4");
  told.line.hear("r", { type: "abort", id: "3", index: -1 });
  told.refuses = new Error("odd");
  told.add("r", "5");
  assert.deepEqual((await told.sent()).at(-1), [
    "r",
    outputs(
      { id: "4", at: 0, finishReason: "error", error: { code: "invalid_value", details: { param: "x" } } },
      { id: "5", at: 0, finishReason: "error", error: { code: "step_failed", details: { reason: "odd" } } },
    ),
  ]);
  assert.deepEqual([told.replica.numCalls, told.replica.load().callsFailed, told.aborted], [0, 2, ["r.3 -1"]]);
});

test("aborts are of a sample or of all; what a router does not name is ended, what it names and is not here is gone", async () => {
  using told = new Told();
  for (const id of ["0", "1", "2"]) told.add("r", id);
  told.add("q", "7");
  told.line.hear("r", { type: "abort", id: "0", index: 1 });
  told.line.hear("r", { type: "abort", id: "0", index: 0 });
  told.line.hear("r", { type: "abort", id: "1", index: -1 });
  told.line.hear("r", { type: "abort", id: "9", index: -1 });
  assert.deepEqual([told.aborted.splice(0), told.replica.numCalls], [["r.0 1", "r.0 0", "r.1 -1"], 3]);
  told.output("r.2", { tokens: [5], finishReason: "stop" }, true);
  told.line.hear("r", { type: "open", ids: ["2", "8"], leaseMs: 60_000 });
  assert.deepEqual(told.aborted.splice(0), ["r.0 -1"]);
  assert.deepEqual(await told.sent(), [
    ["r", outputs({ id: "2", at: 0, tokens: [5], finishReason: "stop" })], // before the word that it is gone
    ["r", { type: "gone", ids: ["2", "8"] }],
  ]);
  told.line.hear("q", { type: "open", ids: ["7"], leaseMs: 60_000 });
  assert.deepEqual(await told.sent(), []);
  told.line.hear("q", { type: "open", ids: ["7", "8"], leaseMs: 60_000 });
  assert.deepEqual(await told.sent(), [["q", { type: "gone", ids: ["8"] }]]);
  told.replica.close();
  assert.deepEqual([told.aborted, told.replica.numCalls], [["q.7 -1"], 0]);
});

test("one that drains hands over at once what has not begun, and the rest when its time is up, or ends when nothing is left", async () => {
  using told = new Told(1, 4);
  told.add("r", "0");
  told.add("r", "1");
  told.output("r.0", { tokens: [5] });
  await told.sent();
  const draining = { code: "draining", details: {} };
  const numTimers = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
  const before = numTimers();
  const drained = told.replica.drain(60_000);
  assert.ok(told.replica.isDraining);
  told.add("r", "2");
  const handed = (id: string) => ({ id, at: 0, finishReason: "error", error: draining });
  assert.deepEqual(await told.sent(), [["r", outputs(handed("1"), handed("2"))]]);
  told.output("r.0", { finishReason: "stop" }, true);
  await drained;
  assert.deepEqual([...told.relayed.keys()], ["r.0"], "nothing new was begun");
  assert.equal(numTimers(), before, "none waits any more");

  using late = new Told();
  late.add("r", "0");
  late.output("r.0", { tokens: [5] });
  await late.replica.drain(1);
  assert.deepEqual(late.line.taken(), [
    ["r", outputs({ id: "0", at: 0, tokens: [5] })],
    ["r", outputs(handed("0"))],
  ]);
  assert.deepEqual(
    [late.aborted, late.replica.load().callsFailed, late.replica.load().callsRefused],
    [["r.0 -1"], 0, 0],
  );
  using idle = new Told();
  await idle.replica.drain(60_000);
});

test("a call that the engine gives up ends with its reason, and leaves its place to the next", async () => {
  using told = new Told(1, 4);
  told.add("r", "0");
  told.add("r", "1");
  told.failed("r.0", new EngineDeadError("engine_dead", { reason: "x." }));
  told.output("r.0", { tokens: [5] }); // too late
  const error = { code: "engine_dead", details: { reason: "x." } };
  assert.deepEqual(await told.sent(), [["r", outputs({ id: "0", at: 0, finishReason: "error", error })]]);
  assert.deepEqual([[...told.relayed.keys()], told.replica.load().callsFailed], [["r.0", "r.1"], 1]);
});

test("what a router says of its lease, with a call or without, holds from then on", async (t) => {
  let nowMs = 1000;
  using told = new Told();
  t.mock.method(performance, "now", () => nowMs);
  told.add("r", "0", { leaseMs: 0 });
  told.line.hear("r", { type: "open", ids: ["0"], leaseMs: 5000 });
  told.add("q", "0", { leaseMs: 5000 });
  told.line.hear("q", { type: "open", ids: ["0"], leaseMs: 100 });
  told.add("p", "0", { leaseMs: 5000 });
  nowMs += 5000;
  await until(() => told.aborted.length > 0, "one has been silent for too long");
  assert.deepEqual(told.aborted, ["q.0 -1"]);
  nowMs += 1;
  await until(() => told.aborted.length > 1, "so have the others");
  assert.deepEqual(told.aborted, ["q.0 -1", "r.0 -1", "p.0 -1"]);
});

test("calls of a router that has been silent for its lease are ended, others' are not", async () => {
  using told = new Told();
  told.add("q", "0");
  told.add("r", "0", { leaseMs: 1 });
  await until(() => told.aborted.length > 0, "it is found dead");
  assert.deepEqual([told.aborted, told.replica.numCalls], [["r.0 -1"], 1]);
});

test("prefixes are told to everybody as they change, all of them to who asks, and messages of pages go where pages are", async () => {
  using told = new Told();
  told.prefixes({ isSnapshot: true, changes: Int32Array.of(1, 5, 6, 1, 7, 8) });
  told.prefixes({ isSnapshot: false, changes: Int32Array.of(0, 5, 6, 1, 9, 9) });
  const everybody = told.line.subjects.prefixes("me");
  const message = (seq: number, isSnapshot: boolean, words: number[]) => ({
    ...{ type: "prefixes", seq, isSnapshot, changes: Buffer.from(Int32Array.from(words).buffer).toString("base64") },
  });
  told.line.hear("r", { type: "prefixes" });
  const sent = (await told.sent()) as [string, { epoch: number }][];
  const epochs = new Set(sent.map(([, { epoch }]) => epoch));
  assert.ok(epochs.size === 1 && [...epochs][0]! > 1e12);
  assert.deepEqual(
    sent.map(([to, { epoch: _, ...rest }]) => [to, rest]),
    [
      [everybody, message(0, true, [1, 5, 6, 1, 7, 8])],
      [everybody, message(1, false, [0, 5, 6, 1, 9, 9])],
      ["r", message(1, true, [1, 7, 8, 1, 9, 9])],
    ],
  );
  const { prefixes } = told.replica;
  assert.equal(prefixes.numHeld, 2);
  told.prefixes({ isSnapshot: true, changes: Int32Array.of(1, 3, 4, 1, 5, 6) });
  told.prefixes({ isSnapshot: true, changes: Int32Array.of(1, 3, 4, 1, 5, 6) });
  const [again, third] = (await told.sent()) as [string, { epoch: number; seq: number }][];
  assert.ok(again![1].epoch > [...epochs][0]! && third![1].epoch > again![1].epoch, "a new engine is never an old one");
  assert.deepEqual([again![1].seq, third![1].seq, prefixes.numHeld], [0, 0, 2]);
  const [three, five, other] = [prefixKey(3, 4), prefixKey(5, 6), prefixKey(9, 9)];
  const leading = [[], [three], [three, five], [three, other, five], [other, three]].map((keys) =>
    prefixes.numLeading(keys),
  );
  assert.deepEqual(leading, [0, 1, 2, 1, 0]);
  const heard: unknown[] = [];
  told.line.hear("peer", { type: "lent", id: "0", url: null });
  told.add("p", "0", { peer: "peer" });
  assert.deepEqual([...told.relayed.keys()], ["p.0"], "where pages cannot move it is computed");
  told.relayed.clear();
  told.replica.peers = {
    hear: (said: { type: string }, from: string) => heard.push([said.type, from]),
    fetch: (peer: string, prompt: Int32Array, salt: string) => {
      heard.push([peer, [...prompt], salt]);
      return Promise.resolve();
    },
  } as unknown as PeerPages;
  for (const said of [
    { type: "lent", id: "0", url: null },
    { type: "lend", id: "0", identity: "", prompt: [], salt: "", firstPage: 0 },
    { type: "offer", identity: "", url: "" },
  ])
    told.line.hear("peer", said);
  told.add("q", "0");
  assert.deepEqual([...told.relayed.keys()], ["q.0"], "one without a peer has nothing to wait for");
  told.relayed.clear();
  told.add("r", "0", { peer: "peer" });
  told.add("r", "1", { peer: "peer" });
  told.line.hear("r", { type: "abort", id: "1", index: -1 });
  assert.deepEqual([...told.relayed.keys()], [], "not before its pages came");
  await until(() => told.relayed.size > 0, "they came");
  assert.deepEqual([...told.relayed.keys()], ["r.0"], "unless it was aborted meanwhile");
  assert.deepEqual(heard, [
    ["lent", "peer"],
    ["lend", "peer"],
    ["offer", "peer"],
    ["peer", [1, 2, 3], "s"],
    ["peer", [1, 2, 3], "s"],
  ]);
});
