// The rule of sampling rows: edits in their order, the choice, reports.

import assert from "node:assert/strict";
import { test } from "node:test";
import { createSampled, keepTokens, NO_HISTORY, sampleRow } from "./sample-row.js";
import { SAMPLING_DEFAULTS, type SamplingParams } from "./sampling.js";
import { isPlainRow, MAX_TOP_LOGPROBS, mostAlternatives, SamplingRows } from "./sampling-rows.js";

const DRAW: SamplingParams = { ...SAMPLING_DEFAULTS, temperature: 0, seed: 0, maxTokens: 1 };

/** The logits that a row is chosen from, after what `edit` sets. */
function edited(logits: readonly number[], edit: (rows: SamplingRows) => void): number[] {
  const rows = new SamplingRows(1);
  rows.add(0);
  rows.setDraw(DRAW, 0);
  edit(rows);
  let seen: number[] = [];
  sampleRow(createSampled(1), 0, Float32Array.from(logits), rows, 0, NO_HISTORY, (values) => {
    seen = [...values];
  });
  return seen;
}

function penalties(prompt: number[], answer: number[], sampling: Partial<SamplingParams>) {
  const tokens = Int32Array.from([...prompt, ...answer]);
  return (rows: SamplingRows) => rows.setPenalties({ ...DRAW, ...sampling }, tokens, prompt.length, tokens.length);
}

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
  const values = edited(new Array(40).fill(1), (rows) => {
    rows.setBias([
      [3, 2.5],
      [5, 100],
    ]);
    rows.setForbidden(Int32Array.of(4, 400));
    rows.setMask(Int32Array.from([0b11000, 0b1]));
  });
  const finite = [...values.keys()].filter((i) => Number.isFinite(values[i]!));
  assert.deepEqual(finite, [3, 32]);
  assert.equal(values[3], 3.5);
});

test("reports are the log-softmax before any edit, best first with ties to the lower id", () => {
  const logits = new Float32Array([1, 3, 3, 2]);
  const total = Math.log(Math.exp(1) + 2 * Math.exp(3) + Math.exp(2));
  const rows = new SamplingRows(1);
  rows.add(0);
  rows.setGiven(3, 3);
  rows.setForbidden(Int32Array.of(1));
  rows.add(0);
  rows.setDraw({ ...DRAW, logprobs: 0 }, 0);
  rows.setForbidden(Int32Array.of(1));
  const out = createSampled(2);
  sampleRow(out, 0, logits, rows, 0);
  sampleRow(out, 1, logits, rows, 1);
  assert.deepEqual([...out.ids], [3, 2]);
  assert.ok(Math.abs(out.logprobs[0]! - (2 - total)) < 1e-6);
  assert.ok(Math.abs(out.logprobs[1]! - (3 - total)) < 1e-6);
  assert.deepEqual([...out.topIds.subarray(0, 3)], [1, 2, 3]);
  assert.equal(out.topIds[MAX_TOP_LOGPROBS], 0, "none was asked for");
});

