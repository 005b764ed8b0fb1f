import assert from "node:assert/strict";
import { test } from "node:test";
import { OutputObjects, type RequestOutput } from "../../../test/support/outputs.js";
import { writeTinyCheckpoint } from "../../../test/support/tiny-checkpoint.js";
import { UnblockingDevice } from "../../../test/support/unblocking-device.js";
import { until } from "../../../test/support/until.js";
import { engineConfig } from "../../config/engine-config.js";
import { SAMPLING_DEFAULTS } from "../../core/sampling.js";
import type { Device } from "../../device/device.js";
import type { AddMessage, FromEngine } from "../messages.js";
import { EngineDriver } from "./driver.js";
import { loadEngine } from "./load/load.js";

const model = writeTinyCheckpoint();

async function driven(device: "null" | "reference" = "null", open?: () => Promise<Device>) {
  const engine = await loadEngine(engineConfig({ model, device, numPages: 40 }), () => {}, open);
  const sent: FromEngine[] = [];
  const outputs: RequestOutput[] = [];
  const objects = new OutputObjects();
  const driver = new EngineDriver(engine, (message) => {
    sent.push(message);
    if (message.type === "outputs") outputs.push(...objects.of(message));
  });
  const ended = (callId: string) => outputs.find((each) => each.callId === callId && each.finishReason !== null);
  const tokensOf = (callId: string) =>
    outputs.flatMap((output) => (output.callId === callId ? [...output.tokens] : []));
  return { engine, driver, sent, ended, tokensOf };
}

function call(callId: string, maxTokens: number): AddMessage {
  return {
    ...{ type: "add", callId, kind: "generate", prompt: Int32Array.of(1, 2, 3), priority: 0, salt: "", arrivalMs: 0 },
    ...{ sampling: { ...SAMPLING_DEFAULTS, ignoreEos: true, seed: 1, maxTokens }, constraint: null },
  };
}

test("steps follow each other while there is work; the time between them is the loop's, idle time is nobody's", async () => {
  const { engine, driver, sent, ended } = await driven();
  const { ms } = engine.core.recorder.clock;
  for (const name of ["one step", "one more"]) {
    driver.handle(call(name, 1));
    await until(() => ended(name) !== undefined, "its end");
    assert.equal(ms.loop, 0, "nothing came right before the step");
  }
  driver.handle(call("two steps", 2));
  await until(() => ended("two steps") !== undefined, "its end");
  for (const [stage, spent] of Object.entries(ms)) assert.ok(spent > 0, stage);
  const steps = sent.flatMap((message) => (message.type === "outputs" && message.step !== null ? [message.step] : []));
  assert.deepEqual(
    steps.map(({ tokens }) => tokens),
    [3, 3, 3, 1],
  );
  driver.handle({ type: "close" });
});

test("however many messages came, a turn of the event loop has one step", async () => {
  const { driver, sent } = await driven();
  for (const name of ["a", "b", "c"]) driver.handle(call(name, 50));
  const numSteps = () => sent.filter((message) => message.type === "outputs" && message.step !== null).length;
  for (let turn = 1; turn <= 5; turn++) {
    await new Promise((resolve) => setImmediate(resolve));
    assert.ok(numSteps() <= turn, `${numSteps()} in ${turn} turns`);
  }
  assert.ok(numSteps() > 0);
  driver.handle({ type: "close" });
});

test("a call that is aborted says so; a closed driver answers nothing more", async () => {
  const { engine, driver, sent, ended } = await driven();
  driver.handle(call("long", 400));
  driver.handle({ type: "abort", callId: "long", index: -1 });
  await until(() => ended("long") !== undefined, "its end");
  assert.equal(ended("long")!.finishReason, "abort");
  driver.handle({ type: "query", seq: 7, what: "stats", rows: [] });
  const reply = sent.at(-1)!;
  assert.ok(reply.type === "reply" && reply.seq === 7);
  assert.equal((reply.value as { requestsFinished: number }).requestsFinished, 1);
  driver.handle(call("last", 2));
  driver.handle({ type: "close" });
  const numSent = sent.length;
  driver.handle(call("late", 2));
  driver.handle({ type: "query", seq: 8, what: "stats", rows: [] });
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(sent.length, numSent);
  assert.equal(engine.core.hasWork, false);
});

