import assert from "node:assert/strict";
import { test } from "node:test";
import { argmax, chooseToken } from "./choose-token.js";
import { uniformAt } from "./random.js";

const f32 = (...values: number[]) => new Float32Array(values);
const open = { temperature: 1, topK: 0, topP: 1, minP: 0 };

test("greedy takes the highest logit, the lowest id on ties, never NaN", () => {
  assert.equal(argmax(f32(1, 3, 3, 2)), 1);
  assert.equal(argmax(f32(Number.NaN, -5, Number.NEGATIVE_INFINITY)), 1);
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
  let order = [...logits.keys()].sort((a, b) => logits[b]! - logits[a]! || a - b);
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
