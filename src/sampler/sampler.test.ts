import assert from "node:assert/strict";
import { test } from "node:test";
import { makeRequest } from "../../test/support/simulation.js";
import { uniformAt } from "../core/random.js";
import { Request } from "../core/request.js";
import { createSampled } from "../core/sample-row.js";
import type { SamplingParams } from "../core/sampling.js";
import { FIELD, MAX_TOP_LOGPROBS, ROW_WORDS, SamplingRows } from "../core/sampling-rows.js";
import type { TokenConstraint } from "../grammar/constraint.js";
import { HeldTokens, History } from "./history.js";
import { canRunAhead, logprobsAt, type Run, Sampler, type SamplingState, takeDrawn } from "./sampler.js";

const VOCAB = 40;
const STATE: SamplingState = { stopIds: Int32Array.of(7, 9), constraint: null, editLogits: null, held: null };

/** A request for a prompt of three tokens with two generated ones. */
function requestOf(sampling: Partial<SamplingParams>): Request {
  const { id, sampling: defaults } = makeRequest("a", [1, 2, 3], { maxTokens: 9 });
  const request = new Request({ id, prompt: [1, 2, 3], sampling: { ...defaults, seed: 5, ...sampling } });
  for (const token of [4, 4]) request.appendToken(token);
  return request;
}

/** Allows token 33 alone. */
const only33 = {
  fillMask: (mask: Int32Array) => {
    mask.fill(0);
    mask[1] = 2;
    return true;
  },
} as unknown as TokenConstraint;

function fieldsOf(rows: SamplingRows, row: number) {
  const at = row * ROW_WORDS;
  const int = (field: keyof typeof FIELD) => rows.ints[at + FIELD[field]]!;
  const list = (first: number, count: number) => [...rows.lists.subarray(first, first + count)];
  return {
    uniform: rows.doubles[at / 2],
    logitRow: int("logitRow"),
    forbidden: list(int("forbidden"), int("numForbidden")),
    penalized: list(int("tokens"), int("numTokens")),
    numBias: int("numBias"),
    mask: int("mask") < 0 ? null : list(int("mask"), Math.ceil(VOCAB / 32)),
  };
}

test("a row says what its request asked for, and the number it is drawn by is of its sample and position", () => {
  const sampler = new Sampler(VOCAB);
  const rows = new SamplingRows();
  const plain = requestOf({ temperature: 1 });
  assert.equal(sampler.addRow(rows, 3, plain, STATE, 5), 0);
  const nothing = { forbidden: [], penalized: [], numBias: 0, mask: null };
  assert.deepEqual(fieldsOf(rows, 0), { uniform: uniformAt(5, 0, 5), logitRow: 3, ...nothing });
  sampler.addFork(rows, 4, plain, STATE, 2);
  assert.deepEqual(fieldsOf(rows, 1), { uniform: uniformAt(5, 2, 5), logitRow: 4, ...nothing });
  const asking = requestOf({ temperature: 0, frequencyPenalty: 1, logitBias: [[2, 1]] });
  assert.equal(sampler.addRow(rows, 0, asking, { ...STATE, constraint: only33 }, 5), 2);
  const asked = { uniform: 0, forbidden: [], penalized: [4, 4], numBias: 1, mask: [0, 2] };
  assert.deepEqual(fieldsOf(rows, 2), { ...asked, logitRow: 0 });
  sampler.addFork(rows, 1, asking, { ...STATE, constraint: only33 }, 1);
  assert.deepEqual(fieldsOf(rows, 3), { ...asked, logitRow: 1 });
});

test("what ends an answer is forbidden until the least number of tokens is out", () => {
  const sampler = new Sampler(VOCAB);
  const rows = new SamplingRows();
  for (const position of [4, 5, 6, 7]) sampler.addRow(rows, 0, requestOf({ minTokens: 3 }), STATE, position);
  assert.deepEqual(
    [0, 1, 2, 3].map((row) => fieldsOf(rows, row).forbidden),
    [[7, 9], [7, 9], [], []],
  );
  sampler.addFork(rows, 0, requestOf({ minTokens: 3 }), STATE, 1);
  sampler.addFork(rows, 0, requestOf({ minTokens: 2 }), STATE, 1);
  assert.deepEqual([fieldsOf(rows, 4).forbidden, fieldsOf(rows, 5).forbidden], [[7, 9], []]);
});