test("who follows the cached prefixes hears what is there, then what comes, by steps or from another engine", async () => {
  const prompt = Int32Array.from({ length: 40 }, (_, i) => i);
  const asked = { ...call("asked", 1), prompt };
  const [one, two] = [await driven("reference"), await driven("reference")];
  const told = ({ sent }: typeof one) =>
    sent.flatMap((message) => (message.type === "prefixes" ? [message.change] : []));
  one.driver.handle({ type: "watch_prefixes" });
  assert.deepEqual(told(one), [{ isSnapshot: true, changes: new Int32Array(0) }]);
  one.driver.handle(asked);
  await until(() => told(one).length === 2, "changes");
  const [, { isSnapshot, changes }] = told(one) as [unknown, ReturnType<typeof told>[0]];
  assert.equal(isSnapshot, false);
  assert.deepEqual([changes.length, changes[0], changes[3]], [6, 1, 1], "two whole pages came");
  one.driver.handle({ type: "watch_prefixes" });
  assert.deepEqual(told(one)[2], { isSnapshot: true, changes }, "all that is held, again");
  one.driver.handle({ ...asked, callId: "other", prompt: prompt.toReversed() });
  await until(() => told(one).length === 4, "further changes");

  two.driver.handle({ type: "watch_prefixes" });
  one.driver.handle({ type: "lend_pages", seq: 1, prompt, salt: "", from: 0, maxBytes: 1e9 });
  const lent = one.sent.at(-1)!;
  assert.ok(lent.type === "reply" && lent.value instanceof Uint8Array);
  two.driver.handle({ type: "take_pages", seq: 2, prompt, salt: "", bytes: lent.value });
  await until(() => told(two).length === 2, "changes of what was taken");
  assert.deepEqual(told(two)[1], { isSnapshot: false, changes });
  for (const { driver } of [one, two]) driver.handle({ type: "close" });
});

test("a question is answered with what it asks for; a fault is where it is asked for", async () => {
  const { engine, driver, sent, ended } = await driven();
  const ask = (what: "stats" | "cache" | "plan") => {
    const rows = [{ id: "a", start: 0, queryLen: 3, contextLen: 3, isPrefill: true }];
    driver.handle({ type: "query", seq: 5, what, rows });
    const reply = sent.at(-1)!;
    assert.ok(reply.type === "reply" && reply.seq === 5);
    return reply.value as Record<string, unknown>;
  };
  assert.ok("pagesTotal" in ask("stats"));
  assert.deepEqual(ask("cache").requests, []);
  assert.equal((ask("plan") as unknown as { items: unknown[] }[])[0]!.items.length, 1);
  let numWarmed = 0;
  engine.compiler!.warm = () => numWarmed++;
  driver.handle({ type: "warm" });
  assert.equal(numWarmed, 1, "the threads of structured output are started");
  driver.handle({ type: "fault", where: "step" });
  driver.handle(call("fails", 2));
  await until(() => ended("fails") !== undefined, "its end");
  assert.equal(ended("fails")!.error!.details.reason, "injected fault");
  assert.throws(() => driver.handle({ type: "fault", where: "thread" }), /injected fault of the engine thread/);
  driver.handle({ type: "close" });
});

