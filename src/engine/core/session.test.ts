import assert from "node:assert/strict";
import { test } from "node:test";
import type { RequestId } from "../../core/ids.js";
import { Request } from "../../core/request.js";
import { SAMPLING_DEFAULTS } from "../../core/sampling.js";
import { traceOf } from "./session.js";

function requestAt(arrivalMs: number): Request {
  const sampling = { ...SAMPLING_DEFAULTS, seed: 0, maxTokens: 20 };
  const request = new Request({ id: "a" as RequestId, prompt: [1, 2, 3], sampling, arrivalMs });
  request.acceptedMs = arrivalMs + 3;
  request.finishedMs = arrivalMs + 150;
  return request;
}

test("a trace tells when things happened, from the arrival on, and the pace after the first token", () => {
  for (const arrivalMs of [0, 1000]) {
    const request = requestAt(arrivalMs);
    request.firstScheduledMs = arrivalMs;
    request.firstTokenMs = arrivalMs;
    for (let i = 0; i < 7; i++) request.appendToken(i);
    const { acceptedMs, queuedMs, timeToFirstTokenMs, totalMs, tokensPerSecond, promptTokens, completionTokens } =
      traceOf(request);
    assert.deepEqual([acceptedMs, queuedMs, timeToFirstTokenMs, totalMs, tokensPerSecond], [3, 0, 0, 150, 40]);
    assert.deepEqual([promptTokens, completionTokens], [3, 7]);
    request.firstScheduledMs = arrivalMs + 10;
    request.firstTokenMs = arrivalMs + 50;
    const later = traceOf(request);
    assert.deepEqual([later.queuedMs, later.timeToFirstTokenMs, later.tokensPerSecond], [10, 50, 60]);
    request.firstTokenMs = arrivalMs + 149;
    assert.equal(traceOf(request).tokensPerSecond, 6000);
  }
});

test("what never began waited to its end; one token has no pace", () => {
  const request = requestAt(1000);
  const { queuedMs, timeToFirstTokenMs, totalMs, tokensPerSecond } = traceOf(request);
  assert.deepEqual([queuedMs, timeToFirstTokenMs, totalMs, tokensPerSecond], [150, 150, 150, 0]);
  request.appendToken(1);
  request.firstTokenMs = request.finishedMs;
  assert.equal(traceOf(request).tokensPerSecond, 0);
});
