import assert from "node:assert/strict";
import { test } from "node:test";
import { argmax, chooseToken } from "./choose-token.js";
import { uniformAt } from "./random.js";

const f32 = (...values: number[]) => new Float32Array(values);
const open = { temperature: 1, topK: 0, topP: 1, minP: 0 };

test("greedy takes the highest logit, the lowest id on ties, never NaN", () => {
  assert.equal(argmax(f32(1, 3, 3, 2)), 1);
  assert.equal(argmax(f32(4, 3)), 0);
  assert.equal(argmax(f32(Number.NaN, -5, Number.NEGATIVE_INFINITY)), 1);
  assert.equal(argmax(f32(Number.NaN, Number.NaN)), 0);
  assert.equal(chooseToken(f32(1, 2, 9, 9), { ...open, temperature: 0 }, 0.99), 2);
});

test("without filters the draw follows the softmax in id order", () => {
  const logits = f32(Math.log(0.5), Math.log(0.25), Math.log(0.25));
  assert.equal(chooseToken(logits, open, 0), 0);
  assert.equal(chooseToken(logits, open, 0.49), 0);
  assert.equal(chooseToken(logits, open, 0.51), 1);
  assert.equal(chooseToken(logits, open, 0.76), 2);
  assert.equal(chooseToken(logits, open, 0.999999), 2);
});

/** A second, direct statement of the rule: full sort, no shortcuts. */
function plainChoice(logits: Float32Array, rule: typeof open, u: number): number {
  const numbers = [...logits.keys()].filter((id) => !Number.isNaN(logits[id]));
  let order = numbers.sort((a, b) => logits[b]! - logits[a]! || a - b);
  if (rule.topK > 0) order = order.slice(0, rule.topK);
  const top = logits[order[0]!]!;
  const p = (id: number) => Math.exp((logits[id]! - top) / rule.temperature);
  if (rule.topP < 1) {
    const total = order.reduce((s, id) => s + p(id), 0);
    let sum = 0;
    order = order.filter((id) => {
      const keep = sum < rule.topP * total;
      sum += p(id);
      return keep;
    });
  }
  order = order.filter((id) => p(id) >= rule.minP);
  const total = order.reduce((s, id) => s + p(id), 0);
  let sum = 0;
  for (const id of order) {
    sum += p(id);
    if (sum > u * total) return id;
  }
  return order.at(-1)!;
}

test("filters agree with a plain statement of the rule", () => {
  let at = 0;
  const next = () => uniformAt(7, 0, at++);
  for (let trial = 0; trial < 300; trial++) {
    const logits = Float32Array.from(
      { length: 1 + Math.floor(next() * 400) },
      () => Math.round((next() - 0.5) * 60) / 4,
    );
    const rule = {
      temperature: 0.2 + next() * 2,
      topK: next() < 0.5 ? 0 : 1 + Math.floor(next() * 50),
      topP: next() < 0.4 ? 1 : next(),
      minP: next() < 0.5 ? 0 : next() * 0.3,
    };
    if (rule.topK === 0 && rule.topP === 1 && rule.minP === 0) continue;
    const u = next();
    assert.equal(chooseToken(logits, rule, u), plainChoice(logits, rule, u), JSON.stringify({ rule, u, trial }));
  }
});

test("top-k 1, top-p 0 and min-p 1 are greedy", () => {
  const logits = f32(0, 2, 5, 1);
  for (const rule of [{ topK: 1 }, { topP: 0 }, { minP: 1 }])
    for (const u of [0, 0.5, 0.9999]) assert.equal(chooseToken(logits, { ...open, ...rule }, u), 2);
});