test("when nothing can move for now, it is tried again; a close ends what runs and gives back the device", async () => {
  const { engine, driver, sent, ended } = await driven();
  const launch = engine.core.launch.bind(engine.core);
  let numRefused = 0;
  engine.core.launch = () => (numRefused++ < 3 ? false : launch());
  driver.handle(call("waits", 1));
  await until(() => ended("waits") !== undefined, "its end");
  const isEmpty = (message: FromEngine) =>
    message.type === "outputs" && message.handles.length === 0 && message.step === null;
  assert.ok(numRefused > 3 && !sent.some(isEmpty), "and nothing is said of that");
  driver.handle(call("runs", 400));
  await until(() => engine.core.stats().pagesUsed > 0, "its first step");
  let isClosed = false;
  const close = engine.core.close.bind(engine.core);
  engine.core.close = () => {
    isClosed = true;
    close();
  };
  driver.handle({ type: "close" });
  assert.deepEqual([isClosed, engine.core.stats().pagesUsed], [true, 0]);
});

test("changes of what is cached are gathered: one timer at a time", async (t) => {
  const { driver, engine, sent } = await driven();
  const timers: (() => void)[] = [];
  t.mock.method(globalThis, "setTimeout", (callback: () => void) => {
    timers.push(callback);
    return { unref: () => {} };
  });
  driver.handle({ type: "watch_prefixes" });
  const numTold = () => sent.filter(({ type }) => type === "prefixes").length;
  const prompt = (first: number) => Int32Array.from({ length: 40 }, (_, i) => first + i);
  const runs = async (name: string, first: number) => {
    driver.handle({ ...call(name, 3), prompt: prompt(first) });
    while (engine.core.hasWork) await new Promise((resolve) => setImmediate(resolve));
    await new Promise((resolve) => setImmediate(resolve));
  };
  await runs("a", 0);
  await runs("b", 100);
  assert.deepEqual([timers.length, numTold()], [1, 1]);
  timers[0]!();
  assert.equal(numTold(), 2);
  await runs("c", 50);
  assert.equal(timers.length, 2, "the next ones have one of their own");
  driver.handle({ type: "close" });
  timers[1]!();
  assert.equal(numTold(), 2, "a closed driver says nothing");
});

test("a device that cannot block is awaited: answers are those of one that can, and aborts and faults stay with their calls", async () => {
  const device = new UnblockingDevice();
  const { engine, driver, tokensOf, ended } = await driven("reference", async () => device);
  const other = await driven("reference");
  for (const each of [driver, other.driver]) for (const name of ["a", "b"]) each.handle(call(name, 12));
  driver.handle(call("aborted", 400));
  await until(() => device.numAwaited > device.numLanded, "a flight that is awaited");
  driver.handle({ type: "abort", callId: "aborted", index: -1 });
  await until(() => ended("a") !== undefined && ended("b") !== undefined, "their ends");
  await until(() => other.ended("a") !== undefined && other.ended("b") !== undefined, "the other's ends");
  assert.deepEqual(tokensOf("a"), other.tokensOf("a"));
  assert.deepEqual(tokensOf("b"), other.tokensOf("b"));
  assert.equal(tokensOf("a").length, 12);
  await until(() => ended("aborted") !== undefined, "the abort");
  assert.equal(ended("aborted")?.finishReason, "abort");
  device.injectFault();
  driver.handle(call("fails", 5));
  await until(() => ended("fails") !== undefined, "its end");
  assert.equal(ended("fails")?.finishReason, "error");
  driver.handle(call("after", 5));
  await until(() => ended("after") !== undefined, "its end");
  assert.equal(ended("after")?.finishReason, "length");
  engine.core.checkIntegrity();
  other.driver.handle({ type: "close" });
  driver.handle({ type: "close" });
});

test("an engine that is closed while flights are awaited lands them, and closes its device once", async () => {
  const device = new UnblockingDevice();
  let numClosed = 0;
  device.close = () => {
    assert.equal(engine.core.numInFlight, 0);
    numClosed++;
  };
  const { engine, driver } = await driven("reference", async () => device);
  driver.handle(call("long", 400));
  await until(() => device.numAwaited > device.numLanded, "a flight that is awaited");
  driver.handle({ type: "close" });
  assert.equal(numClosed, 0, "it waits");
  await until(() => numClosed > 0, "the end");
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  assert.equal(numClosed, 1);
  assert.equal(engine.core.hasWork, false);
});
