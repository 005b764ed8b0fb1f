import assert from "node:assert/strict";
import { test } from "node:test";
import { IdleTimer } from "./idle-timer.js";

function timerOf(seconds: number | null, answers: readonly boolean[] = []) {
  const left = [...answers];
  let numFired = 0;
  const timer = new IdleTimer(seconds, () => {
    numFired++;
    return left.shift() ?? true;
  });
  return { timer, fired: () => numFired };
}

test("it fires once nothing was asked for so long since the last call, and again until there is something to do", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let nowMs = 0;
  t.mock.method(performance, "now", () => nowMs);
  const pass = (ms: number) => {
    nowMs += ms;
    t.mock.timers.tick(ms);
  };
  const { timer, fired } = timerOf(10, [false, true]);
  assert.equal(timer.endMs, null, "it is busy at first");
  timer.mark(false);
  pass(9999);
  timer.mark(false); // a look is no call
  assert.deepEqual([fired(), timer.endMs], [0, 10_000]);
  timer.mark(true);
  pass(60_000);
  timer.mark(false);
  pass(9999);
  assert.equal(fired(), 0);
  pass(1);
  assert.equal(fired(), 1);
  pass(1000);
  assert.equal(fired(), 2, "the first time something was under way");
  pass(60_000);
  assert.equal(fired(), 2);
  timer.set(null);
  assert.equal(timer.endMs, null);
  timer.set(5);
  pass(4999);
  timer.set(5);
  pass(4999);
  assert.equal(fired(), 2, "who sets it begins anew");
  timer.stop();
  pass(60_000);
  assert.equal(fired(), 2);
});

test("never is never, and at once is at once", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { timer, fired } = timerOf(null);
  timer.mark(false);
  t.mock.timers.tick(1e9);
  assert.equal(fired(), 0);
  timer.set(0);
  t.mock.timers.tick(0);
  assert.equal(fired(), 1);
});