test("a hook sees the tokens so far and has the last word; log-probabilities are of the model's own logits", () => {
  const run: Run = { sampled: createSampled(0), first: 0, count: 0 };
  const logits = Float32Array.from({ length: VOCAB }, (_, i) => (i === 8 ? 5 : 0));
  const seen: number[][] = [];
  const editLogits: SamplingState["editLogits"] = (values, { tokens, promptLen }) => {
    seen.push([...tokens, promptLen]);
    values[0] = 9;
  };
  const request = requestOf({ temperature: 0, logprobs: 1 });
  new Sampler(VOCAB).choose(run, logits, request, { ...STATE, editLogits });
  assert.deepEqual(seen, [[1, 2, 3, 4, 4, 3]]);
  const { id, logprob, top } = logprobsAt(run.sampled, run.first, 1);
  assert.deepEqual([run.count, id, top[0]!.id], [1, 0, 8]);
  assert.ok(logprob < top[0]!.logprob);
  const all = { ...STATE, editLogits: (values: Float32Array) => values.fill(Number.NEGATIVE_INFINITY) };
  assert.throws(() => new Sampler(VOCAB).choose(run, logits, request, all), { code: "no_token_left" });
});

test("an entry's report has the alternatives that were asked for and found", () => {
  const sampled = createSampled(2);
  sampled.ids.set([3, 0]);
  sampled.logprobs[1] = -2;
  sampled.topIds.set([11, 12, 13], 0);
  sampled.topIds.set([0, 21, -1], MAX_TOP_LOGPROBS);
  sampled.topLogprobs.set([-1, -3], MAX_TOP_LOGPROBS);
  const top = [
    { id: 0, logprob: -1 },
    { id: 21, logprob: -3 },
  ];
  assert.deepEqual(logprobsAt(sampled, 1, 3), { id: 0, logprob: -2, top });
  assert.deepEqual(logprobsAt(sampled, 1, 1), { id: 0, logprob: -2, top: top.slice(0, 1) });
  const run: Run = { sampled: createSampled(0), first: 0, count: 0 };
  takeDrawn(run, sampled, 1, requestOf({ logprobs: 0 }));
  assert.deepEqual([run.sampled, run.first, run.count], [sampled, 1, 1]);
  takeDrawn(run, sampled, 0, requestOf({}));
  assert.deepEqual([run.first, run.count], [0, 1]);
});

test("a mask has a bit for each token of the vocabulary, in whole words", () => {
  for (const [vocabSize, numWords] of [
    [32, 1],
    [33, 2],
    [64, 2],
    [65, 3],
    [66, 3],
  ] as const) {
    let length = 0;
    const constraint = {
      fillMask: (mask: Int32Array) => {
        length = mask.length;
        return false;
      },
    } as unknown as TokenConstraint;
    new Sampler(vocabSize).addRow(new SamplingRows(), 0, requestOf({}), { ...STATE, constraint }, 5);
    assert.equal(length, numWords);
  }
});

test("requests with hooks are chosen for one after the other, each by its own parameters", () => {
  const run: Run = { sampled: createSampled(0), first: 0, count: 0 };
  const sampler = new Sampler(VOCAB);
  for (const token of [11, 12]) {
    const request = requestOf({ temperature: 0, logitBias: [[token, 50]] });
    sampler.choose(run, new Float32Array(VOCAB), request, { ...STATE, editLogits: () => {} });
    assert.equal(run.sampled.ids[run.first], token);
  }
});

