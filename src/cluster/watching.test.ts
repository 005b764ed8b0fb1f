// What a router remembers for those who look at it.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Candidate } from "./choose.js";
import { Journeys } from "./journeys.js";
import { PrefixHeat } from "./prefix-heat.js";
import { RecentTimes } from "./recent-times.js";

test("prefixes are runs of pages up to where prompts part, the hottest first; old ones are forgotten", () => {
  const heat = new PrefixHeat();
  const prompt = Int32Array.from({ length: 12 }, (_, i) => i);
  heat.note("m", prompt, 2, [1, 2, 3, 10], 0);
  heat.note("m", prompt, 2, [1, 2, 3, 11], 3);
  heat.note("m", prompt, 2, [1, 2, 20], 2);
  heat.note("m", prompt, 2, [7, 8], 0);
  const runs = () => heat.hottest(10).map(({ key, from, to, requests, hits }) => [key, from, to, requests, hits]);
  assert.deepEqual(runs(), [
    [2, 0, 4, 3, 2],
    [3, 4, 6, 2, 1],
  ]);
  assert.deepEqual(heat.hottest(1)[0]!.tokens, [0, 1, 2, 3]);
  for (let i = 0; i < 9000; i++) heat.note("m", prompt, 2, [1, 2, 1000 + i], 1);
  assert.deepEqual(runs(), [[2, 0, 4, 9003, 2]]);
});

test("a request's way has what was known at the choice; the last few ways are kept, newest first", () => {
  const journeys = new Journeys();
  const candidate = (id: string, heldTokens: number, calls = 0): Candidate => ({
    ...{ id, heldTokens, calls, slots: 1, maxQueued: 1, backlogTokens: 0, tokensPerSecond: 1000, meanCallMs: 100 },
  });
  const candidates = [candidate("full", 90, 2), candidate("cold", 0), candidate("warm", 90)];
  journeys.begin("a", "m", 100);
  journeys.note("a", { chosen: candidates[2]!, candidates, task: "answer" });
  journeys.note("a", { type: "lost", replica: "warm", reason: "it left", numTokens: 3 });
  journeys.note("unknown", { type: "waiting" });
  const [{ events }] = journeys.list() as [ReturnType<Journeys["list"]>[number]];
  const [chosen, lost] = events;
  assert.ok(chosen?.type === "chosen" && lost?.type === "lost");
  assert.deepEqual([chosen.replica, chosen.expectedMs, chosen.fetch], ["warm", 10, null]);
  assert.deepEqual(
    chosen.alternatives.map(({ replica, expectedMs, isFull }) => [replica, expectedMs, isFull]),
    [
      ["cold", 100, false],
      ["full", 220, true],
    ],
  );
  assert.ok(lost.atMs >= chosen.atMs);
  for (let i = 0; i < 100; i++) journeys.begin(`b${i}`, "m", 1);
  assert.equal(journeys.list()[0]!.id, "b99");
  assert.equal(journeys.list().length, 48);
});

test("percentiles are of the last times", () => {
  const times = new RecentTimes();
  assert.equal(times.percentile(0.5), null);
  for (let i = 1; i <= 100; i++) times.note(i);
  assert.deepEqual([times.percentile(0.5), times.percentile(0.99)], [50, 99]);
  for (let i = 0; i < 256; i++) times.note(7);
  assert.deepEqual([times.percentile(0.5), times.percentile(1)], [7, 7]);
});
