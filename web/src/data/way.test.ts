import assert from "node:assert/strict";
import { test } from "node:test";
import { firstTokenMs, linesOf, replicaOf, stateOf } from "./way.js";
import type { Journey, JourneyEvent } from "./wire.js";

const chosen = (replica: string, atMs: number): JourneyEvent => ({
  ...{ atMs, type: "chosen", replica, task: "answer", expectedMs: 20, heldTokens: 32 },
  fetch: { peer: "c", tokens: 64, ms: 3 },
  alternatives: [
    { replica: "full", expectedMs: 1, heldTokens: 0, calls: 9, isFull: true },
    { replica: "c", expectedMs: 50, heldTokens: 96, calls: 2, isFull: false },
  ],
});
const journey = (...events: JourneyEvent[]): Journey => ({
  id: "i",
  model: "m",
  promptTokens: 100,
  startedMs: 0,
  events,
});

test("a way is told line by line: what matched, where it went and why, what was lost, how it ended", () => {
  const way = journey(
    chosen("a", 1),
    { atMs: 30, type: "first_token", replica: "a" },
    { atMs: 40, type: "lost", replica: "a", reason: "it left", numTokens: 3 },
    chosen("b", 41),
    { atMs: 90, type: "end", reason: "length", numTokens: 8, cachedTokens: 96 },
  );
  assert.deepEqual(
    linesOf(way).map(({ title, isBad }) => (isBad ? `${title}!` : title)),
    ["Received", "Matched", "Sent to", "Transfer", "First token", "Lost!", "Matched", "Sent to", "Transfer", "End"],
  );
  const text = linesOf(way).map((line) => `${line.at} ${line.text}`);
  assert.equal(text[1], "1.0 ms a holds 32 of 100 tokens; the most that a replica holds is 96");
  assert.equal(text[2], "1.0 ms a: first token expected after 20 ms, 30 ms before the next");
  assert.equal(text.at(-1), "90 ms length after 8 tokens, 96 of the prompt cached");
  assert.deepEqual([stateOf(way), replicaOf(way), firstTokenMs(way)], ["length", "b", 30]);
});

test("what has not ended says how it stands", () => {
  assert.equal(stateOf(journey()), "waits");
  assert.equal(stateOf(journey(chosen("a", 1))), "prompt");
  assert.equal(
    stateOf(journey(chosen("a", 1), { atMs: 2, type: "first_token", replica: "a" }, chosen("b", 3))),
    "answers",
  );
  assert.equal(stateOf(journey(chosen("a", 1), { atMs: 2, type: "waiting" })), "waits");
  assert.equal(replicaOf(journey()), null);
});