test("a token is drawn ahead of the one before it where nothing on the host depends on that one", () => {
  const { sampling } = requestOf({});
  const hook = { ...STATE, editLogits: () => {} };
  const constrained = { ...STATE, constraint: only33 };
  for (const [changes, state, expected] of [
    [{}, STATE, true],
    [{ maxTokens: 1 }, STATE, true],
    [{ maxTokens: 0 }, STATE, false],
    [{}, hook, false],
    [{}, constrained, false],
    [{}, { ...hook, constraint: only33 }, false],
    [{ repetitionPenalty: 1.1 }, STATE, true],
    [{ frequencyPenalty: 0.1 }, STATE, true],
    [{ presencePenalty: -0.1 }, STATE, true],
    [{ frequencyPenalty: 1 }, hook, false],
    [{ maxTokens: 0 }, constrained, false],
  ] as const)
    assert.equal(canRunAhead({ ...sampling, ...changes }, state), expected, JSON.stringify(changes));
});

test("a row with penalties brings what the device has not: all at first, then what came, and again all when it has lost its room", () => {
  const history = new History(1);
  const sampler = new Sampler(VOCAB, history);
  const request = requestOf({ frequencyPenalty: 1, repetitionPenalty: 1.1 });
  const state = { ...STATE, held: new HeldTokens() };
  const rows = new SamplingRows();
  const broughtAt = (position: number, of = state) => {
    rows.clear();
    sampler.addRow(rows, 0, request, of, position);
    const field = (name: keyof typeof FIELD) => rows.ints[FIELD[name]]!;
    return [field("history"), field("numHeld"), ...fieldsOf(rows, 0).penalized];
  };
  assert.deepEqual(broughtAt(5), [0, 0, 1, 2, 3, 4, 4]);
  sampler.addFork(rows, 0, request, state, 1);
  assert.deepEqual([rows.ints[ROW_WORDS + FIELD.numHeld], fieldsOf(rows, 1).penalized], [5, []]);
  request.appendToken(6);
  assert.deepEqual(broughtAt(6), [0, 5, 6]);
  request.tokens[6] = -3; // of the flight ahead
  assert.deepEqual(broughtAt(7), [0, 6, -3]);
  request.appendToken(7);
  // Two drafts: the rows behind the first bring what it brings, and those before them.
  request.reserveDrafts(2);
  request.tokens.set([8, 9], 7);
  request.numDrafted = 2;
  assert.deepEqual(
    [broughtAt(7), broughtAt(8), broughtAt(9)],
    [
      [0, 7],
      [0, 7, 8],
      [0, 7, 8, 9],
    ],
  );
  request.numDrafted = 0;
  // Another comes, and there is no room for it while the first one is used.
  const other = { ...STATE, held: new HeldTokens() };
  assert.deepEqual(broughtAt(5, other), [-1, 0, 1, 2, 3, 4, 4]);
  for (let i = 0; i < 8; i++) sampler.beginFlight();
  assert.deepEqual(broughtAt(5, other), [0, 0, 1, 2, 3, 4, 4]);
  assert.deepEqual(broughtAt(6), [-1, 0, 1, 2, 3, 4, 4, 6], "what it had is the other's");
});

test("room in the history grows with a request, and who loses a piece has lost all", () => {
  const history = new History(6);
  const [a, b, c] = [new HeldTokens(), new HeldTokens(), new HeldTokens()];
  const take = (held: HeldTokens, needed: number) => {
    history.take(held, needed);
    if (held.at >= 0) held.count = needed;
    return [held.at, held.capacity];
  };
  assert.deepEqual(take(a, 2000), [0, 3072]);
  assert.deepEqual(take(a, 3072), [0, 3072]);
  assert.deepEqual(take(b, 1), [3072, 1024]);
  assert.equal(a.count, 3072);
  history.take(a, 3073);
  assert.deepEqual([a.at, a.count], [-1, 0], "there are five neighbours no more");
  for (let i = 0; i < 8; i++) history.beginFlight();
  assert.deepEqual(take(b, 2), [3072, 1024], "its own, however long it was idle");
  assert.deepEqual(take(c, 1000), [0, 2048]);
  for (let i = 0; i < 8; i++) history.beginFlight();
  assert.deepEqual(take(a, 600), [0, 1024]);
  assert.deepEqual(take(c, 1000), [1024, 2048], "a has one of its pieces");
  assert.equal(History.for(2, 100).numTokens, 2048);
  assert.equal(History.for(1e6, 1e6).numTokens, 2 ** 22);
});
