// Arithmetic of one number or one vector: activations, sizes, poolings.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Activation, activate, erf, gatedOss, sigmoid } from "./activation.js";
import { alignDown, alignUp, bucket, ceilDiv } from "./math.js";
import { isOfOneToken, POOLINGS, PooledState, type Pooling } from "./pooling.js";

function near(actual: number, expected: number): void {
  assert.ok(Math.abs(actual - expected) <= 1e-9 * Math.max(1, Math.abs(expected)), `${actual} is not ${expected}`);
}

test("activations have the values of their definitions", () => {
  const table: [Activation, number, number][] = [
    ["silu", 2, 1.7615941559557646],
    ["silu", -1.5, -0.2736382857101706],
    ["gelu_tanh", 2, 1.954597694087775],
    ["gelu_tanh", -0.5, -0.15428599017485606],
    ["gelu", 2, 1.9544997361036416],
    ["gelu", -0.5, -0.15426876936299344],
    ["relu", 0.5, 0.5],
    ["relu", -3, 0],
    ["relu2", 0.5, 0.25],
    ["relu2", 3, 9],
    ["relu2", -3, 0],
    ["sigmoid", 0, 0.5],
    ["sigmoid", 1, 0.7310585786300049],
    ["identity", -7, -7],
  ];
  for (const [kind, x, expected] of table) near(activate(kind, x), expected);
  near(sigmoid(-2), 0.11920292202211755);
  near(gatedOss(1, 2), 3 * 0.8457957659328212);
  assert.equal(gatedOss(100, 9), gatedOss(7, 7), "both halves have a largest value");
  assert.equal(gatedOss(3, -100), gatedOss(3, -7), "the linear half has a least one");
  assert.notEqual(gatedOss(6.9, 0), gatedOss(7, 0));
  assert.notEqual(gatedOss(7.5, 7.5), gatedOss(6.5, 6.5));
  near(gatedOss(-20, 3) / 1e-13, (4 * -20 * sigmoid(-34.04)) / 1e-13);
});

test("erf is right to fourteen digits from tiny to saturated, and odd", () => {
  for (const [x, expected] of [
    [0, 0],
    [1e-9, 1.1283791670955127e-9],
    [0.1, 0.1124629160182849],
    [1, 0.8427007929497149],
    [2.5, 0.9995930479825551],
    [4, 0.9999999845827421],
    [6.5, 1],
    [40, 1],
    [Number.POSITIVE_INFINITY, 1],
  ] as const) {
    for (const sign of [1, -1]) {
      const found = erf(sign * x);
      assert.ok(Math.abs(found - sign * expected) <= 1e-14 * Math.abs(expected), `erf(${sign * x}) = ${found}`);
    }
  }
});

test("sizes: division and multiples upwards and downwards, buckets at most a quarter larger", () => {
  assert.deepEqual([ceilDiv(0, 4), ceilDiv(1, 4), ceilDiv(4, 4), ceilDiv(5, 4)], [0, 1, 1, 2]);
  assert.deepEqual([alignDown(0, 4), alignDown(3, 4), alignDown(4, 4), alignDown(11, 4)], [0, 0, 4, 8]);
  assert.deepEqual([alignUp(0, 4), alignUp(1, 4), alignUp(4, 4), alignUp(9, 4)], [0, 4, 4, 12]);
  const sizes = new Set(Array.from({ length: 65 }, (_, count) => bucket(count)));
  assert.deepEqual([...sizes], [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64]);
  for (let count = 0; count < 65; count++) assert.ok(bucket(count) >= count);
});

test("poolings, of states that come in order; cleared, nothing is left of the text before", () => {
  const states = [
    [1, -2],
    [3, -8],
    [-4, -4],
    [8, -6],
  ].map((values) => Float32Array.from(values));
  const half = Math.fround;
  const expected: Partial<Record<Pooling, number[]>> = {
    mean: [2, -5],
    max: [8, -2],
    mean_sqrt_len: [4, -10],
    weighted_mean: [half((1 + 6 - 12 + 32) / 10), half((-2 - 16 - 12 - 24) / 10)],
  };
  for (const [pooling, vector] of Object.entries(expected) as [Pooling, number[]][]) {
    const state = new PooledState(pooling, 2);
    assert.equal(state.pooling, pooling);
    for (let round = 0; round < 2; round++) {
      states.forEach((values, position) => {
        state.add(values, position);
      });
      assert.deepEqual([...state.vector()], vector, pooling);
      state.clear();
    }
    state.add(Float32Array.of(-1, -3), 0);
    assert.deepEqual([...state.vector()], [-1, -3], "of one token, its own");
  }
  assert.deepEqual(POOLINGS.filter(isOfOneToken), ["first", "last"]);
});
