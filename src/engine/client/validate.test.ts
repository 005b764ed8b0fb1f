import assert from "node:assert/strict";
import { test } from "node:test";
import type { AddMessage, EngineFacts } from "../messages.js";
import type { GenerateOptions } from "../types.js";
import { addMessage, checkConstraint, checkPrompt, checkResumed, checkSampling, checkText } from "./validate.js";

const FACTS = { vocabSize: 100, maxContext: 64, poolTokens: 48, pageSize: 16 } as EngineFacts;
const WIDE = { ...FACTS, poolTokens: Number.POSITIVE_INFINITY };

const check = (options: GenerateOptions, promptLen = 8, facts = FACTS) =>
  checkSampling(options, { topP: 0.5, temperature: 0.25 }, facts, promptLen, () => 77);

test("what is not asked for is the model's own; an answer ends where context or pool do", () => {
  const { topP, temperature, topK, seed, maxTokens } = check({ temperature: 2, seed: undefined as never });
  assert.deepEqual([topP, temperature, topK, seed, maxTokens], [0.5, 2, 0, 77, 40]);
  assert.equal(check({}, 8, WIDE).maxTokens, 56);
  assert.equal(check({ maxTokens: 41 }).maxTokens, 40);
  assert.equal(check({ maxTokens: 7 }).maxTokens, 7);
  assert.equal(check({ minTokens: 7, maxTokens: 7 }).minTokens, 7);
  assert.throws(() => check({ minTokens: 8, maxTokens: 7 }), { code: "invalid_value", param: "minTokens" });
  assert.equal(check({ seed: 0 }).seed, 0);
  const among = { priority: 3, topK: 5, seed: undefined as never, minP: 0.5 };
  assert.deepEqual([check(among).topK, check(among).minP], [5, 0.5], "what is no sampling, or not given, hides none");
});

test("a call without them has no priority, salt or client of its own, and an id of its own", () => {
  const bounds = {
    facts: FACTS,
    suggested: {},
    isRemote: false,
    isTaken: (id: string) => id === "taken",
    adapterOf: () => assert.fail("no adapter was named"),
    freshSeed: () => 1,
  };
  const { priority, salt, client, callId, constraint } = addMessage(bounds, "generate", [1], {});
  assert.deepEqual([priority, salt, client, constraint], [0, "", "", null]);
  assert.match(callId, /^req-[0-9a-f-]{36}$/);
  const own = { priority: -2, salt: "s", client: "c", id: "mine" };
  const message = addMessage(bounds, "generate", [1], own);
  assert.deepEqual([message.priority, message.salt, message.client, message.callId], [-2, "s", "c", "mine"]);
  assert.throws(() => addMessage(bounds, "generate", [1], { id: "taken" }), { code: "invalid_value", param: "id" });
  assert.throws(() => addMessage(bounds, "generate", [1], { priority: 0.5 }), { param: "priority" });
  // What ends a salt where an adapter's identity begins is nobody's own.
  assert.throws(() => addMessage(bounds, "generate", [1], { salt: "a\0b" }), { code: "invalid_value", param: "salt" });
});

