import assert from "node:assert/strict";
import { test } from "node:test";
import { writeTinyEncoder } from "../../../../test/support/tiny-encoder.js";
import { ReferenceDevice } from "../../../device/reference/reference-device.js";
import { familyOf } from "../../../models/registry.js";
import { openCheckpoint } from "../../checkpoint.js";
import { ModelRunner, type RunRange } from "./model-runner.js";
import { compareVectors, largestDifference, OTHER_TEXT } from "./verify-vectors.js";

const PROMPT = [2, 6, 7, 8, 9, 3];
const HIDDEN = 32;

function loaded() {
  const {
    config: raw,
    configFile,
    openTensors,
  } = openCheckpoint(writeTinyEncoder({ architectures: ["BertForSequenceClassification"], num_labels: 2 }));
  const device = new ReferenceDevice();
  const family = familyOf(raw, configFile);
  const capacity = { maxTokens: 40, maxLogitRows: 1 };
  const source = openTensors();
  const model = family.load(family.parseConfig(raw, configFile), { device, source, capacity, quantize: "none" });
  source.close();
  return { model, runner: new ModelRunner({ ...capacity, device, model, numSequences: 2, maxLength: 40 }) };
}

test("each vector and score that a golden has is compared; the largest difference counts", async () => {
  const { model, runner } = loaded();
  const range: RunRange = { sequence: 0, tokens: PROMPT, start: 0, end: 6, logitsFrom: Number.POSITIVE_INFINITY };
  const hidden = await runner.runHidden([range]);
  const state = (t: number) => [...hidden.subarray(t * HIDDEN, (t + 1) * HIDDEN)];
  const first = state(0);
  const mean = first.map((_, d) => Math.fround([0, 1, 2, 3, 4, 5].reduce((sum, t) => sum + state(t)[d]!, 0) / 6));
  const scores = [...model.scorer!(Float32Array.from(first))];
  const right = { first, last: state(5), mean, scores };
  const differenceOf = (golden: object) => compareVectors({ prompt: PROMPT, ...golden }, runner, model);
  const same = await differenceOf(right);
  assert.ok(same.vectorDifference < 1e-6);
  assert.equal(same.neighbourDifference, 0);
  for (const [name, values] of Object.entries(right)) {
    const off = values.map((value, i) => (i === values.length - 1 ? value + 2 : i === 0 ? value - 1 : value));
    const { vectorDifference } = await differenceOf({ ...right, [name]: off });
    assert.ok(Math.abs(vectorDifference - 2) < 1e-5, `${name}: ${vectorDifference}`);
  }
});

test("the text beside it has 21 tokens of the vocabulary, and comes first", async () => {
  const { model, runner } = loaded();
  const seen: RunRange[][] = [];
  const runHidden = runner.runHidden.bind(runner);
  runner.runHidden = async (ranges) => {
    seen.push([...ranges]);
    const states = await runHidden(ranges);
    // What becomes of the other text is nobody's concern; a state of this one that moves is told.
    if (ranges.length === 2) states.fill(9, 0, OTHER_TEXT * HIDDEN).fill(states.at(-1)! + 0.5, -1);
    return states;
  };
  const { neighbourDifference } = await compareVectors({ prompt: [80, 6, 3] }, runner, model);
  assert.ok(Math.abs(neighbourDifference - 0.5) < 1e-5);
  const other = Array.from({ length: 21 }, (_, i) => (80 + 7 * i) % model.spec.vocabSize);
  assert.deepEqual(
    seen.map((ranges) => ranges.map(({ sequence, tokens, start, end }) => [sequence, tokens, start, end])),
    [
      [[0, [80, 6, 3], 0, 3]],
      [
        [1, other, 0, 21],
        [0, [80, 6, 3], 0, 3],
      ],
    ],
  );
});

test("the largest difference of two lists, NaN where their lengths differ", () => {
  assert.equal(largestDifference([1, 5, 3], [1, 2, 4]), 3);
  assert.equal(largestDifference([7], [7]), 0);
  assert.equal(largestDifference([9, 0], [1, 0]), 8);
  assert.ok(Number.isNaN(largestDifference([1, 2], [1])));
  assert.ok(Number.isNaN(largestDifference([1], [1, 2])));
});
