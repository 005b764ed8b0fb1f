// Sampling: the rule of core/choose-token.ts, token for token.

import assert from "node:assert/strict";
import type { Device, SampleInputs } from "../../src/device/device.js";
import type { Duel } from "./duel.js";
import { numbers, uniform } from "./inputs.js";

const VOCAB = 307;

interface Rule {
  readonly temperature: number;
  readonly topK: number;
  readonly topP: number;
  readonly minP: number;
}

const FREE: Rule = { temperature: 1, topK: 0, topP: 1, minP: 0 };
const RULES: Record<string, Rule> = {
  greedy: { ...FREE, temperature: 0 },
  free: FREE,
  hot: { ...FREE, temperature: 2.5 },
  "top-k": { ...FREE, topK: 5 },
  "top-k of one": { ...FREE, topK: 1 },
  "top-k beyond the vocabulary": { ...FREE, topK: 1000 },
  "top-p": { ...FREE, topP: 0.7 },
  "min-p": { ...FREE, minP: 0.2 },
  "all filters": { temperature: 0.8, topK: 40, topP: 0.9, minP: 0.05 },
};

export function sampleContract(duel: Duel): void {
  for (const [name, rule] of Object.entries(RULES)) {
    duel.test("sample", name, () => {
      const logits = numbers(64 * VOCAB, 90, 6);
      assert.deepEqual(
        choose(duel.device, logits, 64, () => rule),
        choose(duel.reference, logits, 64, () => rule),
      );
    });
  }

  duel.test("sample", "a rule of its own for each row", () => {
    const rules = Object.values(RULES);
    const logits = numbers(37 * VOCAB, 91, 6);
    const ruleOf = (r: number) => rules[r % rules.length]!;
    assert.deepEqual(choose(duel.device, logits, 37, ruleOf), choose(duel.reference, logits, 37, ruleOf));
  });

  duel.test("sample", "ties go to the lower id, NaN is never chosen, -inf is never drawn", () => {
    const logits = new Float32Array(4 * VOCAB).fill(Number.NEGATIVE_INFINITY);
    logits[7] = logits[9] = 3; // row 0: a tie
    logits.fill(Number.NaN, VOCAB, 2 * VOCAB); // row 1: one number among NaN
    logits[VOCAB + 300] = -5;
    logits[2 * VOCAB + 306] = 1; // row 2: the last id
    logits[3 * VOCAB] = 1; // row 3: the first id
    for (const temperature of [0, 1]) {
      const chosen = choose(duel.device, logits, 4, () => ({ ...FREE, temperature, topK: 1 }));
      assert.deepEqual([...chosen], [7, 300, 306, 0]);
    }
  });
}

function choose(device: Device, logits: Float32Array, n: number, ruleOf: (row: number) => Rule): Int32Array {
  const rows = Array.from({ length: n }, (_, r) => r);
  const inputs: SampleInputs = {
    temperature: Float32Array.from(rows, (r) => ruleOf(r).temperature),
    topK: Int32Array.from(rows, (r) => ruleOf(r).topK),
    topP: Float32Array.from(rows, (r) => ruleOf(r).topP),
    minP: Float32Array.from(rows, (r) => ruleOf(r).minP),
    uniform: Float64Array.from(rows, (r) => uniform(92, r)),
  };
  const out = device.createTokenBuffer(n);
  device.sample(out, 0, device.loadTensor(logits, n, VOCAB), n, inputs);
  device.endFlight(out);
  device.waitFor(out);
  return out.ids;
}
