import assert from "node:assert/strict";
import { test } from "node:test";
import { type Candidate, choose, expectedFirstTokenMs, retryAfterSeconds, withFetch, worthPrefill } from "./choose.js";

const candidate = (id: string, more: Partial<Candidate> = {}): Candidate => ({
  id,
  heldTokens: 0,
  calls: 0,
  slots: 8,
  maxQueued: 8,
  backlogTokens: 0,
  tokensPerSecond: 1000,
  meanCallMs: 2000,
  ...more,
});
const chosen = (candidates: readonly Candidate[], promptTokens = 1000): string | undefined =>
  choose(candidates, promptTokens, 0)?.id;

test("a held prefix wins over an idle replica, until the backlog of its holder costs more than computing it", () => {
  assert.equal(chosen([candidate("idle"), candidate("holder", { heldTokens: 900, calls: 2 })]), "holder");
  assert.equal(chosen([candidate("idle"), candidate("holder", { heldTokens: 900, backlogTokens: 800 })]), "holder");
  assert.equal(chosen([candidate("idle"), candidate("holder", { heldTokens: 900, backlogTokens: 1000 })]), "idle");
});

test("a fast machine gets more, a full one nothing, and one without a free slot costs what is waited for it", () => {
  assert.equal(chosen([candidate("slow"), candidate("fast", { tokensPerSecond: 5000, backlogTokens: 2000 })]), "fast");
  assert.equal(chosen([candidate("a", { calls: 16 }), candidate("b", { calls: 15, backlogTokens: 1e6 })]), "b");
  assert.equal(choose([candidate("a", { calls: 16 })], 10, 0), null);
  const waiting = expectedFirstTokenMs(candidate("a", { calls: 12 }), 100);
  const free = expectedFirstTokenMs(candidate("a", { calls: 4 }), 100);
  assert.ok(waiting > free + 1000, `${waiting} and ${free}`);
});

test("equals are told apart by what they hold, then by their calls, then by chance", () => {
  assert.equal(chosen([candidate("a"), candidate("b", { heldTokens: 1, calls: 1, slots: 1000 })], 2), "b");
  assert.equal(chosen([candidate("a", { calls: 1, slots: 1000 }), candidate("b", { slots: 1000 })], 10), "b");
  const twins = [candidate("a"), candidate("b"), candidate("c")];
  assert.deepEqual(
    [0, 0.4, 0.99].map((random) => choose(twins, 10, random)?.id),
    ["a", "b", "c"],
  );
});

test("a refused client is told to come when the cluster has made room", () => {
  assert.equal(retryAfterSeconds([candidate("a", { calls: 16 })]), 3); // 9 of 2 s over 8 slots
  assert.equal(retryAfterSeconds([candidate("a", { calls: 16 }), candidate("b", { calls: 16 })]), 3);
  assert.equal(retryAfterSeconds([candidate("a", { calls: 1000, meanCallMs: 60_000 })]), 60);
});

test("a prompt is computed elsewhere first when its pages come quicker than they are computed and its place is soon", () => {
  const worth = (prefill: Partial<Candidate>, bytesPerToken = 1000, here: Partial<Candidate> = {}): boolean =>
    worthPrefill(candidate("here", here), candidate("prefill", prefill), 1000, bytesPerToken);
  assert.equal(worth({}), true);
  assert.equal(worth({}, 1e6), false); // ten seconds of transfer against one of computing
  assert.equal(worth({}, 1000, { heldTokens: 990 }), false);
  assert.equal(worth({ backlogTokens: 900 }), true);
  assert.equal(worth({ backlogTokens: 1100 }), false);
  assert.equal(worth({ backlogTokens: 1100 }, 1000, { backlogTokens: 500 }), true);
});

const exact = (id: string, more: Partial<Candidate> = {}): Candidate => ({
  ...{ id, heldTokens: 0, calls: 0, slots: 2, maxQueued: 2, backlogTokens: 0, tokensPerSecond: 1000, meanCallMs: 400 },
  ...more,
});

test("the first token is expected after the wait for a place, the fetch, and what is computed beside those that answer", () => {
  const busy = exact("a", { heldTokens: 100, calls: 3, backlogTokens: 50, fetch: { peer: "b", tokens: 200, ms: 30 } });
  assert.equal(expectedFirstTokenMs(busy, 500), 400 + 30 + 500);
  assert.equal(expectedFirstTokenMs(busy, 300), 400 + 30 + 102, "the last token is always computed");
  assert.equal(expectedFirstTokenMs(exact("a", { calls: 1 }), 90), 120, "a free slot, a quarter of every step");
});

test("pages are fetched where there are enough of them and that is quicker", () => {
  const own = exact("a", { heldTokens: 100, tokensPerSecond: 800 });
  const peer = exact("b", { heldTokens: 164 });
  assert.deepEqual(withFetch(own, peer, 100_000), { ...own, fetch: { peer: "b", tokens: 64, ms: 79 } });
  assert.equal(withFetch(own, peer, 101_562.5), own, "in the same time it is computed");
  assert.equal(withFetch(own, { ...peer, heldTokens: 163 }, 1), own);
  assert.equal(withFetch(own, { ...peer, id: "a" }, 1), own);
});

test("a prompt goes by a prefill replica that makes it no later than twice", () => {
  const chosen = exact("a", { tokensPerSecond: 100 });
  const prefill = (backlogTokens: number) => exact("p", { backlogTokens });
  assert.deepEqual(
    [18_984, 18_985].map((backlog) => worthPrefill(chosen, prefill(backlog), 1000, 100)),
    [true, false],
  );
  assert.equal(worthPrefill(chosen, prefill(0), 1000, 1e9), false, "its pages would come later than they are computed");
});

test("times a millisecond apart are the same, then who holds more is taken", () => {
  const [first, same, later] = [
    exact("first", { backlogTokens: 5 }),
    exact("same", { heldTokens: 5, backlogTokens: 10 }),
    exact("later", { heldTokens: 5, backlogTokens: 11 }),
  ];
  for (const [candidates, id] of [
    [[first, same], "same"],
    [[same, first], "same"],
    [[first, later], "first"],
    [[later, first], "first"],
  ] as const)
    assert.equal(choose(candidates, 5, 0)?.id, id);
});

test("a refused client may come again when those who wait have taken over the slots", () => {
  const [full, free] = [exact("a", { calls: 5, meanCallMs: 1000 }), exact("b", { calls: 1, meanCallMs: 3000 })];
  assert.equal(retryAfterSeconds([full, free]), 2);
  assert.equal(retryAfterSeconds([full, { ...free, meanCallMs: 3002 }]), 3);
  assert.equal(retryAfterSeconds([exact("a", { calls: 1, slots: 1, meanCallMs: 1500 })]), 2);
  assert.deepEqual([retryAfterSeconds([]), retryAfterSeconds([{ ...full, meanCallMs: 1e9 }])], [1, 60]);
});
