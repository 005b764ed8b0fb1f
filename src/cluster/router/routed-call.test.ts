import assert from "node:assert/strict";
import { test } from "node:test";
import { SAMPLING_DEFAULTS } from "../../core/sampling.js";
import type { AddMessage } from "../../engine/messages.js";
import type { WireOutput } from "../bus/wire.js";
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
  assert.equal((call.take({ id: "a", at: 0, tokens: [7] }) as WireOutput).tokens![0], 7);
  assert.deepEqual(
    [0, 1].map((only) => call.requests(only).map(({ resumed, sampling }) => [resumed?.index, sampling.promptLogprobs])),
    [[[0, 0]], [[1, 0]]],
    "how the prompt scored has not been told",
  );
  call.take({ id: "a", at: 1, promptLogprobs: [null] });
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

test("how a call fared is told over all replicas, by this machine's clock", (t) => {
  let nowMs = 5000;
  t.mock.method(performance, "now", () => nowMs);
  const call = new RoutedCall(message(2));
  assert.deepEqual([call.waitingSinceMs, call.wasPrefilled, call.identity, call.hasBegun], [5000, false, "", false]);
  nowMs = 5200;
  call.take({ id: "a", at: 0, tokens: [] });
  assert.equal(call.hasBegun, false);
  nowMs = 5300;
  call.take({ id: "a", at: 0, tokens: [7] });
  nowMs = 5900;
  call.take({ id: "a", index: 1, at: 0, tokens: [7, 8] });
  nowMs = 6300;
  const { trace } = call.take({ id: "a", at: 1, tokens: [9], finishReason: "stop" }) as WireOutput;
  const times = { promptTokens: 3, timeToFirstTokenMs: 300 };
  const unguessed = { drafts: 0, draftTokens: 0, acceptedTokens: 0 };
  const unsaid = { ...unguessed, cachedTokens: 0, chunks: 0, steps: 0, preemptions: 0, acceptedMs: 0, queuedMs: 0 };
  assert.deepEqual(trace, { ...unsaid, ...times, completionTokens: 4, totalMs: 1300, tokensPerSecond: 3 });
  nowMs = 7300;
  const said = {
    drafts: 3,
    draftTokens: 8,
    acceptedTokens: 9,
    cachedTokens: 2,
    chunks: 3,
    steps: 4,
    preemptions: 5,
    acceptedMs: 6,
    queuedMs: 7,
  };
  const wire = { id: "b", index: 1, at: 2, tokens: [1], finishReason: "stop", trace: { ...said, totalMs: 1 } };
  const last = call.take(wire as unknown as WireOutput) as WireOutput;
  assert.deepEqual(last.trace, { ...said, ...times, completionTokens: 5, totalMs: 2300, tokensPerSecond: 2 });
  nowMs = 1;
  const sudden = new RoutedCall(message(1));
  const end = sudden.take({ id: "a", at: 0, tokens: [1], finishReason: "stop" }) as WireOutput;
  assert.deepEqual([end.trace?.tokensPerSecond, end.trace?.timeToFirstTokenMs, end.trace?.totalMs], [0, 0, 0]);
  const quick = new RoutedCall(message(1));
  quick.take({ id: "a", at: 0, tokens: [1] });
  nowMs = 2;
  assert.equal(quick.endOf(0).trace?.tokensPerSecond, 0);
  const next = new RoutedCall(message(1));
  next.take({ id: "a", at: 0, tokens: [1] });
  nowMs = 3;
  const fast = next.take({ id: "a", at: 1, tokens: [2, 3], finishReason: "stop" }) as WireOutput;
  assert.equal(fast.trace?.tokensPerSecond, 2000);
});

test("a prompt alone is computed without an answer, for the same client; a sample that nobody asked for is not ours", () => {
  const { sampling: _, ...asked } = new RoutedCall({
    ...message(2),
    priority: 3,
    salt: "s",
    client: "c",
  }).prefillRequest();
  assert.deepEqual(asked, {
    ...{ type: "add", kind: "generate", prompt: [1, 2, 3], priority: 3, salt: "s", client: "c" },
    ...{ constraint: null, resumed: null },
  });
  const call = new RoutedCall(message(1));
  assert.deepEqual(call.prefillRequest().sampling, { ...SAMPLING_DEFAULTS, temperature: 0, seed: 0, maxTokens: 0 });
  assert.equal(call.take({ id: "a", index: 1, at: 0, tokens: [7] }), null);
  assert.equal(new RoutedCall({ ...message(3), kind: "pool" }).samples.length, 1);
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
