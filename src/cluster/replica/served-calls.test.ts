import assert from "node:assert/strict";
import { test } from "node:test";
import { SAMPLING_DEFAULTS } from "../../core/sampling.js";
import { CallQueue } from "./call-queue.js";
import { ServedCall, ServedCalls } from "./served-calls.js";

let numCalls = 0;
const callOf = (priority: number, { isResumed = false, router = "r", numTokens = 3 } = {}): ServedCall =>
  new ServedCall(router, {
    type: "add",
    id: String(numCalls++),
    kind: "generate",
    prompt: Array.from({ length: numTokens }, (_, i) => i),
    sampling: { ...SAMPLING_DEFAULTS, maxTokens: 10, seed: 1 },
    priority,
    salt: "",
    constraint: null,
    leaseMs: 1000,
    resumed: isResumed ? { index: 1, tokens: [5, 6] } : null,
  });

test("slots are filled best first; when all places are taken the worst that waits gives way to a better one, and to nobody else", () => {
  const calls = new ServedCalls({ slots: 1, maxQueued: 2 });
  const [late, soon, first] = [callOf(5), callOf(1), callOf(3)];
  for (const call of [late, soon, first]) {
    assert.equal(calls.inTheWayOf(call), null);
    calls.add(call);
  }
  assert.equal(calls.runNext(), soon);
  assert.equal(calls.runNext(), undefined, "its one slot is taken");
  first.abort(-1); // who waits has nothing in the engine to end
  assert.ok(calls.isFull);
  assert.throws(() => calls.inTheWayOf(callOf(5)), { code: "queue_full", details: { value: 3, limit: 3 } });
  assert.equal(calls.inTheWayOf(callOf(4)), late);
  assert.equal(calls.inTheWayOf(callOf(9, { isResumed: true })), null, "it was let in long ago");
  assert.deepEqual([calls.remove(late), calls.remove(late), calls.isFull], [true, false, false]);
  assert.equal(calls.runNext(), undefined, "who waited leaves no slot behind");
  calls.remove(soon);
  assert.equal(calls.runNext(), first);
});

test("a call that goes on has a place at once, and knows what was sent of it", () => {
  const calls = new ServedCalls({ slots: 1, maxQueued: 0 });
  const resumed = callOf(0, { isResumed: true });
  calls.add(resumed);
  assert.ok(resumed.isRunning && calls.has(resumed));
  assert.deepEqual([resumed.numSent[1], calls.get("r", resumed.id)], [2, resumed]);
  calls.add(callOf(0));
  assert.equal(calls.runNext(), undefined);
});

test("what is to be done is told for all routers and for each; what has begun is not", () => {
  const calls = new ServedCalls({ slots: 4, maxQueued: 4 });
  const begun = callOf(0, { router: "a", numTokens: 100 });
  begun.hasBegun = true;
  for (const call of [begun, callOf(2, { router: "a", numTokens: 10 }), callOf(2, { router: "b", numTokens: 7 })])
    calls.add(call);
  const { calls: all, callsOf } = calls.load();
  assert.deepEqual([all.count, callsOf.a!.count, callsOf.b!.count], [3, 2, 1]);
  const tokens = (load: typeof all): number => load.queued.reduce((sum, [, , numTokens]) => sum + numTokens, 0);
  assert.deepEqual([tokens(all), tokens(callsOf.a!), tokens(callsOf.b!)], [17, 10, 7]);
});

test("how long calls stay is a mean of late, by the clock", (t) => {
  let nowMs = 100;
  t.mock.method(performance, "now", () => nowMs);
  const calls = new ServedCalls({ slots: 4, maxQueued: 4 });
  assert.equal(calls.load().meanCallMs, 1000, "until one was seen");
  const [first, second] = [callOf(0), callOf(0)];
  calls.add(first);
  calls.add(second);
  nowMs = 600;
  calls.remove(first);
  assert.equal(calls.load().meanCallMs, 950);
  nowMs = 2100;
  calls.remove(second);
  calls.remove(second);
  assert.equal(calls.load().meanCallMs, 1055);
});

test("a queue gives the best, then the first that came; who leaves takes nobody along", () => {
  const queue = new CallQueue<{ name: string; priority: number }>();
  const [a, b, c, d] = [1, 1, 0, 1].map((priority, i) => ({ name: "abcd"[i]!, priority }));
  for (const call of [a!, b!, c!, d!]) queue.add(call);
  assert.equal(queue.worst, d);
  queue.remove(a!);
  queue.remove(a!);
  assert.deepEqual(
    [queue.size, queue.takeBest(), queue.takeBest(), queue.takeBest(), queue.takeBest()],
    [3, c, b, d, undefined],
  );
});
