// The rule of draws: edits in their order, the choice, reports.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type DrawSpec, drawsOf } from "../../test/support/sampled.js";
import { DRAW, DRAW_WORDS, Draws, FLAG, flagsOf, isPlainDraw, MAX_TOP_LOGPROBS, rowWordsOf } from "./draws.js";
import { createSampled, keepTokens, NO_ROWS, sampleRow, writeRows } from "./sample-row.js";
import { SAMPLING_DEFAULTS, type SamplingParams } from "./sampling.js";

const GREEDY: SamplingParams = { ...SAMPLING_DEFAULTS, temperature: 0, seed: 0, maxTokens: 1 };

/** The logits that a draw is chosen from. */
function edited(logits: readonly number[], spec: DrawSpec): number[] {
  let seen: number[] = [];
  const draws = drawsOf([{ temperature: 0, ...spec }], logits.length);
  sampleRow(createSampled(1), 0, Float32Array.from(logits), draws, 0, NO_ROWS, (values) => {
    seen = [...values];
  });
  return seen;
}

const penalties = (prompt: number[], answer: number[], sampling: Partial<SamplingParams>): DrawSpec => ({
  prompt,
  answer,
  ...sampling,
});

test("repetition penalty divides positive and multiplies negative logits of every token seen, once", () => {
  const values = edited([4, -4, 2, 1, -1], penalties([0, 1, 0], [4], { repetitionPenalty: 2 }));
  assert.deepEqual(values, [2, -8, 2, 1, -2]);
  assert.deepEqual(edited([0.5, -0.5, 0], penalties([0, 1, 2], [], { repetitionPenalty: 2 })), [0.25, -1, 0]);
});

test("presence and frequency penalties count the answer only", () => {
  const sampling = { presencePenalty: 0.5, frequencyPenalty: 0.25 };
  assert.deepEqual(edited([0, 0, 0, 0], penalties([0, 0], [1, 2, 2], sampling)), [0, -0.75, -1, 0]);
  assert.deepEqual(edited([0, 0, 0, 0], penalties([3], [], { presencePenalty: 1 })), [0, 0, 0, 0]);
  const both = penalties([0, 1], [1, 2], { repetitionPenalty: 2, presencePenalty: 1 });
  assert.deepEqual(edited([8, 8, 8, 8], both), [4, 3, 3, 8]);
});

test("bias, forbidden ids and masks, in this order; a mask has the last word", () => {
  const values = edited(new Array(40).fill(1), {
    logitBias: [
      [3, 2.5],
      [5, 100],
    ],
    forbidden: [4, 400],
    allowed: [3, 4, 32],
  });
  const finite = [...values.keys()].filter((i) => Number.isFinite(values[i]!));
  assert.deepEqual(finite, [3, 32]);
  assert.equal(values[3], 3.5);
});

test("reports are the log-softmax before any edit, best first with ties to the lower id", () => {
  const logits = new Float32Array([1, 3, 3, 2]);
  const total = Math.log(Math.exp(1) + 2 * Math.exp(3) + Math.exp(2));
  const forbidden = [1];
  const draws = drawsOf(
    [
      { given: 3, logprobs: 3 },
      { temperature: 0, logprobs: 0, forbidden },
    ],
    4,
  );
  const out = createSampled(2);
  sampleRow(out, 0, logits, draws, 0);
  sampleRow(out, 1, logits, draws, 1);
  assert.deepEqual([...out.ids], [3, 2]);
  assert.ok(Math.abs(out.logprobs[0]! - (2 - total)) < 1e-6);
  assert.ok(Math.abs(out.logprobs[1]! - (3 - total)) < 1e-6);
  assert.deepEqual([...out.topIds.subarray(0, 3)], [1, 2, 3]);
  assert.equal(out.topIds[MAX_TOP_LOGPROBS], 0, "none was asked for");
});

