import assert from "node:assert/strict";
import { test } from "node:test";
import { HostClock, hostMsOf } from "./step-recorder.js";

test("stages begin at nothing, add up, and are forgotten; waiting is no work", () => {
  const clock = new HostClock();
  const isClear = () => Object.values(clock.ms).every((ms) => ms === 0);
  assert.equal(Object.keys(clock.ms).length, 8);
  assert.ok(isClear());
  clock.mark("plan");
  const first = clock.ms.plan;
  clock.mark("plan");
  assert.ok(first > 0 && clock.ms.plan > first);
  clock.clear();
  assert.ok(isClear());
  const start = performance.now();
  clock.begin();
  while (performance.now() < start + 4); // work
  clock.mark("launch");
  clock.mark("commit");
  const { launch, commit } = clock.ms;
  assert.ok(launch + commit <= performance.now() - start, "what is counted once is not counted again");
  const idle = performance.now();
  clock.begin();
  clock.mark("loop");
  assert.ok(clock.ms.loop <= performance.now() - idle, "what came before is nobody's");
  const times = { schedule: 1, plan: 2, stage: 4, launch: 8, wait: 16, commit: 32, deliver: 64, loop: 128 };
  assert.equal(hostMsOf(times), 239);
});
