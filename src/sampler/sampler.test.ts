import assert from "node:assert/strict";
import { test } from "node:test";
import { makeRequest } from "../../test/support/simulation.js";
import { DRAW, DRAW_WORDS, Draws, FLAG, MAX_TOP_LOGPROBS, tokensOfRow } from "../core/draws.js";
import { Request } from "../core/request.js";
import { createSampled } from "../core/sample-row.js";
import type { SamplingParams } from "../core/sampling.js";
import type { TokenConstraint } from "../grammar/constraint.js";
import { KeptRow, RowTable } from "./row-table.js";
import { canRunAhead, logprobsAt, type Run, Sampler, type SamplingState, takeDrawn } from "./sampler.js";

const VOCAB = 40;
const STOPS = Int32Array.of(7, 9);

/** What sampling keeps for the request. */
function stateOf({ sampling, promptLen }: Request, changes: Partial<SamplingState> = {}): SamplingState {
  const row = KeptRow.of(sampling, promptLen, STOPS);
  return { stopIds: STOPS, constraint: null, editLogits: null, row, ...changes };
}

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

function fieldsOf(draws: Draws, draw: number) {
  const field = (name: keyof typeof DRAW) => draws.ints[draw * DRAW_WORDS + DRAW[name]]!;
  const list = (first: number, count: number) => [...draws.lists.subarray(first, first + count)];
  return {
    of: [field("logitRow"), field("position"), field("sample"), field("flags")],
    penalized: list(field("tokens"), field("numTokens")),
    mask: field("mask") < 0 ? null : list(field("mask"), Math.ceil(VOCAB / 32)),
  };
}

test("a draw says of which sample and position it is, and what it takes of its row", () => {
  const sampler = new Sampler(VOCAB);
  const draws = new Draws();
  const plain = requestOf({ temperature: 1 });
  sampler.addDraw(draws, 3, plain, stateOf(plain), 5);
  const nothing = { penalized: [], mask: null };
  assert.deepEqual(fieldsOf(draws, 0), { of: [3, 5, 0, FLAG.isDrawn], ...nothing });
  sampler.addFork(draws, 4, plain, stateOf(plain), 2);
  assert.deepEqual(fieldsOf(draws, 1), { of: [4, 5, 2, FLAG.isDrawn], ...nothing });
  const asking = requestOf({ temperature: 0, frequencyPenalty: 1, logitBias: [[2, 1]] });
  const state = stateOf(asking, { constraint: only33 });
  sampler.addDraw(draws, 0, asking, state, 5);
  const asked = { penalized: [4, 4], mask: [0, 2] };
  assert.deepEqual(fieldsOf(draws, 2), { of: [0, 5, 0, FLAG.bias | FLAG.penalties], ...asked });
  sampler.addFork(draws, 1, asking, state, 1);
  assert.deepEqual(fieldsOf(draws, 3), { of: [1, 5, 1, FLAG.bias | FLAG.penalties], ...asked });
  sampler.addDraw(draws, 0, asking, state, 3);
  assert.deepEqual(fieldsOf(draws, 4), { of: [0, 3, 0, FLAG.bias], ...nothing, mask: [0, 2] }, "no answer, no penalty");
  const greedy = requestOf({ temperature: 0 });
  sampler.addDraw(draws, 6, greedy, stateOf(greedy), 5);
  assert.deepEqual([fieldsOf(draws, 5).of, draws.ints[5 * DRAW_WORDS + DRAW.row]], [[6, 5, 0, 0], 0], "needs no row");
});

test("a guess is drawn by the rule of the token it stands for, with its biases where ids are the same", () => {
  const sampler = new Sampler(VOCAB);
  const draws = new Draws();
  const request = requestOf({ temperature: 1, frequencyPenalty: 1, logitBias: [[2, 1]], minTokens: 9 });
  sampler.addGuess(draws, 2, request, stateOf(request), 7, true);
  sampler.addGuess(draws, 3, request, stateOf(request), 8, false);
  assert.deepEqual(
    [fieldsOf(draws, 0).of, fieldsOf(draws, 1).of],
    [
      [2, 7, 0, FLAG.isDrawn | FLAG.bias],
      [3, 8, 0, FLAG.isDrawn],
    ],
  );
});

test("what ends an answer is forbidden until the least number of tokens is out", () => {
  const sampler = new Sampler(VOCAB);
  const draws = new Draws();
  const isForbidden = (draw: number) => (fieldsOf(draws, draw).of[3]! & FLAG.stops) !== 0;
  const [three, two] = [requestOf({ minTokens: 3 }), requestOf({ minTokens: 2 })];
  for (const position of [4, 5, 6, 7]) sampler.addDraw(draws, 0, three, stateOf(three), position);
  assert.deepEqual([0, 1, 2, 3].map(isForbidden), [true, true, false, false]);
  sampler.addFork(draws, 0, three, stateOf(three), 1);
  sampler.addFork(draws, 0, two, stateOf(two), 1);
  assert.deepEqual([4, 5].map(isForbidden), [true, false]);
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
  new Sampler(VOCAB).choose(run, logits, request, stateOf(request, { editLogits }));
  assert.deepEqual(seen, [[1, 2, 3, 4, 4, 3]]);
  const { id, logprob, top } = logprobsAt(run.sampled, run.first, 1);
  assert.deepEqual([run.count, id, top[0]!.id], [1, 0, 8]);
  assert.ok(logprob < top[0]!.logprob);
  const all = stateOf(request, { editLogits: (values) => values.fill(Number.NEGATIVE_INFINITY) });
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
    const request = requestOf({});
    new Sampler(vocabSize).addDraw(new Draws(), 0, request, stateOf(request, { constraint }), 5);
    assert.equal(length, numWords);
  }
});

