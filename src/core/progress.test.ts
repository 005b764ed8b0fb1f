// What a request's counts say about it, each at its borders.

import assert from "node:assert/strict";
import { test } from "node:test";
import { makeRequest } from "../../test/support/simulation.js";
import {
  canSample,
  endsWithPrompt,
  forksAt,
  hasWaitedLonger,
  isDecode,
  isForking,
  isPrefill,
  Request,
} from "./request.js";

/** A prompt of four tokens and `numGenerated` more, of at most three. */
function requestOf(numGenerated: number, numComputed: number, numPending = 0): Request {
  const request = makeRequest("r", [1, 2, 3, 4], { maxTokens: 3 });
  for (let i = 0; i < numGenerated; i++) request.appendToken(i);
  return Object.assign(request, { numComputed, numPending, runsAhead: numPending > 0 });
}

test("one generated token to go is a decode, tokens of the prompt and more than one are a prefill, none is neither", () => {
  for (const [numGenerated, numComputed, numPending, kind] of [
    [0, 0, 0, "prefill"],
    [0, 3, 0, "prefill"], // one token to go, but the prompt's
    [0, 4, 0, "neither"],
    [1, 3, 0, "prefill"],
    [1, 4, 0, "decode"],
    [2, 4, 0, "prefill"],
    [3, 6, 0, "decode"],
    [0, 4, 1, "decode"], // its first token is under way
    [1, 5, 1, "decode"],
    [2, 6, 1, "neither"], // the pending one is its last
    [1, 5, 2, "neither"],
    [1, 6, 2, "neither"],
    [0, 5, 2, "decode"],
  ] as const) {
    const request = requestOf(numGenerated, numComputed, numPending);
    const seen = isDecode(request) ? "decode" : isPrefill(request) ? "prefill" : "neither";
    assert.equal(seen, kind, `${numGenerated} generated, ${numComputed} computed, ${numPending} pending`);
    assert.ok(!(isDecode(request) && isPrefill(request)));
  }
});

test("a request that has left the overlap of flights waits for its pending token", () => {
  const request = requestOf(1, 5, 1);
  assert.equal(isDecode(request), true);
  request.runsAhead = false;
  assert.deepEqual([isDecode(request), isPrefill(request)], [false, false]);
});

test("a request without a mask is always ready, another when its mask is", () => {
  const request = requestOf(0, 0);
  assert.equal(canSample(request), true);
  for (const ready of [true, false]) {
    request.readiness = { isReady: () => ready };
    assert.equal(canSample(request), ready);
  }
});

test("who has waited longer: better priority, then the earlier step; equals have not", () => {
  const of = (priority: number, lastServedStep: number): Request =>
    Object.assign(makeRequest("r", [1], { priority }), { lastServedStep });
  for (const [a, b, expected] of [
    [of(0, 5), of(1, 1), true],
    [of(1, 1), of(0, 5), false],
    [of(1, 1), of(1, 2), true],
    [of(1, 2), of(1, 1), false],
    [of(1, 2), of(1, 2), false],
  ] as const)
    assert.equal(hasWaitedLonger(a, b), expected);
});

test("the first sample of several forks when its prompt ends, before it has a token, and once", () => {
  const of = (n: number, sampleIndex: number, numGenerated: number, maxTokens = 3): Request => {
    const { sampling } = makeRequest("r", [1], { n, maxTokens });
    const request = new Request({ id: makeRequest("r", [1]).id, prompt: [1, 2, 3, 4], sampling, sampleIndex });
    for (let i = 0; i < numGenerated; i++) request.appendToken(i);
    return request;
  };
  for (const [request, numForks] of [
    [of(2, 0, 0), 1],
    [of(5, 0, 0), 4],
    [of(1, 0, 0), 0],
    [of(5, 1, 0), 0],
    [of(5, 0, 1), 0],
    [of(5, 0, 0, 0), 0],
    [of(1, 0, 0, 0), 0],
    [of(5, 1, 1), 0],
  ] as const) {
    assert.equal(isForking(request), numForks > 0);
    assert.deepEqual(
      [3, 4, 5].map((end) => forksAt(request, end)),
      [0, numForks, 0],
    );
  }
  assert.deepEqual([endsWithPrompt(of(1, 0, 0, 0)), endsWithPrompt(of(1, 0, 0, 1))], [true, false]);
});