test("unlikely tokens count as long as the filters let them, however many they are; NaN and minus infinity never do", () => {
  const logits = Float32Array.from({ length: 3000 }, (_, id) => (id === 1000 ? 0 : -5 - (id % 3)));
  for (const id of [0, 7, 999, 2999]) logits[id] = id % 2 === 0 ? Number.NaN : Number.NEGATIVE_INFINITY;
  for (const filter of [
    ...[{ topP: 0.5 }, { topP: 0.999 }, { minP: 0.006 }, { minP: 1e-3 }, { minP: 1e-9 }, { topK: 2 }, { topK: 1500 }],
    ...[
      { topK: 2999 },
      { topK: 1 },
      { topP: 0.5, minP: 1e-3 },
      { topK: 2000, topP: 0.9 },
      { topP: 0.9, temperature: 400 },
    ],
  ]) {
    const rule = { ...open, ...filter };
    for (const u of [0, 0.03, 0.3, 0.6, 0.9, 0.9999])
      assert.equal(chooseToken(logits, rule, u), plainChoice(logits, rule, u), JSON.stringify({ filter, u }));
  }
  const [none, nan] = [Number.NEGATIVE_INFINITY, Number.NaN];
  for (const u of [0, 0.4, 0.6, 1]) {
    assert.equal(chooseToken(f32(none, nan, 3, none, 3, nan), open, u), u < 0.5 ? 2 : 4, "in id order");
    assert.equal(chooseToken(f32(none, nan, 3, none, 3, nan), { ...open, topK: 2 }, u), u < 0.5 ? 2 : 4);
  }
});

test("borders: who is drawn where sums meet exactly, what a share or a least probability still takes in", () => {
  const same = f32(0, 0, 0, 0);
  for (const rule of [open, { ...open, topK: 4 }]) {
    assert.deepEqual(
      [0, 0.25, 0.5, 0.75].map((u) => chooseToken(same, rule, u)),
      [0, 1, 2, 3],
    );
  }
  assert.equal(chooseToken(same, { ...open, topP: 0.5 }, 0.9), 1, "two reach a half");
  assert.equal(chooseToken(same, { ...open, topP: 0.51 }, 0.9), 2);
  assert.equal(chooseToken(same, { ...open, topK: 2, topP: 0.5 }, 0.9), 0, "a share of the two that are left");
  const steps = f32(0, -1, -2);
  assert.equal(chooseToken(steps, { ...open, minP: Math.exp(-1) }, 0.9999), 1, "as probable as it must be");
  assert.equal(chooseToken(steps, { ...open, minP: 0.3679 }, 0.9999), 0);
  assert.equal(chooseToken(f32(2000, 1999.5), open, 0.99), 1, "large logits do not overflow");
  assert.equal(chooseToken(f32(2000, 1999.5), { ...open, topK: 2 }, 0.99), 1);
});

test("XTC leaves out all tokens that reach the threshold but the least probable one, after the filters, tied ones by their ids", () => {
  const logits = f32(0, 2, 5, 4.5, 4);
  const drawn = (rule: Partial<typeof open> & { xtcThreshold?: number }, of = logits) =>
    new Set(Array.from({ length: 200 }, (_, i) => chooseToken(of, { ...open, ...rule }, i / 200)));
  for (const filter of [{}, { topK: 5 }, { minP: 1e-6 }, { topP: 0.99999 }]) {
    assert.deepEqual([...drawn({ ...filter, xtcThreshold: 0.15 })].toSorted(), [0, 1, 4], "of 2, 3 and 4 the last");
    assert.deepEqual([...drawn({ ...filter, xtcThreshold: 0.25 })].toSorted(), [0, 1, 3, 4]);
    assert.deepEqual(drawn({ ...filter, xtcThreshold: 0.9 }), drawn(filter), "none reaches it");
    assert.deepEqual(drawn({ ...filter, xtcThreshold: 0.4 }), drawn(filter), "one alone stays");
  }
  assert.deepEqual([...drawn({ topK: 2, xtcThreshold: 0.3 })], [3], "shares are of what the filters left");
  assert.deepEqual([...drawn({ xtcThreshold: 0.1 }, f32(1, 1, 1, 1))], [3]);
  assert.deepEqual([...drawn({ topK: 4, xtcThreshold: 0.1 }, f32(1, 1, 1, 1))], [3]);
  assert.deepEqual([...drawn({ xtcThreshold: 0 }, f32(1, 0, Number.NEGATIVE_INFINITY))], [1]);
  assert.equal(chooseToken(logits, { ...open, temperature: 0, xtcThreshold: 0.1 }, 0.5), 2, "greedy is greedy");
  const many = Float32Array.from({ length: 100_000 }, (_, i) => Math.sin(i) * 20);
  const cpuOf = (xtcThreshold: number): number => {
    const before = process.cpuUsage();
    for (let i = 0; i < 4; i++) chooseToken(many, { ...open, xtcThreshold }, 0.5);
    return process.cpuUsage(before).user;
  };
  cpuOf(0.1);
  assert.ok(cpuOf(0) < 4 * cpuOf(0.1), "a whole vocabulary that reaches it is not sorted");
});
