// The rule of sampling rows: edits in their order, the choice, reports.

import assert from "node:assert/strict";
import { test } from "node:test";
import { createSampled, sampleRow } from "./sample-row.js";
import { SAMPLING_DEFAULTS, type SamplingParams } from "./sampling.js";
import { isPlainRow, MAX_TOP_LOGPROBS, SamplingRows } from "./sampling-rows.js";

const DRAW: SamplingParams = { ...SAMPLING_DEFAULTS, temperature: 0, seed: 0, maxTokens: 1 };

/** The logits that a row is chosen from, after what `edit` sets. */
function edited(logits: readonly number[], edit: (rows: SamplingRows) => void): number[] {
  const rows = new SamplingRows(1);
  rows.add(0);
  rows.setDraw(DRAW, 0);
  edit(rows);
  let seen: number[] = [];
  sampleRow(createSampled(1), 0, Float32Array.from(logits), rows, 0, (values) => {
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
});

test("presence and frequency penalties count the answer only", () => {
  const sampling = { presencePenalty: 0.5, frequencyPenalty: 0.25 };
  assert.deepEqual(edited([0, 0, 0, 0], penalties([0, 0], [1, 2, 2], sampling)), [0, -0.75, -1, 0]);
  assert.deepEqual(edited([0, 0, 0, 0], penalties([3], [], { presencePenalty: 1 })), [0, 0, 0, 0]);
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

test("rows start plain, and grow without losing what they hold", () => {
  const rows = new SamplingRows(1);
  for (let i = 0; i < 100; i++) {
    rows.add(i);
    rows.setDraw({ ...DRAW, temperature: i }, i / 100);
    if (i % 2 === 1) rows.setForbidden(new Int32Array(50).fill(i));
  }
  for (let i = 0; i < 100; i++) {
    assert.equal(isPlainRow(rows, i), i % 2 === 0);
    assert.equal(rows.doubles[i * 10], i / 100);
    assert.equal(rows.floats[i * 20 + 2], i);
  }
  assert.equal(rows.lists[rows.numLists - 1], 99);
});
