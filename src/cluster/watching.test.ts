// What a router remembers for those who look at it.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Candidate } from "./router/choose.js";
import { Journeys } from "./router/journeys.js";
import { PrefixHeat } from "./router/prefix-heat.js";
import { RecentTimes } from "./router/recent-times.js";

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

test("the hottest are those that most tokens of requests began with, and of two alike the one that more asked for", () => {
  const heat = new PrefixHeat();
  const prompt = new Int32Array(40);
  const runs: [keys: number[], count: number][] = [
    [[1], 9], // 9 times 2 tokens
    [[10, 11, 12, 13], 3], // 3 times 8
    [[20, 21, 22], 4], // 4 times 6
    [[30, 31], 2], // 2 times 4
  ];
  for (const [keys, count] of runs) for (let i = 0; i < count; i++) heat.note("m", prompt, 2, keys, 0);
  assert.deepEqual(
    heat.hottest(9).map(({ key, requests }) => [key, requests]),
    [
      [22, 4],
      [13, 3],
      [1, 9],
      [31, 2],
    ],
  );
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

test("a way that begins again is the newest; waiting is told once at a time; the seven best of the others are shown", () => {
  const journeys = new Journeys();
  const beforeMs = performance.now();
  for (const id of ["a", "b", "a"]) journeys.begin(id, "m", 10);
  const candidates = Array.from({ length: 10 }, (_, i) => ({
    ...{
      id: `r${i}`,
      heldTokens: 0,
      calls: 0,
      slots: 1,
      maxQueued: 1,
      backlogTokens: i,
      tokensPerSecond: 1000,
      meanCallMs: 1,
    },
  }));
  const waiting = { type: "waiting" } as const;
  journeys.note("a", waiting);
  journeys.note("a", waiting);
  journeys.note("a", { chosen: candidates[0]!, candidates, task: "answer" });
  journeys.note("a", waiting);
  const [first, second, ...rest] = journeys.list();
  assert.deepEqual([first!.id, second!.id, rest], ["a", "b", []]);
  assert.deepEqual(
    first!.events.map(({ type }) => type),
    ["waiting", "chosen", "waiting"],
  );
  const chosen = first!.events[1]!;
  assert.ok(chosen.type === "chosen");
  assert.deepEqual(
    chosen.alternatives.map(({ replica }) => replica),
    ["r1", "r2", "r3", "r4", "r5", "r6", "r7"],
  );
  assert.ok(first!.events.every(({ atMs }) => atMs >= 0 && atMs <= performance.now() - beforeMs));
});

test("of a prompt so many pages count, of a run so many tokens are shown, and so many pages are remembered", () => {
  const heat = new PrefixHeat();
  const keys = Array.from({ length: 600 }, (_, i) => i);
  const prompt = Int32Array.from({ length: 1200 }, (_, i) => i);
  for (let i = 0; i < 2; i++) heat.note("m", prompt, 2, keys, 0);
  const [run] = heat.hottest(9);
  assert.deepEqual([run!.to, run!.tokens.length, run!.tokens[63]], [1024, 64, 63]);
  const many = new PrefixHeat();
  for (let i = 0; i < 2; i++) many.note("m", prompt, 2, [1], 0);
  for (let i = 0; i < 8191; i++) many.note("m", prompt, 2, [1000 + i], 0);
  assert.equal(many.hottest(9).length, 1);
  many.note("m", prompt, 2, [7], 0);
  assert.equal(many.hottest(9).length, 0, "the least recent is forgotten");
});

test("the hottest are those that most tokens of requests began with", () => {
  const heat = new PrefixHeat();
  const prompt = Int32Array.from({ length: 40 }, (_, i) => i);
  for (let i = 0; i < 3; i++) heat.note("m", prompt, 4, [1], 0); // 3 x 4
  for (let i = 0; i < 2; i++) heat.note("m", prompt, 4, [2, 3], 0); // 2 x 8
  for (let i = 0; i < 4; i++) heat.note("m", prompt, 4, [4], 0); // 4 x 4, and more requests
  assert.deepEqual(
    heat.hottest(3).map(({ key }) => key),
    [4, 3, 1],
  );
});