test("of several rows each has its own rule, edits and place; a row of which nothing may be chosen says so", () => {
  const logits = Float32Array.of(5, 4, 4, 3, Number.NaN);
  const specs: DrawSpec[] = [
    {
      ...{ topP: 0.9, minP: 0.001, uniform: 0.9, prompt: [0, 0], answer: [1], repetitionPenalty: 2 },
      logitBias: [
        [1, 1],
        [2, 2],
        [3, 4],
      ],
    },
    { topK: 2, logprobs: 5, uniform: 0.9999 },
    { given: 0, logprobs: 2 },
    { temperature: 2, logprobs: 1, allowed: [] },
    { minP: 0.9, uniform: 0.9999 },
    { topP: 0.5, uniform: 0.9999 },
    { uniform: 0.9999 },
  ];
  const draws = drawsOf(
    specs.map((spec) => ({ ...spec, logitRow: 0 })),
    5,
  );
  const out = createSampled(8);
  let seen: number[] = [];
  for (let row = 0; row < 7; row++) {
    sampleRow(out, row + 1, logits, draws, row, NO_ROWS, (values) => {
      if (row === 0) seen = [...values];
    });
  }
  assert.deepEqual(seen, [2.5, 2.5, 6, 7, Number.NaN]);
  assert.deepEqual([...out.ids], [0, 2, 1, 0, -1, 0, 0, 3]);
  const total = Math.log(Math.exp(5) + 2 * Math.exp(4) + Math.exp(3));
  const near = (found: Float32Array, expected: readonly number[]) =>
    expected.forEach((value, i) => {
      assert.ok(found[i] === value || Math.abs(found[i]! - value) < 1e-6, `${found} is not ${expected}`);
    });
  const nothing = Number.NEGATIVE_INFINITY;
  near(out.logprobs, [0, 0, 4 - total, 5 - total, nothing, 0]);
  const topOf = (entry: number, count: number) =>
    [
      [...out.topIds.subarray(entry * MAX_TOP_LOGPROBS, entry * MAX_TOP_LOGPROBS + count)],
      out.topLogprobs.subarray(entry * MAX_TOP_LOGPROBS, entry * MAX_TOP_LOGPROBS + count),
    ] as const;
  const [ids, logprobs] = topOf(2, 6);
  assert.deepEqual(ids, [0, 1, 2, 3, -1, 0]);
  near(logprobs, [5 - total, 4 - total, 4 - total, 3 - total, nothing, 0]);
  assert.deepEqual(topOf(3, 3)[0], [0, 1, 0]);
  near(topOf(3, 3)[1], [5 - total, 4 - total, 0]);
  assert.deepEqual(
    [topOf(4, 2)[0], out.topIds.length, out.topLogprobs.length],
    [[0, 0], 8 * MAX_TOP_LOGPROBS, 8 * MAX_TOP_LOGPROBS],
  );
  assert.deepEqual([draws.mostTop, draws.numDrawn, draws.numEdited, draws.count, draws.addGreedy(3)], [5, 6, 2, 7, 7]);
  draws.clear();
  assert.deepEqual(
    [draws.mostTop, draws.numDrawn, draws.numEdited, draws.count, draws.numLists, draws.numWrites],
    [-1, 0, 0, 0, 0, 0],
  );
  draws.addGreedy(0);
  const greedy = {
    row: 0,
    logitRow: 0,
    position: 0,
    sample: 0,
    flags: 0,
    given: -1,
    numTop: -1,
    tokens: 0,
    numTokens: 0,
  };
  const words = Object.entries({ ...greedy, mask: -1, edited: -1 }) as [keyof typeof DRAW, number][];
  for (const [field, value] of words)
    assert.equal(draws.ints[DRAW[field]], value, `nothing of the draw before: ${field}`);
  draws.addGiven(0, 0, 0);
  sampleRow(out, 0, Float32Array.of(1000, 0, 1), draws, 1);
  assert.equal(out.logprobs[0], 0, "large logits do not overflow");
});

test("the best are found wherever they stand, and NaN is none of them", () => {
  const draws = drawsOf([{ given: 0, logprobs: 3 }], 6);
  const out = createSampled(1);
  for (const [logits, best] of [
    [
      [1, Number.NaN, 5, 3, 4, 2],
      [2, 4, 3],
    ],
    [
      [6, 5, 4, 3],
      [0, 1, 2],
    ],
    [
      [3, 4, 5, 6],
      [3, 2, 1],
    ],
    [
      [5, 1, 5, 5, 5],
      [0, 2, 3],
    ],
  ] as const) {
    sampleRow(out, 0, Float32Array.from(logits), draws, 0);
    assert.deepEqual([...out.topIds.subarray(0, 3)], best, `${logits}`);
  }
});

test("which draws are plain: those that report nothing, and edit nothing", () => {
  const plain: DrawSpec[] = [{}, { temperature: 0 }, { topK: 2 }, { prompt: [1, 2], presencePenalty: 2 }];
  const others: DrawSpec[] = [
    { given: 0, logprobs: 0 },
    { logprobs: 0 },
    { allowed: [] },
    { logitBias: [[0, 1]] },
    { forbidden: [9] },
    { prompt: [1], repetitionPenalty: 2 },
    { answer: [1], presencePenalty: 2 },
    { prompt: [1], answer: [2], repetitionPenalty: 2 },
  ];
  const draws = drawsOf([...plain, ...others], 3);
  for (let d = 0; d < draws.count; d++) assert.equal(isPlainDraw(draws, d), d < plain.length, `${d}`);
});

