import assert from "node:assert/strict";
import { test } from "node:test";
import { SAMPLING_DEFAULTS } from "../core/sampling.js";
import type { AddMessage, RequestOutput } from "../engine/messages.js";
import { RoutedCall } from "./routed-call.js";

const message = (n: number): AddMessage => ({
  type: "add",
  callId: "call",
  kind: "generate",
  prompt: Int32Array.of(1, 2, 3),
  sampling: { ...SAMPLING_DEFAULTS, n, maxTokens: 10, seed: 1, promptLogprobs: 0 },
  priority: 0,
  salt: "",
  arrivalMs: 0,
  constraint: null,
});

test("a call goes whole until it has begun, then sample by sample with what each has; tokens come once and in order", () => {
  const call = new RoutedCall(message(2));
  assert.deepEqual(
    call.requests(-1).map(({ resumed, sampling }) => [resumed, sampling.n]),
    [[null, 2]],
  );
  assert.equal((call.take({ id: "a", at: 0, tokens: [7], promptLogprobs: [null] }) as RequestOutput).tokens[0], 7);
  call.take({ id: "a", at: 0, index: 1, tokens: [8] });
  assert.equal(call.take({ id: "a", at: 0, tokens: [7] }), null, "what was given before");
  assert.equal(call.take({ id: "a", at: 2, tokens: [9] }), "gap");
  assert.deepEqual(
    call.requests(-1).map(({ resumed, sampling }) => [resumed, sampling.n, sampling.promptLogprobs]),
    [
      [{ index: 0, tokens: [7] }, 1, null],
      [{ index: 1, tokens: [8] }, 1, null],
    ],
  );
  call.take({ id: "b", at: 1, tokens: [9], finishReason: "stop" });
  assert.deepEqual(
    call.requests(-1).map(({ resumed }) => resumed?.index),
    [1],
  );
  const end = call.endOf(1);
  assert.deepEqual([end.finishReason, end.trace?.completionTokens, call.isOver], ["abort", 3, true]);
});

test("a call that was aborted before its first token has no rate", () => {
  const { trace } = new RoutedCall(message(1)).endOf(0);
  assert.deepEqual([trace?.completionTokens, trace?.tokensPerSecond], [0, 0]);
});

test("a request that loses replica after replica is given up, so that it does not take them all", () => {
  const call = new RoutedCall(message(1));
  assert.deepEqual([call.lose(), call.lose(), call.lose(), call.lose()], [true, true, true, false]);
  const slow = new RoutedCall(message(1));
  const survived: boolean[] = [];
  for (let at = 0; at < 11; at++) {
    survived.push(slow.lose());
    slow.take({ id: "a", at, tokens: [5] });
  }
  assert.deepEqual(survived, [...Array(10).fill(true), false]);
});
