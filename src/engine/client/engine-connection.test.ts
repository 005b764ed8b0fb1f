// Calls and questions on a line whose host says what the test wants said.

import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";
import { OutputWriter, type RequestOutput } from "../../../test/support/outputs.js";
import { engineConfig } from "../../config/engine-config.js";
import type { PagodaError } from "../../core/errors.js";
import type { LogitsHook } from "../../sampler/sampler.js";
import { type AddMessage, type EngineFacts, type FromEngine, type ToEngine, toWire } from "../messages.js";
import type { StepColumns } from "../outputs.js";
import { EngineConnection } from "./engine-connection.js";
import { RelayReader } from "./relay.js";

const FACTS = { architecture: "A" } as EngineFacts;
const dead = (reason: string): FromEngine => ({ type: "dead", error: toWire(new Error(reason), "engine_dead") });

function lineOf(maxQueue = 8) {
  const posted: [ToEngine, LogitsHook | null][] = [];
  const listeners: ((message: FromEngine) => void)[] = [];
  const progress: [number, number][] = [];
  let numClosed = 0;
  const line = new EngineConnection(
    engineConfig({ model: "m", maxQueue }),
    (_config, listener) => {
      listeners.push(listener);
      return {
        post: (message, hook) => posted.push([message, hook]),
        close: async () => {
          numClosed++;
        },
      };
    },
    (...loaded) => progress.push(loaded),
  );
  const rejected: unknown[] = [];
  line.ready.catch((error) => rejected.push(error));
  /** What the thread that was started last says. */
  const say = (message: FromEngine) => listeners.at(-1)!(message);
  const heard: string[] = [];
  const open = (callId: string, options: Parameters<EngineConnection["open"]>[2] = {}) => {
    const reader = new RelayReader(line.channelFor(callId), 1, (output) =>
      heard.push(`${callId} ${"callId" in output ? (output.note.finishReason ?? "token") : reasonOf(output)}`),
    );
    line.open({ type: "add", callId } as AddMessage, reader, options);
  };
  const outputs = new OutputWriter();
  const give = (callId: string, finishReason: RequestOutput["finishReason"]) =>
    say(outputs.message([{ callId, finishReason }]));
  const types = () =>
    posted.splice(0).map(([message]) => ("callId" in message ? `${message.type} ${message.callId}` : message.type));
  return {
    line,
    posted,
    listeners,
    progress,
    rejected,
    say,
    heard,
    open,
    outputs,
    give,
    types,
    numClosed: () => numClosed,
  };
}

function readyLine(maxQueue?: number) {
  const all = lineOf(maxQueue);
  all.say({ type: "ready", facts: FACTS });
  return all;
}

const reasonOf = (error: PagodaError) => `${error.code}: ${error.details.reason ?? ""}`;
const turn = () => new Promise((resolve) => setImmediate(resolve));
const held = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;

test("a line is ready when its host says so, and hears how far loading is", async () => {
  const before = held();
  const { line, progress, say } = lineOf();
  assert.deepEqual(line.health(), { state: "restarting", restarts: 0, lastError: null });
  assert.equal(held(), before + 1, "loading keeps the process alive");
  say({ type: "progress", loadedBytes: 3, totalBytes: 9 });
  assert.deepEqual(progress, [[3, 9]]);
  say({ type: "ready", facts: FACTS });
  await line.ready;
  assert.equal(line.facts, FACTS);
  assert.deepEqual(line.health(), { state: "ready", restarts: 0, lastError: null });
  assert.equal(held(), before);
  say({ type: "away", reason: "no replica" });
  assert.deepEqual(line.health(), { state: "away", restarts: 0, lastError: "no replica" });
  say({ type: "away", reason: null });
  assert.equal(line.health().state, "ready");
});

test("calls under way hold the pictures that they name, each once, until they end", () => {
  const { line, give } = readyLine();
  const medium = (id: number, bytes: number) => ({
    picture: { id: Int32Array.of(id, 0, 0, 0), frame: { pixels: new Float32Array(bytes / 4) } },
  });
  const start = (callId: string, ...media: object[]) => {
    const reader = new RelayReader(line.channelFor(callId), 1, () => undefined);
    line.open({ type: "add", callId, media } as unknown as AddMessage, reader, {});
  };
  start("a", medium(1, 40), medium(1, 40), medium(2, 8));
  start("b", medium(2, 8), { rows: new Float32Array(9) });
  assert.equal(line.pictureBytes, 48);
  give("a", "stop");
  assert.equal(line.pictureBytes, 8);
  give("b", "stop");
  assert.equal(line.pictureBytes, 0);
});