test("a mask that begins the lists counts; a forbidden id outside the vocabulary does not", () => {
  for (const count of [3, 34]) {
    const draws = new Draws(1);
    draws.addGreedy(0);
    draws.setMask(Int32Array.of(0b101, -1));
    let seen = new Float32Array();
    sampleRow(createSampled(1), 0, new Float32Array(count).fill(1), draws, 0, NO_ROWS, (values) => {
      seen = values.slice();
    });
    assert.equal(draws.ints[DRAW.mask], 0);
    assert.deepEqual([...seen.subarray(0, 3)], [1, Number.NEGATIVE_INFINITY, 1]);
    assert.equal(seen.filter(Number.isFinite).length, count === 3 ? 2 : 4);
  }
  assert.deepEqual(edited([1, 1], { forbidden: [2, 1] }), [1, Number.NEGATIVE_INFINITY]);
});

test("draws and lists grow without losing what they hold", () => {
  const draws = new Draws(1);
  const words = rowWordsOf({ ...GREEDY, temperature: 1 }, 1, Int32Array.of(7));
  const rows: number[] = [];
  for (let i = 0; i < 100; i++) {
    rows.push(draws.bringRow(words));
    draws.add(rows[i]!, i, i, 0, i % 2 === 0 ? FLAG.isDrawn : FLAG.isDrawn | FLAG.stops, -1);
    if (i % 3 === 0) draws.setTokens(new Int32Array(50).fill(i), 10, 50);
  }
  for (let i = 0; i < 100; i++) {
    const field = (name: keyof typeof DRAW) => draws.ints[i * DRAW_WORDS + DRAW[name]]!;
    assert.deepEqual([field("row"), field("position"), field("edited")], [rows[i], i, i % 2 === 0 ? -1 : (i - 1) / 2]);
    assert.deepEqual(draws.lists.slice(-rows[i]! - 1, -rows[i]! - 1 + words.length), words);
    if (i % 3 === 0) assert.deepEqual([field("numTokens"), draws.lists[field("tokens") + 39]], [40, i]);
  }
  assert.equal(draws.numLists, 100 * words.length + 34 * 40);
  draws.setMask(new Int32Array(4096).fill(3));
  assert.equal(draws.lists[draws.numLists - 1], 3, "as much as one list needs");
});

test("a row has the rule, biases and stops; a temperature of -0 is 0, a seed has two words", () => {
  const sampling: SamplingParams = { ...GREEDY, temperature: -0, seed: -5, topK: 3, logitBias: [[8, -1.5]] };
  const words = rowWordsOf(sampling, 4, Int32Array.of(2, 9));
  const floats = new Float32Array(words.buffer);
  assert.deepEqual([...words.subarray(0, 3)], [-5, -1, 0]);
  assert.deepEqual([...floats.subarray(3, 8)], [1, 0, 1, 0, 0]);
  assert.deepEqual([...words.subarray(8, 14), floats[14], ...words.subarray(15)], [3, 4, 0, 1, 2, 8, -1.5, 2, 9]);
  assert.equal(flagsOf(sampling), FLAG.bias);
  assert.deepEqual([...rowWordsOf({ ...sampling, repetitionPenalty: 2 }, 4, Int32Array.of()).subarray(9, 11)], [0, 4]);
});

test("rows and tokens stay on the device, and those to come follow them", () => {
  const rows = new Int32Array(40);
  const sampling = { ...GREEDY, repetitionPenalty: 2, frequencyPenalty: 1 };
  const tokens = Int32Array.of(0, 1, 2, 2, 3);
  const logits = Float32Array.of(8, 8, 8, 8, 8);
  const words = rowWordsOf(sampling, 2, Int32Array.of(4));
  const penalized = (numTokens: number, numHeld: number) => {
    const draws = new Draws(1);
    if (numHeld === 0) draws.keepRow(10, words);
    const numBefore = draws.numLists;
    draws.add(10, 0, numTokens, 0, FLAG.penalties, -1);
    draws.setTokens(tokens, numHeld, numTokens);
    writeRows(rows, draws);
    keepTokens(rows, draws);
    let seen: number[] = [];
    sampleRow(createSampled(1), 0, logits, draws, 0, rows, (values) => {
      seen = [...values];
    });
    assert.equal(draws.numLists - numBefore, numTokens - numHeld);
    return seen;
  };
  assert.deepEqual(penalized(2, 0), [4, 4, 8, 8, 8]);
  assert.deepEqual(penalized(3, 2), [4, 4, 3, 8, 8]);
  assert.deepEqual(penalized(5, 3), [4, 4, 2, 3, 8]);
  assert.deepEqual(penalized(4, 4), [4, 4, 2, 8, 8], "held ones alone, and not those behind them");
  assert.deepEqual([...rows.subarray(22, 30)], [1, 4, 0, 1, 2, 2, 3, 0]);
});