test("of several rows each has its own rule, edits and place; a row of which nothing may be chosen says so", () => {
  const logits = Float32Array.of(5, 4, 4, 3, Number.NaN);
  const rows = new SamplingRows(4);
  rows.add(0);
  rows.setDraw({ ...DRAW, temperature: 1, topP: 0.9, minP: 0.001 }, 0.9);
  rows.setBias([
    [1, 1],
    [2, 2],
    [3, 4],
  ]);
  rows.setPenalties({ ...DRAW, repetitionPenalty: 2 }, Int32Array.of(0, 0, 1), 2, 3);
  rows.add(0);
  rows.setDraw({ ...DRAW, temperature: 1, topK: 2, logprobs: 5 }, 0.9999);
  rows.add(0);
  rows.setGiven(0, 2);
  rows.add(0);
  rows.setDraw({ ...DRAW, temperature: 2, logprobs: 1 }, 0.5);
  rows.setMask(Int32Array.of(0));
  rows.add(0);
  rows.setDraw({ ...DRAW, temperature: 1, minP: 0.9 }, 0.9999);
  rows.add(0);
  rows.setDraw({ ...DRAW, temperature: 1, topP: 0.5 }, 0.9999);
  rows.add(0);
  rows.setDraw({ ...DRAW, temperature: 1 }, 0.9999);
  const out = createSampled(8);
  let seen: number[] = [];
  for (let row = 0; row < 7; row++) {
    sampleRow(out, row + 1, logits, rows, row, NO_HISTORY, (values) => {
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
  assert.deepEqual([mostAlternatives(rows), rows.count, rows.add(3)], [5, 7, 7]);
  rows.clear();
  assert.deepEqual([mostAlternatives(rows), rows.count, rows.numLists], [-1, 0, 0]);
  rows.add(0);
  assert.deepEqual([rows.doubles[0], rows.floats[2]], [0, 0], "nothing of the row that was there");
  rows.setGiven(0, 0);
  sampleRow(out, 0, Float32Array.of(1000, 0, 1), rows, 0);
  assert.equal(out.logprobs[0], 0, "large logits do not overflow");
});

test("the best are found wherever they stand, and NaN is none of them", () => {
  const rows = new SamplingRows(1);
  rows.add(0);
  rows.setGiven(0, 3);
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
    sampleRow(out, 0, Float32Array.from(logits), rows, 0);
    assert.deepEqual([...out.topIds.subarray(0, 3)], best, `${logits}`);
  }
});

test("which rows are plain: those that draw, report nothing, and edit nothing", () => {
  const given = (rows: SamplingRows) => rows.setGiven(0, -1);
  const edits: ((rows: SamplingRows) => void)[] = [
    given,
    (rows) => rows.setDraw({ ...DRAW, logprobs: 0 }, 0),
    (rows) => rows.setMask(Int32Array.of()),
    (rows) => rows.setBias([[0, 1]]),
    (rows) => rows.setForbidden(Int32Array.of(9)),
    (rows) => rows.setPenalties({ ...DRAW, repetitionPenalty: 2 }, Int32Array.of(1), 1, 1),
    (rows) => rows.setPenalties({ ...DRAW, presencePenalty: 2 }, Int32Array.of(1), 0, 1),
    (rows) => {
      rows.setPenalties({ ...DRAW, presencePenalty: 2 }, Int32Array.of(1), 0, 1);
      rows.setBias([[0, 1]]);
    },
    (rows) => rows.setPenalties({ ...DRAW, repetitionPenalty: 2 }, Int32Array.of(1, 2), 1, 2),
  ];
  const rows = new SamplingRows();
  assert.equal(rows.numLists, 0);
  for (const edit of edits) {
    rows.add(0);
    rows.setPenalties({ ...DRAW, presencePenalty: 2 }, Int32Array.of(1, 2), 2, 2);
    assert.ok(isPlainRow(rows, rows.count - 1), "a prompt alone is penalized by repetition only");
    edit(rows);
    assert.equal(isPlainRow(rows, rows.count - 1), false, String(edit));
  }
});

test("a mask that begins the lists counts; a forbidden id outside the vocabulary does not", () => {
  const masked = (count: number) => edited(new Array(count).fill(1), (rows) => rows.setMask(Int32Array.of(0b101, -1)));
  assert.deepEqual([masked(3), masked(34).filter(Number.isFinite).length], [[1, Number.NEGATIVE_INFINITY, 1], 4]);
  assert.deepEqual(
    edited([1, 1], (rows) => rows.setForbidden(Int32Array.of(2, 1))),
    [1, Number.NEGATIVE_INFINITY],
  );
});

test("rows start plain, and grow without losing what they hold", () => {
  const rows = new SamplingRows(1);
  for (let i = 0; i < 100; i++) {
    rows.add(i);
    rows.setDraw({ ...DRAW, temperature: i }, i / 100);
    if (i % 2 === 1) rows.setForbidden(new Int32Array(50).fill(i));
  }
  for (let i = 0; i < 100; i++) {
    assert.equal(isPlainRow(rows, i), i % 2 === 0);
    assert.equal(rows.doubles[i * 11], i / 100);
    assert.equal(rows.floats[i * 22 + 2], i);
  }
  assert.equal(rows.lists[rows.numLists - 1], 99);
});

test("lists lie one behind the other, whatever their lengths, and grow as they must", () => {
  const rows = new SamplingRows(1);
  const numLists: number[] = [];
  const values = edited(new Array(3000).fill(1), (row) => {
    row.setForbidden(Int32Array.from({ length: 1000 }, (_, i) => i));
    numLists.push(row.numLists);
    row.setBias(Array.from({ length: 500 }, (_, i) => [1000 + i, i] as const));
    numLists.push(row.numLists);
    row.setPenalties({ ...DRAW, presencePenalty: 1 }, Int32Array.of(2000, 2001, 2002), 1, 3);
    numLists.push(row.numLists);
    row.setMask(new Int32Array(94).fill(-1));
    numLists.push(row.numLists);
  });
  assert.deepEqual(numLists, [1000, 2000, 2002, 2096]);
  const expected = (id: number) => {
    if (id < 1000) return Number.NEGATIVE_INFINITY;
    return id < 1500 ? 1 + id - 1000 : id === 2001 || id === 2002 ? 0 : 1;
  };
  assert.deepEqual(
    values,
    Array.from({ length: 3000 }, (_, id) => expected(id)),
  );
  rows.setForbidden(new Int32Array(2048).fill(7));
  assert.ok(rows.lists.length >= 2048 && rows.lists[2047] === 7, "as much as one list needs");
});

test("tokens that rows bring stay in the history, and those to come follow them", () => {
  const history = new Int32Array(20);
  const sampling = { ...DRAW, repetitionPenalty: 2, frequencyPenalty: 1 };
  const tokens = Int32Array.of(0, 1, 2, 2, 3);
  const logits = Float32Array.of(8, 8, 8, 8, 8);
  const penalized = (numTokens: number, numHeld: number) => {
    const rows = new SamplingRows(1);
    rows.add(0);
    rows.setPenalties(sampling, tokens, 2, numTokens, 10, numHeld);
    keepTokens(history, rows);
    let seen: number[] = [];
    sampleRow(createSampled(1), 0, logits, rows, 0, history, (values) => {
      seen = [...values];
    });
    assert.equal(rows.numLists, numTokens - numHeld);
    return seen;
  };
  assert.deepEqual(penalized(2, 0), [4, 4, 8, 8, 8]);
  assert.deepEqual(penalized(3, 2), [4, 4, 3, 8, 8]);
  assert.deepEqual(penalized(5, 3), [4, 4, 2, 3, 8]);
  assert.deepEqual(penalized(4, 4), [4, 4, 2, 8, 8], "held ones alone, and not those behind them");
  assert.deepEqual([...history.subarray(9, 16)], [0, 0, 1, 2, 2, 3, 0]);
});