test("each value is held to its range, its ends included", () => {
  const taken: GenerateOptions[] = [
    { temperature: 0 },
    { temperature: 100 },
    { topP: 1 },
    { n: 1 },
    { logprobs: null },
    { ignoreEos: true },
    { stop: ["a"] },
    { stop: Array(64).fill("a") },
    { stopTokenIds: Array(1024).fill(1) },
    { stopTokenIds: [0, 99] },
    { logitBias: [[99, -1.5]] },
  ];
  for (const options of taken) check(options);
  const refused: Record<string, unknown>[] = [
    { temperature: -0.1 },
    { temperature: 100.1 },
    { temperature: "1" },
    { temperature: null },
    { n: 1.5 },
    { ignoreEos: 1 },
    { stop: [""] },
    { stop: "a" },
    { stop: Array(65).fill("a") },
    { stopTokenIds: Array(1025).fill(1) },
    { stopTokenIds: [100] },
    { stopTokenIds: [-1] },
    { logitBias: [[1, 2, 3]] },
    { logitBias: [[100, 1]] },
    { logitBias: [[1, 1e9]] },
  ];
  for (const options of refused)
    assert.throws(
      () => check(options as GenerateOptions),
      { param: Object.keys(options)[0]! },
      JSON.stringify(options),
    );
  for (const [length, shown] of [
    [193, /"x{193}"\]; it/],
    [194, /"x{194}"\.\.\.; it/],
    [300, /"x{195}\.\.\.; it/],
  ] as const)
    assert.throws(() => check({ stop: ["", "x".repeat(length)] }), { message: shown });
  assert.throws(() => check({ temperature: -1 }), { message: /must be a number from 0 to 100/ });
  assert.throws(() => check({ ignoreEos: 1 as never }), { message: /must be true or false/ });
  assert.throws(() => check({ stop: [""] }), { message: /a list of non-empty strings, at most 64/ });
  assert.throws(() => check({ stopTokenIds: [100] }), { message: /a list of token ids below 100, at most 1024/ });
});

test("a prompt leaves room for its answer in the context and in the pool; a text may fill both", () => {
  const ids = (length: number) => Array<number>(length).fill(1);
  assert.equal(checkPrompt(ids(47), FACTS, 1).length, 47);
  assert.throws(() => checkPrompt(ids(48), FACTS, 1), { code: "prompt_exceeds_pool", message: /4 pages.*3/s });
  assert.equal(checkPrompt(ids(48), FACTS, 0).length, 48);
  assert.equal(checkPrompt(ids(63), WIDE, 1).length, 63);
  assert.throws(() => checkPrompt(ids(64), WIDE, 1), { code: "context_length_exceeded" });
  assert.equal(checkText(ids(48), FACTS).length, 48);
  assert.throws(() => checkText(ids(49), FACTS), { code: "text_too_long" });
  assert.throws(() => checkText([], FACTS), { code: "empty_prompt" });
  assert.deepEqual(checkPrompt([0, 99], FACTS, 1), Int32Array.of(0, 99));
  for (const id of [-1, 100, 0.5]) {
    assert.throws(() => checkPrompt([0, id], FACTS, 1), { code: "token_out_of_range" });
    assert.throws(() => checkPrompt([id, 0], FACTS, 1), { code: "token_out_of_range" });
  }
  assert.throws(() => checkPrompt({ length: 1, 0: 5 } as never, FACTS, 1), { param: "prompt" });
  assert.deepEqual(checkPrompt(Int32Array.of(5) as never, FACTS, 1), Int32Array.of(5));
});

test("a resumed sample is of this model and has a token to give", () => {
  const message = { kind: "generate", sampling: { n: 1, maxTokens: 3 } } as AddMessage;
  const resumed = (index: number, ...tokens: number[]) => ({ index, tokens: Int32Array.from(tokens) });
  checkResumed(resumed(0), message, FACTS);
  checkResumed(resumed(5, 0, 99), message, FACTS);
  for (const wrong of [resumed(-1, 1), resumed(0.5, 1), resumed(0, 1, 2, 3), resumed(0, 100), resumed(0, -1)])
    assert.throws(() => checkResumed(wrong, message, FACTS), { param: "resumed" });
  for (const other of [
    { ...message, kind: "pool" },
    { ...message, sampling: { ...message.sampling, n: 2 } },
  ])
    assert.throws(() => checkResumed(resumed(0, 1), other as AddMessage, FACTS), { param: "resumed" });
});

test("a constraint has a kind and a source, or is none", () => {
  assert.equal(checkConstraint(undefined), null);
  assert.equal(checkConstraint(null), null);
  const regex = { kind: "regex", source: "a" };
  assert.equal(checkConstraint(regex), regex);
  for (const wrong of [{ kind: "regex" }, { kind: "xml", source: "" }, { kind: "regex", source: 3 }])
    assert.throws(() => checkConstraint(wrong), { param: "constraint" });
});