test("requests with hooks are chosen for one after the other, each by its own parameters", () => {
  const run: Run = { sampled: createSampled(0), first: 0, count: 0 };
  const sampler = new Sampler(VOCAB);
  for (const token of [11, 12]) {
    const request = requestOf({ temperature: 0, logitBias: [[token, 50]] });
    sampler.choose(run, new Float32Array(VOCAB), request, stateOf(request, { editLogits: () => {} }));
    assert.equal(run.sampled.ids[run.first], token);
  }
});

test("a token is drawn ahead of the one before it where nothing on the host depends on that one", () => {
  const request = requestOf({});
  const { sampling } = request;
  const plain = stateOf(request);
  const hook = { ...plain, editLogits: () => {} };
  const constrained = { ...plain, constraint: only33 };
  for (const [changes, state, expected] of [
    [{}, plain, true],
    [{ maxTokens: 1 }, plain, true],
    [{ maxTokens: 0 }, plain, false],
    [{}, hook, false],
    [{}, constrained, false],
    [{}, { ...hook, constraint: only33 }, false],
    [{ repetitionPenalty: 1.1 }, plain, true],
    [{ frequencyPenalty: 0.1 }, plain, true],
    [{ presencePenalty: -0.1 }, plain, true],
    [{ frequencyPenalty: 1 }, hook, false],
    [{ maxTokens: 0 }, constrained, false],
  ] as const)
    assert.equal(canRunAhead({ ...sampling, ...changes }, state), expected, JSON.stringify(changes));
});

test("a draw lists the tokens that its row has not: all at first, then what came, and again all when it has lost its row", () => {
  const table = new RowTable(1);
  const sampler = new Sampler(VOCAB, table);
  const request = requestOf({ frequencyPenalty: 1, repetitionPenalty: 1.1 });
  const state = stateOf(request);
  const draws = new Draws();
  /** Its row, whether that is written, and the tokens. */
  const broughtAt = (position: number, of = state) => {
    draws.clear();
    sampler.addDraw(draws, 0, request, of, position);
    return [
      draws.ints[DRAW.row]! < 0 ? "brought" : draws.numWrites > 0 ? "new" : "kept",
      ...fieldsOf(draws, 0).penalized,
    ];
  };
  assert.deepEqual(broughtAt(5), ["new", 1, 2, 3, 4, 4]);
  assert.deepEqual([draws.writes[0], draws.lists.slice(draws.writes[1], draws.writes[2])], [0, state.row.words]);
  sampler.addFork(draws, 0, request, state, 1);
  assert.deepEqual(fieldsOf(draws, 1).penalized, []);
  request.appendToken(6);
  assert.deepEqual(broughtAt(6), ["kept", 6]);
  request.tokens[6] = -3; // of the flight ahead
  assert.deepEqual(broughtAt(7), ["kept", -3]);
  request.appendToken(7);
  // Two drafts: the draws behind the first list what it lists, and those before them.
  request.reserveDrafts(2);
  request.tokens.set([8, 9], 7);
  request.numDrafted = 2;
  assert.deepEqual([broughtAt(7), broughtAt(8), broughtAt(9)], [["kept"], ["kept", 8], ["kept", 8, 9]]);
  request.numDrafted = 0;
  // Another comes, and there is no room for it while the first one is used.
  const other = stateOf(request);
  assert.deepEqual(broughtAt(5, other), ["brought", 1, 2, 3, 4, 4]);
  assert.deepEqual(draws.lists.slice(0, other.row.words.length), other.row.words);
  for (let i = 0; i < 8; i++) sampler.beginFlight();
  assert.deepEqual(broughtAt(5, other), ["new", 1, 2, 3, 4, 4]);
  assert.deepEqual(broughtAt(6), ["brought", 1, 2, 3, 4, 4, 6], "its row is the other's");
});

test("a row's room grows with it; who loses a piece has lost all, and one without penalties takes no more than its words", () => {
  const table = new RowTable(6);
  const penalized = requestOf({ presencePenalty: 1 });
  const [a, b, c] = [stateOf(penalized).row, stateOf(penalized).row, stateOf(penalized).row];
  const words = tokensOfRow(a.words, 0);
  assert.equal(words, a.words.length);
  /** A row of so many words in all: where it is, its pieces, whether it is new there. */
  const take = (row: KeptRow, needed: number) => {
    const isNew = table.take(row, needed - words);
    if (row.at >= 0) row.count = needed - words;
    return [row.at, row.numPieces, isNew];
  };
  assert.deepEqual(take(a, 500), [0, 3, true]);
  assert.deepEqual(take(a, 768), [0, 3, false]);
  assert.deepEqual(take(b, words), [768, 1, true]);
  assert.deepEqual([table.take(a, 769 - words), a.at, a.count], [false, -1, 0], "there are five neighbours no more");
  for (let i = 0; i < 8; i++) table.beginFlight();
  assert.deepEqual(take(b, words), [768, 1, false], "its own, however long it was idle");
  assert.deepEqual(take(c, 300), [1024, 2, true], "the search goes on where it ended");
  assert.deepEqual(take(a, 300), [0, 2, true]);
  assert.deepEqual(take(a, 600), [-1, 2, false], "nor does it fit in what is left with its own");
  for (let i = 0; i < 8; i++) table.beginFlight();
  assert.deepEqual(take(a, 600), [512, 4, true]);
  assert.deepEqual([b.at, b.count, c.at], [-1, 0, -1], "who had a piece there");
  const plain = requestOf({ temperature: 1 });
  assert.deepEqual(take(stateOf(plain).row, 256), [0, 1, true]);
  assert.equal(RowTable.for(2, 100).numWords, 512);
  assert.equal(RowTable.for(1e6, 1e6).numWords, 2 ** 22);
});
