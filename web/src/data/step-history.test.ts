import assert from "node:assert/strict";
import { test } from "node:test";
import { stepOf } from "./step-fixture.js";
import { MAX_STEPS, StepHistory } from "./step-history.js";

const numbers = (log: StepHistory) => log.view.map(({ record }) => record.step);

test("keeps the last thousand", () => {
  const log = new StepHistory();
  for (let i = 0; i < 3000; i++) log.add(stepOf(i, []));
  assert.equal(log.view.length, MAX_STEPS);
  assert.equal(numbers(log)[0], 3000 - MAX_STEPS);
});

test("paused, the view stays while steps come; resumed, it shows them", () => {
  const log = new StepHistory();
  log.reset([stepOf(4, []), stepOf(5, [])]);
  log.pause();
  for (let i = 6; i < 2000; i++) log.add(stepOf(i, []));
  assert.deepEqual(numbers(log), [4, 5]);
  assert.equal(log.latest?.step, 1999);
  log.resume();
  assert.equal(log.view.at(-1)?.record.step, 1999);
});

test("an engine that counts from 0 again begins a new history", () => {
  const log = new StepHistory();
  for (let i = 0; i < 5; i++) log.add(stepOf(i, []));
  log.add(stepOf(0, []));
  assert.deepEqual(numbers(log), [0]);
});