test("a call is sent with its hook, hears its outputs until it ends, and counts meanwhile", () => {
  const before = held();
  const { line, posted, open, outputs, give, heard, say } = readyLine(2);
  const editLogits = () => {};
  open("a", { editLogits });
  open("b");
  assert.deepEqual(
    posted.map(([message, hook]) => [(message as AddMessage).callId, hook]),
    [
      ["a", editLogits],
      ["b", null],
    ],
  );
  assert.deepEqual([line.has("a"), line.has("c"), line.numCalls, held()], [true, false, 2, before + 1]);
  assert.throws(() => open("c"), { code: "queue_full", message: /holds 2 requests, its limit is 2/ });
  assert.equal(line.numCalls, 2);
  const [handles, starts, queryLens] = [Int32Array.of(1, 0), Int32Array.of(8, 0), Int32Array.of(1, 4)];
  const step = { step: 5, handles, starts, queryLens } as unknown as StepColumns;
  say(outputs.message([{ callId: "gone" }, { callId: "b" }, { callId: "a" }], step));
  assert.deepEqual(heard.splice(0), ["b token", "a token"]);
  const rows = [
    { id: "b", start: 8, queryLen: 1, contextLen: 9, isPrefill: false },
    { id: "gone", start: 0, queryLen: 4, contextLen: 4, isPrefill: false },
  ];
  assert.deepEqual(structuredClone(line.log.history()), [{ step: 5, rows }]);
  give("a", "stop");
  give("a", "stop");
  assert.deepEqual([heard, line.has("a"), line.log.history().length], [["a stop"], false, 1]);
  open("c");
  give("b", "length");
  assert.equal(held(), before + 1, "one is under way");
  give("c", "length");
  assert.deepEqual([held(), line.numCalls], [before, 3]);
});

test("a caller's signal ends its call, at once or later, and is listened to no longer than that", async () => {
  const { open, heard, give, types } = readyLine();
  const [first, second, third] = [new AbortController(), new AbortController(), AbortSignal.abort()];
  open("a", { signal: first.signal });
  open("b", { signal: second.signal });
  open("c", { signal: third });
  assert.deepEqual(heard, []);
  await turn();
  assert.deepEqual(heard.splice(0), ["c aborted: "]);
  first.abort();
  assert.deepEqual(heard.splice(0), ["a aborted: "]);
  give("b", "stop");
  assert.equal(getEventListeners(second.signal, "abort").length, 0);
  second.abort();
  assert.deepEqual(heard, ["b stop"]);
  assert.deepEqual(types(), ["add a", "add b", "add c", "abort c", "abort a"]);
});

test("a question is answered under its number; without a host it is refused at once", async () => {
  const before = held();
  const { line, posted, say, types } = readyLine();
  const answers = [0, 1].map(() => line.request<string>((seq) => ({ type: "query", seq, what: "stats", rows: [] })));
  assert.deepEqual(
    posted.map(([message, hook]) => [(message as { seq: number }).seq, hook]),
    [
      [0, null],
      [1, null],
    ],
  );
  assert.equal(held(), before + 1);
  say({ type: "reply", seq: 1, value: "one" });
  assert.equal(held(), before + 1);
  say({ type: "reply", seq: 0, value: "zero" });
  say({ type: "reply", seq: 7, value: "nobody's" });
  assert.deepEqual(await Promise.all(answers), ["zero", "one"]);
  assert.equal(held(), before);
  line.send({ type: "warm" });
  types();
  const waiting = line.request((seq) => ({ type: "query", seq, what: "cache", rows: [] }));
  say(dead("it died"));
  await assert.rejects(waiting, { code: "engine_dead", message: /it died/ });
  await assert.rejects(
    line.request((seq) => ({ type: "query", seq, what: "cache", rows: [] })),
    { code: "engine_dead" },
  );
  line.send({ type: "warm" });
  assert.deepEqual(types(), ["query"], "what is told meanwhile is lost");
  say({ type: "ready", facts: FACTS });
});

test("when the thread dies, calls that had begun fail, and the others are sent to the next one", async () => {
  const before = held();
  const { line, listeners, open, heard, give, types, posted, say } = readyLine();
  const editLogits = () => {};
  const changes: unknown[] = [];
  line.watchPrefixes((change) => changes.push(change));
  open("begun");
  open("kept", { editLogits });
  give("begun", null);
  assert.deepEqual(types(), ["watch_prefixes", "add begun", "add kept"]);
  say(dead("it died"));
  assert.deepEqual(heard.splice(0), ["begun token", `begun engine_dead: ${line.health().lastError}`]);
  assert.deepEqual([line.health().state, line.health().restarts, listeners.length], ["restarting", 1, 2]);
  assert.match(line.health().lastError!, /it died/);
  open("meanwhile");
  assert.deepEqual(types(), ["abort begun"], "nothing is sent to what is not ready");
  say({ type: "ready", facts: { ...FACTS, architecture: "B" } });
  await turn();
  assert.deepEqual(
    posted.map(([message, hook]) => ["callId" in message ? message.callId : message.type, hook]),
    [
      ["watch_prefixes", null],
      ["kept", editLogits],
      ["meanwhile", null],
    ],
  );
  assert.deepEqual([line.health().state, line.facts.architecture], ["ready", "B"]);
  const change = { isSnapshot: true, changes: new Int32Array(3) };
  say({ type: "prefixes", change });
  assert.deepEqual(changes, [change]);
  give("kept", "stop");
  give("meanwhile", "stop");
  assert.deepEqual([heard, held()], [["kept stop", "meanwhile stop"], before]);
});

