// A request's own books: what it is when nothing is said of it, and its tokens as they are promised, come and are taken back.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { RequestId } from "./ids.js";
import { NEVER } from "./math.js";
import { Request, type RequestInit } from "./request.js";
import { SAMPLING_DEFAULTS } from "./sampling.js";

const request = (init: Partial<RequestInit> = {}, maxTokens = 5) =>
  new Request({
    ...{ id: "a" as unknown as RequestId, prompt: [7, 8, 9], sampling: { ...SAMPLING_DEFAULTS, seed: 1, maxTokens } },
    ...init,
  });

test("what is not said of a request is plain; what is said is kept", () => {
  const { tables, sampling, tokens, ...plain } = { ...request() };
  assert.deepEqual([tables.length, sampling.maxTokens, [...tokens]], [1, 5, [7, 8, 9, 0, 0, 0, 0, 0]]);
  assert.deepEqual(plain, {
    ...{ id: "a", priority: 0, salt: "", client: "", arrivalMs: 0, sampleIndex: 0, readsCache: true, isAtomic: false },
    ...{
      secondStart: NEVER,
      promptLen: 3,
      maxLength: 8,
      minLength: 3,
      asksAnswer: true,
      endsLoops: false,
      numTop: -1,
      penalizedFrom: 3,
      hasBegun: false,
      canRunAhead: false,
      runsAhead: false,
      owner: null,
      adapterSlot: -1,
      sharesAnswers: false,
      draftsByModel: false,
      prediction: null,
      readiness: null,
      media: [],
    },
    ...{
      state: "waiting",
      finishReason: null,
      numTokens: 3,
      numComputed: 0,
      numInFlight: 0,
      numPending: 0,
      numDrafted: 0,
      maxDrafts: 0,
      numGuessed: 0,
      numTried: 0,
      numDrafts: 0,
      numRewound: 0,
      stateEnd: NEVER,
      supply: null,
    },
    ...{ numSharedPages: 0, hashes: new Int32Array(0), numHashedPages: 0, pendingSnapshots: [], lastSnapshotEnd: 0 },
    ...{ arrivalOrder: 0, lastServedStep: 0, preemptibleFrom: 0, numPassedBy: 0, share: null },
    ...{ numCached: 0, numChunks: 0, numSteps: 0, numPreemptions: 0 },
    ...{ acceptedMs: -1, firstScheduledMs: -1, firstTokenMs: -1, finishedMs: -1 },
  });
  const sampling2 = { ...sampling, maxTokens: 0, minTokens: 2, loopCount: 3, logprobs: 4, repetitionPenalty: 1.1 };
  const asked = request({ sampling: sampling2 });
  assert.deepEqual(
    [asked.asksAnswer, asked.minLength, asked.endsLoops, asked.numTop, asked.penalizedFrom],
    [false, 5, true, 4, 0],
  );
  const said = {
    ...{ priority: 3, salt: "s", client: "c", arrivalMs: 4, sampleIndex: 2, readsCache: false, isAtomic: true },
    ...{ secondStart: 1, runsAhead: true, media: [{ start: 1, end: 2, id: new Int32Array(4) }] },
  };
  const { maxLength, ...kept } = request({ ...said, maxLength: 6 });
  assert.equal(maxLength, 6);
  for (const [key, value] of Object.entries(said)) assert.equal(kept[key as keyof typeof kept], value, key);
  assert.equal(request({ maxLength: 9 }).maxLength, 8);
  assert.equal(request({}, 1000).tokens.length, 3 + 256, "no more room than an answer usually needs");
});

test("tokens come one by one or several at once; what a flight promised stands until it lands", () => {
  const one = request({}, 2);
  one.numComputed = 3;
  one.numInFlight = 3;
  assert.deepEqual([one.numCommitted, one.numGenerated, one.numTokensWithPending], [0, 0, 3]);
  one.numPending = 1;
  one.addPlaceholder(3, 0);
  one.addPlaceholder(4, 4);
  one.addPlaceholder(5, 6);
  assert.deepEqual([...one.tokens.subarray(0, 6)], [7, 8, 9, -1, -5, -7]);
  assert.deepEqual([one.tokens.length, one.numTokensWithPending, one.numTokens], [10, 4, 3]);
  one.numInFlight = 0;
  one.accept([10, 99], 0, 1);
  assert.deepEqual(
    [one.numTokens, one.numPending, one.numComputed, one.numCommitted, one.numGenerated],
    [4, 0, 3, 3, 1],
  );
  one.numComputed = 8;
  one.accept([11, 12, 13], 0, 2);
  assert.deepEqual(
    [one.numTokens, one.numPending, one.numComputed, one.numCommitted],
    [6, 0, 5, 5],
    "drafts are not computed",
  );
  assert.deepEqual([...one.tokens.subarray(0, 6)], [7, 8, 9, 10, 11, 12]);
  one.numPending = 2;
  one.numComputed = 9;
  assert.equal(one.numCommitted, 6, "no more than is known");
  one.accept([13], 0, 1);
  assert.deepEqual([one.numTokens, one.numPending, one.numComputed], [7, 1, 7]);
  for (let id = 14; id < 40; id++) one.appendToken(id);
  assert.deepEqual(
    [...one.tokens.subarray(0, one.numTokens)],
    Array.from({ length: 33 }, (_, i) => 7 + i),
  );
  assert.equal(one.tokens.length, 40);
});

test("guesses are not tokens; what a run gave beyond an end is dropped", () => {
  const one = request({ runsAhead: true, maxDrafts: 4 }, 300);
  assert.equal(one.runsAhead, false, "a drafter must know the last token");
  one.accept([10], 0, 1);
  one.reserveDrafts(600);
  assert.ok(one.tokens.length >= 604);
  one.tokens.set([11, 12, 13], 4);
  [one.numDrafted, one.numComputed, one.numInFlight] = [3, 7, 4];
  assert.deepEqual([one.numTokens, one.numTokensWithPending, one.numCommitted], [4, 4, 3]);
  one.numInFlight = 0;
  assert.equal(one.numCommitted, 4, "guesses never count");
  one.accept([11, 12, 50], 0, 3);
  assert.deepEqual([one.numTokens, one.numDrafted, one.numComputed, one.numCommitted], [7, 0, 6, 6]);
  one.cut(7);
  assert.deepEqual([one.numTokens, one.numComputed], [7, 6]);
  one.cut(5);
  assert.deepEqual([one.numTokens, one.numComputed, one.numCommitted], [5, 4, 4]);
});

test("of what was found in the cache, no more than the prompt counts for it", () => {
  const one = request();
  for (const [numCached, counted] of [
    [2, 2],
    [3, 3],
    [5, 3],
  ] as const) {
    one.numCached = numCached;
    assert.equal(one.numCachedPrompt, counted);
  }
});

test("a table's head is one view until it is of another length, also where the table has grown", () => {
  const [table] = request().tables;
  table!.pages.set([5, 6, 7]);
  const head = table!.headOf(2);
  assert.deepEqual([[...head], table!.headOf(2) === head], [[5, 6], true]);
  table!.pages[1] = 9;
  assert.deepEqual([...head], [5, 9]);
  table!.reserve(40);
  table!.pages[1] = 4;
  assert.deepEqual([...table!.headOf(2)], [5, 4]);
});
