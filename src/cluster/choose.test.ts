import assert from "node:assert/strict";
import { test } from "node:test";
import { type Candidate, choose, expectedFirstTokenMs, retryAfterSeconds, worthPrefill } from "./choose.js";

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