test("three deaths in a row are survived; only an answer that ends well begins the count again", async () => {
  const before = held();
  const { line, open, give, heard, say } = readyLine();
  const die = async () => {
    say(dead("it died"));
    if (line.health().state === "restarting") say({ type: "ready", facts: FACTS });
    await turn();
    return line.health().state;
  };
  const end = (reason: "stop" | "length" | "abort" | "error") => {
    open(reason);
    give(reason, reason);
  };
  assert.deepEqual([await die(), await die(), await die()], ["ready", "ready", "ready"]);
  end("length");
  assert.deepEqual([await die(), await die(), await die()], ["ready", "ready", "ready"]);
  end("stop");
  assert.deepEqual([await die(), await die(), await die()], ["ready", "ready", "ready"]);
  end("abort");
  end("error");
  open("last");
  heard.length = 0;
  assert.equal(await die(), "dead");
  assert.equal(line.health().restarts, 9);
  assert.deepEqual(heard, [`last engine_dead: ${line.health().lastError}`]);
  assert.throws(() => open("late"), { code: "engine_dead", message: /it died/ });
  assert.equal(held(), before, "a dead engine keeps nobody alive");
});

test("a load that fails is the end", async () => {
  const before = held();
  const { line, rejected, open, say, listeners } = lineOf();
  say(dead("no memory"));
  await turn();
  assert.match((rejected[0] as Error).message, /no memory/);
  assert.deepEqual([line.health().state, line.health().restarts, listeners.length], ["dead", 0, 1]);
  assert.throws(() => open("a"), { code: "engine_dead", message: /no memory/ });
  assert.equal(held(), before);
});

test("close ends calls, questions and followers, once, and nothing said later wakes it", async () => {
  const before = held();
  const { line, open, heard, say, numClosed } = readyLine();
  open("a");
  const question = assert.rejects(
    line.request((seq) => ({ type: "query", seq, what: "stats", rows: [] })),
    /it was closed/,
  );
  const following = line.log.follow().next();
  await Promise.all([line.close(), line.close()]);
  await question;
  assert.equal((await following).done, true);
  assert.deepEqual([heard, numClosed(), line.health().state], [["a engine_dead: it was closed."], 1, "closed"]);
  assert.throws(() => open("b"), { code: "engine_dead", message: /it was closed/ });
  say(dead("late"));
  say({ type: "ready", facts: FACTS });
  assert.deepEqual([line.health().state, line.health().restarts, held()], ["closed", 0, before]);
});

test("a host sleeps when nothing is under way; what is asked wakes it, and waits until it is there", async () => {
  const { line, say, open, types, give, heard, listeners, numClosed } = readyLine();
  open("a");
  assert.equal(await line.sleep(), false, "a call is under way");
  give("a", "stop");
  types();
  assert.deepEqual([await line.sleep(), line.health().state, numClosed()], [true, "asleep", 1]);
  assert.equal(await line.sleep(), true);
  open("b");
  assert.equal(line.health().state, "restarting");
  const asked = line.request((seq) => ({ type: "query", seq, what: "stats", rows: [] }));
  asked.catch(() => undefined);
  await turn();
  assert.deepEqual([listeners.length, types()], [2, []]);
  say({ type: "ready", facts: FACTS });
  await turn();
  assert.deepEqual(types(), ["add b"]);
  give("b", "length");
  assert.deepEqual([heard.splice(0), line.health().state], [["a stop", "b length"], "ready"]);
  await line.sleep();
  const question = line.request<string>((seq) => ({ type: "query", seq, what: "stats", rows: [] }));
  await turn();
  say({ type: "ready", facts: FACTS });
  await turn();
  say({ type: "reply", seq: 0, value: "stats" });
  assert.deepEqual([types(), await question], [["query"], "stats"]);
  await line.sleep();
  open("c");
  await line.close();
  await turn();
  assert.deepEqual(
    [listeners.length, heard.splice(0)[0]!.split(":")[0]],
    [3, "c engine_dead"],
    "none is started any more",
  );
});
