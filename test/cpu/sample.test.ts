// Sampling on the cpu device against the rule in TypeScript, on vocabularies of real size and on rows made to be difficult.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type ChoiceRule, chooseToken } from "../../src/core/choose-token.js";
import { CpuDevice } from "../../src/device/cpu/cpu-device.js";
import { noise } from "../support/attention-case.js";
import { ISAS } from "../support/isas.js";
import { drawsOf, sampledOf } from "../support/sampled.js";

function sampleOn(device: CpuDevice, rows: Float32Array[], rules: ChoiceRule[], uniforms: number[]): number[] {
  const n = rows.length;
  const vocab = rows[0]!.length;
  const flat = new Float32Array(n * vocab);
  for (const [r, row] of rows.entries()) flat.set(row, r * vocab);
  const out = sampledOf(n);
  const specs = rules.map((rule, r) => ({ ...rule, uniform: uniforms[r]! }));
  device.sample(out, 0, device.loadTensor(flat, n, vocab), n, drawsOf(specs, vocab));
  return [...out.ids];
}

/** The rule, with -1 where nothing can be chosen. */
function chosen(row: Float32Array, rule: ChoiceRule, uniform: number): number {
  const token = chooseToken(row, rule, uniform);
  return row[token]! > Number.NEGATIVE_INFINITY ? token : -1;
}

const FREE: ChoiceRule = { temperature: 1, topK: 0, topP: 1, minP: 0 };
const RULES: ChoiceRule[] = [
  FREE,
  { ...FREE, temperature: 0 },
  { ...FREE, temperature: 0.25 },
  { ...FREE, topK: 1 },
  { ...FREE, topK: 50 },
  { ...FREE, topK: 3000 },
  { ...FREE, topP: 0.5 },
  { ...FREE, topP: 0.9375 },
  { ...FREE, topP: 0 },
  { ...FREE, minP: 0.0625 },
  { temperature: 2, topK: 200, topP: 0.75, minP: 0.03125 },
];

/** Logits of a peaked, a flat and a coarse row (many ties), all exact in f32. */
function rowOf(kind: number, vocab: number): Float32Array {
  return Float32Array.from({ length: vocab }, (_, i) => {
    const z = noise(kind, i, 2, 3);
    if (kind % 3 === 0) return 12 * z * Math.abs(z);
    if (kind % 3 === 1) return z / 100;
    return Math.round(4 * z);
  });
}

for (const isa of ISAS) {
  test(`${isa}: equals the rule for every filter, on a vocabulary of 49152`, () => {
    const device = new CpuDevice({ threads: 2, isa });
    const rows: Float32Array[] = [];
    const rules: ChoiceRule[] = [];
    const uniforms: number[] = [];
    const kinds = [0, 1, 2].map((kind) => rowOf(kind, 49152));
    for (const rule of RULES) {
      for (const kind of kinds) {
        rows.push(kind);
        rules.push(rule);
        uniforms.push(0.5 + noise(7, rows.length, 0, 0) / 2);
      }
    }
    const want = rows.map((row, r) => chosen(row, rules[r]!, uniforms[r]!));
    assert.deepEqual(sampleOn(device, rows, rules, uniforms), want);
    device.close();
  });

  test(`${isa}: NaN and -Infinity never win, ties go to the lower id, the ends of the draw hold`, () => {
    const device = new CpuDevice({ threads: 1, isa });
    const vocab = 601;
    const blank = () => new Float32Array(vocab).fill(Number.NEGATIVE_INFINITY);
    const one = blank();
    one[400] = -3;
    const two = blank();
    two[0] = 1;
    two[600] = 1;
    const poisoned = rowOf(0, vocab).map((x, i) => (i % 3 === 0 ? Number.NaN : x));
    const empty = blank();
    const nan = new Float32Array(vocab).fill(Number.NaN);
    const infinite = rowOf(1, vocab);
    infinite[77] = Number.POSITIVE_INFINITY;
    const rows = [one, two, poisoned, empty, nan, infinite];
    for (const rule of RULES) {
      for (const uniform of [0, 0.4999, 0.5, 1 - 2 ** -53]) {
        const rules = rows.map(() => rule);
        const uniforms = rows.map(() => uniform);
        const want = rows.map((row) => chosen(row, rule, uniform));
        assert.deepEqual(sampleOn(device, rows, rules, uniforms), want, JSON.stringify({ rule, uniform }));
      }
    }
    device.close();
  });
}
