import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";
import type { StepRecord } from "../types.js";
import { StepLog } from "./step-log.js";

const record = (step: number) => ({ step }) as StepRecord;

test("the last thousand records are kept, oldest first", () => {
  const log = new StepLog();
  for (let i = 0; i < 3; i++) log.append(record(i));
  assert.deepEqual(
    log.history().map(({ step }) => step),
    [0, 1, 2],
  );
  for (let i = 3; i < 1003; i++) log.append(record(i));
  assert.deepEqual([log.history().length, log.history()[0]!.step, log.history().at(-1)!.step], [1000, 3, 1002]);
});

test("a follower hears what comes; one that does not read loses the oldest", async () => {
  const log = new StepLog();
  log.append(record(0));
  const following = log.follow();
  const first = following.next();
  log.append(record(1));
  assert.equal((await first).value?.step, 1);
  for (let i = 2; i < 1003; i++) log.append(record(i));
  assert.equal((await following.next()).value?.step, 3, "1,001 came, a thousand are kept");
  await following.return(undefined);
});

test("a follower that is behind hears what came before the end, or before its signal", async () => {
  for (const isAborted of [true, false]) {
    const log = new StepLog();
    const controller = new AbortController();
    const seen: number[] = [];
    const following = (async () => {
      for await (const { step } of log.follow(controller.signal)) seen.push(step);
    })();
    for (let i = 0; i < 5; i++) log.append(record(i));
    if (isAborted) controller.abort();
    else log.end();
    log.append(record(5));
    await following;
    assert.deepEqual(seen.slice(0, 5), [0, 1, 2, 3, 4]);
  }
});

test("a follower that waits goes when its signal says so, or at the end", async () => {
  const log = new StepLog();
  const controller = new AbortController();
  const signalled = log.follow(controller.signal);
  const first = signalled.next();
  log.append(record(7));
  assert.equal((await first).value?.step, 7, "until then it hears what comes");
  const aborted = signalled.next();
  const left = log.follow().next();
  controller.abort();
  assert.equal((await aborted).done, true);
  assert.equal(getEventListeners(controller.signal, "abort").length, 0);
  log.end();
  assert.equal((await left).done, true);
});
