import assert from "node:assert/strict";
import { test } from "node:test";
import type { RequestId } from "../../core/ids.js";
import { Request } from "../../core/request.js";
import { SAMPLING_DEFAULTS } from "../../core/sampling.js";
import type { ConstraintCompiler, TokenConstraint } from "../../grammar/constraint.js";
import type { AddMessage } from "../messages.js";
import { SessionFactory, traceOf } from "./session.js";

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

function constraintOf(name: string): TokenConstraint & { readonly name: string } {
  return {
    name,
    ...{ isReady: () => true, fillMask: () => false, accept: () => true, isDone: () => false, dispose: () => {} },
    fork: () => constraintOf(`${name}'`),
  };
}

const compiler: ConstraintCompiler = {
  ...{ ready: async () => {}, warm: () => {}, settle: () => {}, close: () => {} },
  compile: ({ source }, accepted = []) => constraintOf(`${source} after ${Array.from(accepted).join()}`),
};
const OPTIONS = { eosIds: [7, 8], compiler, hiddenSize: 3, maxContext: 40, isBidirectional: false };

function message(fields: Partial<AddMessage> = {}, sampling: Partial<AddMessage["sampling"]> = {}): AddMessage {
  return {
    ...{ type: "add", callId: "call", kind: "generate", prompt: Int32Array.of(4, 5, 6), priority: 2, salt: "salt" },
    ...{ sampling: { ...SAMPLING_DEFAULTS, seed: 0, maxTokens: 20, ...sampling }, client: "client", arrivalMs: 5 },
    ...{ constraint: null, ...fields },
  };
}

test("a session has what its call asks for, and what the engine adds", () => {
  const factory = new SessionFactory(OPTIONS);
  const session = factory.open(message({}, { stopTokenIds: [9] }), null);
  const { request } = session;
  assert.deepEqual(
    [request.id, request.sampleIndex, request.priority, request.salt, request.client, request.arrivalMs],
    ["call", 0, 2, "salt", "client", 5],
  );
  assert.deepEqual([...request.tokens.subarray(0, request.numTokens)], [4, 5, 6]);
  assert.deepEqual(
    [request.isAtomic, request.runsAhead, request.readsCache, request.readiness],
    [false, true, true, null],
  );
  assert.deepEqual(
    [session.callId, session.kind, session.promptLogprobs, session.pooled],
    ["call", "generate", null, null],
  );
  assert.deepEqual([...session.sampling.stopIds], [9, 7, 8]);
  assert.deepEqual([...factory.open(message({}, { ignoreEos: true }), null).sampling.stopIds], []);
  assert.deepEqual([request.maxLength, factory.open(message({}, { maxTokens: 90 }), null).request.maxLength], [23, 40]);
  const hook = () => {};
  const hooked = factory.open(message(), hook);
  assert.deepEqual([hooked.sampling.editLogits, hooked.request.runsAhead], [hook, false]);
  const scored = factory.open(message({}, { promptLogprobs: 0 }), null);
  assert.deepEqual([scored.promptLogprobs, scored.request.readsCache], [[null], false]);
  assert.equal(new SessionFactory({ ...OPTIONS, isBidirectional: true }).open(message(), null).request.isAtomic, true);
});

test("a text that becomes a vector takes nothing from the cache but for its last state", () => {
  const factory = new SessionFactory(OPTIONS);
  for (const [pooling, readsCache] of [
    ["last", true],
    ["mean", false],
    ["first", false],
  ] as const) {
    const { request, pooled } = factory.open(message({ kind: "embed", pooling }), null);
    assert.deepEqual([pooled!.pooling, request.readsCache, request.runsAhead], [pooling, readsCache, false]);
    assert.equal(pooled!.vector().length, 3);
  }
  assert.equal(factory.open(message({ kind: "pool" }), null).pooled!.pooling, "last");
  assert.equal(factory.open(message({ kind: "pool" }, { promptLogprobs: 1 }), null).request.readsCache, false);
});

test("a sample that another engine began goes on with its tokens, under its constraint", () => {
  const factory = new SessionFactory(OPTIONS);
  const constraint = { kind: "json", source: "json" } as const;
  const resumed = { index: 2, tokens: Int32Array.of(11, 12) };
  const { request, sampling } = factory.open(message({ constraint, resumed }), null);
  assert.deepEqual([...request.tokens.subarray(0, request.numTokens)], [4, 5, 6, 11, 12]);
  assert.deepEqual([request.sampleIndex, request.promptLen, request.numGenerated], [2, 3, 2]);
  assert.equal((sampling.constraint as { name?: string }).name, "json after 11,12");
  assert.deepEqual([request.readiness, request.runsAhead], [sampling.constraint, false]);
  assert.equal(
    (factory.open(message({ constraint }), null).sampling.constraint as { name?: string }).name,
    "json after ",
  );
  const without = new SessionFactory({ ...OPTIONS, compiler: null });
  assert.throws(() => without.open(message({ constraint }), null), /needs a tokenizer/);
  assert.equal(without.open(message(), null).sampling.constraint, null);
});

test("a further sample has the prompt, the call and its times, and a constraint of its own", () => {
  const factory = new SessionFactory(OPTIONS);
  const constraint = { kind: "json", source: "json" } as const;
  const parent = factory.open(message({ constraint }, { promptLogprobs: 1, maxTokens: 90 }), null);
  Object.assign(parent.request, { acceptedMs: 6, firstScheduledMs: 7 });
  parent.request.appendToken(30);
  const child = factory.fork(parent, 2);
  const { request } = child;
  assert.deepEqual([...request.tokens.subarray(0, request.numTokens)], [4, 5, 6]);
  assert.deepEqual(
    [request.id, request.sampleIndex, request.priority, request.salt, request.client, request.maxLength],
    ["call#2", 2, 2, "salt", "client", 40],
  );
  assert.deepEqual([request.arrivalMs, request.acceptedMs, request.firstScheduledMs], [5, 6, 7]);
  assert.deepEqual([child.callId, child.kind, child.promptLogprobs, child.pooled], ["call", "generate", null, null]);
  assert.equal((child.sampling.constraint as { name?: string }).name, "json after '");
  assert.equal(request.readiness, child.sampling.constraint);
  const plain = factory.fork(factory.open(message(), null), 1);
  assert.deepEqual([plain.sampling.constraint, plain.request.readiness, plain.request.runsAhead], [null, null, true]);
});
