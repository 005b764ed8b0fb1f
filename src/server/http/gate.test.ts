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

test("who is refused hears when to come back: a mean stay for each who waits, shared by the places", async () => {
  let nowMs = 0;
  const gate = new Gate({ maxConcurrent: 1, maxQueued: 1 }, () => nowMs);
  const refusal = (): Promise<object> =>
    gate.enter(0, never).then(
      () => assert.fail("there was room"),
      ({ code, details }) => ({ code, ...details }),
    );
  const expected = { code: "queue_full", value: 1, limit: 1 };
  let leave = await gate.enter(0, never);
  let next = gate.enter(0, never);
  assert.deepEqual(await refusal(), { ...expected, retryAfter: 2 }, "a second each at first");
  for (const [stayMs, retryAfter] of [
    [11_000, 4], // the mean moves by a tenth: 2000 ms
    [2000, 4],
    [3000, 5], // 2100 ms
    [1e6, 60],
  ] as const) {
    nowMs += stayMs;
    leave();
    leave = await next;
    next = gate.enter(0, never);
    assert.deepEqual(await refusal(), { ...expected, retryAfter }, `${stayMs}`);
  }
  leave();
  (await next)();

  const wide = new Gate({ maxConcurrent: 4, maxQueued: 1 });
  const inside = await Promise.all([1, 2, 3, 4].map(() => wide.enter(0, never)));
  const waiting = wide.enter(0, never);
  await assert.rejects(wide.enter(0, never), { details: { value: 1, limit: 1, retryAfter: 1 } });
  assert.deepEqual([wide.active, wide.queued, wide.isDraining], [4, 1, false]);
  inside[0]!();
  for (const leave of [...inside.slice(1), await waiting]) leave();
  assert.deepEqual([wide.active, wide.queued], [0, 0]);
});

test("one who has entered, or comes when he has left already, takes nobody's place in the queue", async () => {
  const gate = new Gate({ maxConcurrent: 1, maxQueued: 5 });
  const leave = await gate.enter(0, never);
  const gone = new AbortController();
  const first = gate.enter(0, gone.signal);
  leave();
  const leaveFirst = await first;
  const second = gate.enter(0, never);
  gone.abort();
  assert.equal(gate.queued, 1);
  await assert.rejects(gate.enter(0, gone.signal), { code: "aborted" });
  assert.equal(gate.queued, 1);
  leaveFirst();
  (await second)();
  assert.equal(gate.active, 0);
});

test("draining ends when the last has left, at once where nobody is inside", async () => {
  const gate = new Gate({ maxConcurrent: 2, maxQueued: 0 });
  const [one, other] = [await gate.enter(0, never), await gate.enter(0, never)];
  await assert.rejects(gate.enter(-1, never), { code: "queue_full" }, "nobody waits who could give way");
  let isOver = false;
  const drained = gate.drain().then(() => {
    isOver = true;
  });
  one();
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([isOver, gate.isDraining, gate.active], [false, true, 1]);
  other();
  await drained;
  await new Gate({ maxConcurrent: 1, maxQueued: 1 }).drain();
});
