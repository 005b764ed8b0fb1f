import assert from "node:assert/strict";
import { test } from "node:test";
import { seeded } from "../../test/support/byte-matcher.js";
import { StepCostModel } from "./step-cost-model.js";

/** After 500 steps of 1 to 100 tokens that take `stepMs` and `tokenMs` for each token. */
function paceOf(stepMs: number, tokenMs: number, targetMs: number): StepCostModel {
  const random = seeded(5);
  const pace = new StepCostModel(targetMs);
  for (let i = 0; i < 500; i++) {
    const numTokens = 1 + Math.floor(100 * random());
    pace.observe(numTokens, stepMs + tokenMs * numTokens);
  }
  return pace;
}

const isNear = (value: number, expected: number): void =>
  assert.ok(Math.abs(value - expected) <= 0.1 * expected + 1, `${value}, not about ${expected}`);

test("what the step takes and what a token takes are told apart", () => {
  const pace = paceOf(4, 0.5, 20);
  isNear(pace.targetTokens, 32);
  isNear(pace.targetDecodes, 16);
  isNear(pace.stepTokens, 8);
  isNear(paceOf(0.1, 0.005, 0.5).targetTokens, 80); // as fast as a GPU's
});

test("where the step itself is expensive, tokens are not cut to a target that fewer of them would not reach", () => {
  const pace = paceOf(100, 2, 20);
  isNear(pace.targetTokens, 50);
  assert.equal(pace.targetDecodes, 0);
});

test("nothing is limited without a target, nor before a step of some length was seen", () => {
  assert.equal(paceOf(1, 1, 0).targetTokens, Number.POSITIVE_INFINITY);
  const pace = new StepCostModel(20);
  pace.observe(3, 1000);
  assert.equal(pace.targetDecodes, Number.POSITIVE_INFINITY);
});

test("the first step of 32 tokens says what a token takes; a later one moves both parts half of a surprise, the step's more", () => {
  const pace = new StepCostModel(100);
  pace.observe(31, 62);
  pace.observe(32, 0);
  assert.equal(pace.targetTokens, Number.POSITIVE_INFINITY);
  pace.observe(32, 64);
  assert.deepEqual([pace.targetTokens, pace.targetDecodes, pace.stepTokens], [50, 25, 0]);
  // 32 tokens were to take 64 ms and take 80: half of 16, halved between step and tokens: 4 ms, and 4 ms on 32 tokens.
  pace.observe(32, 80);
  assert.deepEqual([pace.targetTokens, pace.targetDecodes, pace.stepTokens], [45, 22, 1]);
  pace.observe(32, 0); // a clock that stood still says nothing
  assert.deepEqual([pace.targetTokens, pace.targetDecodes, pace.stepTokens], [45, 22, 1]);
});

test("however much quicker a step was than expected, tokens are thought to take no less than half", () => {
  const pace = paceOf(100, 0.1, 200);
  isNear(pace.targetTokens, 1000);
  pace.observe(32, 1); // 103 ms were expected: the step is thought to take 6.4 ms less
  isNear(pace.targetTokens, (200 - 93.6) / 0.05);
});

test("a machine that gets busier or quieter is followed within a few steps; one slow step changes little", () => {
  const pace = paceOf(0, 0.5, 20);
  pace.observe(40, 5000);
  assert.ok(pace.targetTokens >= 34, `${pace.targetTokens}`);
  for (const [tokenMs, expected] of [
    [1, 20],
    [0.25, 80],
  ] as const) {
    for (let i = 0; i < 30; i++) pace.observe(40, 40 * tokenMs);
    const seen = pace.targetTokens;
    assert.ok(seen > 0.6 * expected && seen < 1.4 * expected, `${seen}, not about ${expected}`);
  }
});
