import assert from "node:assert/strict";
import { test } from "node:test";
import { Worker } from "node:worker_threads";
import { Inbox } from "./inbox.js";

test("an engine that is always ahead of its readers leaves turns to everybody else", async () => {
  // The thread has the next message on its way before one is handled: the port never runs dry.
  const counts = new Int32Array(new SharedArrayBuffer(8)); // posted, handled
  const source = `
    const { parentPort, workerData } = require("node:worker_threads");
    for (let i = 0; i < 200; i++) {
      parentPort.postMessage(i);
      Atomics.add(workerData, 0, 1);
      Atomics.notify(workerData, 0);
      for (let seen; (seen = Atomics.load(workerData, 1)) < i; ) Atomics.wait(workerData, 1, seen);
    }`;
  const heard: number[] = [];
  let heardAtTurn = -1;
  const inbox = new Inbox<number>((i) => {
    if (i === 0) setImmediate(() => (heardAtTurn = heard.length));
    heard.push(i);
    Atomics.add(counts, 1, 1);
    Atomics.notify(counts, 1);
    // What was seen, not what is there a moment later: nobody would wake who waits for a change that has come.
    for (let seen = Atomics.load(counts, 0); i < 198 && seen < i + 2; seen = Atomics.load(counts, 0))
      Atomics.wait(counts, 0, seen);
  });
  const worker = new Worker(source, { eval: true, workerData: counts });
  worker.on("message", (message) => inbox.push(message));
  await new Promise((resolve) => worker.once("exit", resolve));
  inbox.flush();
  assert.deepEqual(
    heard,
    Array.from({ length: 200 }, (_, i) => i),
  );
  assert.ok(heardAtTurn > 0 && heardAtTurn < 100, `the next turn came after ${heardAtTurn} messages`);
});

test("what has come is handled at once, in its order, and once", async () => {
  const heard: string[] = [];
  const inbox = new Inbox<string>((message) => heard.push(message));
  inbox.push("a");
  inbox.push("b");
  assert.deepEqual(heard, []);
  inbox.flush();
  assert.deepEqual(heard, ["a", "b"]);
  await new Promise((resolve) => setImmediate(resolve));
  inbox.push("c");
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(heard, ["a", "b", "c"]);
});
