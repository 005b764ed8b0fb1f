import assert from "node:assert/strict";
import { test } from "node:test";
import { Gate } from "./gate.js";

const never = new AbortController().signal;

test("so many inside, so many waiting, by priority then arrival; the worst gives way to one that is better", async () => {
  const gate = new Gate({ maxConcurrent: 1, maxQueued: 3 });
  const leave = await gate.enter(0, never);
  const order: string[] = [];
  const come = async (name: string, priority: number) => {
    const leave = await gate.enter(priority, never);
    order.push(name);
    leave();
  };
  const all = [come("a", 5), come("b", 0), come("c", 0)];
  assert.equal(gate.queued, 3);
  await assert.rejects(gate.enter(5, never), /The queue holds 3 requests, its limit is 3/);
  const [displaced] = all.splice(0, 1, come("d", 4));
  await assert.rejects(displaced!, /its limit is 3/);
  assert.equal(gate.queued, 3);
  leave();
  leave(); // twice is once
  await Promise.all(all);
  assert.deepEqual(order, ["b", "c", "d"]);
  assert.equal(gate.active, 0);
});

test("who gives up waiting takes no place", async () => {
  const gate = new Gate({ maxConcurrent: 1, maxQueued: 5 });
  const leave = await gate.enter(0, never);
  const gone = new AbortController();
  const waiting = gate.enter(0, gone.signal);
  const other = gate.enter(0, never);
  gone.abort();
  await assert.rejects(waiting, /aborted by its caller/);
  assert.equal(gate.queued, 1);
  leave();
  (await other)();
  assert.equal(gate.active, 0);
});

test("draining refuses newcomers and waiters, and waits for those inside", async () => {
  const gate = new Gate({ maxConcurrent: 1, maxQueued: 5 });
  const leave = await gate.enter(0, never);
  const waiting = gate.enter(0, never);
  const drained = gate.drain();
  await assert.rejects(waiting, /shutting down/);
  await assert.rejects(gate.enter(0, never), /shutting down/);
  let isOver = false;
  void drained.then(() => {
    isOver = true;
  });
  await Promise.resolve();
  assert.ok(!isOver);
  leave();
  await drained;
});
