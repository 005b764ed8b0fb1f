// The oracle against numbers worked out by hand or by another formula. Every other device is compared with it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { activate, erf, gatedOss } from "../../core/activation.js";
import { Batch } from "../../core/batch.js";
import type { HostTensor } from "../../core/tensor.js";
import type { ExpertWeights, KvDtype, RouterSpec } from "../device.js";
import { ReferenceKvPool, roundTo } from "./kv-pool.js";
import { route } from "./moe.js";
import { ReferenceDevice } from "./reference-device.js";

const device = new ReferenceDevice();

function host(values: readonly number[], rows: number, cols: number): HostTensor {
  const bytes = new Uint8Array(Float32Array.from(values).buffer);
  return { name: "w", dtype: "f32", shape: [rows, cols], file: null, byteLength: bytes.length, bytes: () => bytes };
}

function tensor(values: readonly number[], rows = 1) {
  return device.loadTensor(Float32Array.from(values), rows, values.length / rows);
}

function near(found: ArrayLike<number>, expected: readonly number[], tolerance = 1e-6): void {
  assert.equal(found.length, expected.length);
  for (let i = 0; i < expected.length; i++) {
    assert.ok(Math.abs(found[i]! - expected[i]!) <= tolerance, `[${i}]: ${found[i]}, expected ${expected[i]}`);
  }
}

test("matmul: rows of the weight are outputs; scale covers the bias; accumulation comes last", () => {
  const weight = device.loadWeight([host([1, 2, 3, 4, 5, 6], 2, 3), host([1, 0, -1], 1, 3)]);
  const x = tensor([1, 1, 1, 2, 0, -1], 2);
  const out = device.allocTensor(2, 3);
  device.matmul(out, x, weight, 2);
  near(out.data, [6, 15, 0, -1, 2, 3]);
  device.matmul(out, x, weight, 1, { bias: tensor([10, 20, 30]), scale: 0.5, accumulate: true });
  near(out.data, [6 + 8, 15 + 17.5, 0 + 15, -1, 2, 3]);
});

test("matmul: transposed parts, and the numbers that q8 and q4 can hold", () => {
  const transposed = device.loadWeight([host([1, 4, 2, 5, 3, 6], 3, 2)], { transposed: true });
  assert.deepEqual([...transposed.data], [1, 2, 3, 4, 5, 6]);
  const values = Array.from({ length: 32 }, (_, i) => (i === 0 ? -8 : Math.sin(i)));
  const q4 = device.loadWeight([host(values, 1, 32)], { quantize: "q4" });
  near(q4.data, [-8, ...values.slice(1).map((v) => Math.floor(v + 8.5) - 8)]); // d = 1
  const q8 = device.loadWeight([host(values, 1, 32)], { quantize: "q8" });
  near(q8.data, values, 8 / 127);
  assert.ok(q8.data.some((v, i) => v !== Math.fround(values[i]!)));
});

test("rmsNorm and layerNorm", () => {
  const out = device.allocTensor(1, 4);
  device.rmsNorm(out, tensor([3, -3, 3, 3]), tensor([1, 2, 3, 4]), 0, 1);
  near(out.data, [1, -2, 3, 4]);
  device.rmsNorm(out, tensor([5, 5, 0, 2]), tensor([1, 1]), 0, 1, 2);
  near(out.data, [1, 1, 0, Math.SQRT2]);
  device.layerNorm(out, tensor([1, 3, 1, 3]), tensor([1, 1, 2, 2]), tensor([0, 10, 0, 0]), 0, 1);
  near(out.data, [-1, 11, -2, 2]);
});

test("activations at known points", () => {
  near(
    [erf(0), erf(0.5), erf(1), erf(-2), erf(7)],
    [0, 0.5204998778130465, 0.8427007929497149, -0.9953222650189527, 1],
    1e-15,
  );
  near([activate("silu", 1), activate("silu", -20)], [0.7310585786300049, -20 / (1 + Math.exp(20))], 1e-15);
  near([activate("gelu", 1), activate("gelu_tanh", 1)], [0.8413447460685429, 0.8411919906082768], 1e-14);
  near([activate("relu", -3), activate("relu2", 3), activate("relu2", -3)], [0, 9, 0]);
  near([gatedOss(9, 100)], [8 * 7 * (1 / (1 + Math.exp(-1.702 * 7)))], 1e-12); // both clamped
  near([gatedOss(-9, -100)], [-6 * -9 * (1 / (1 + Math.exp(1.702 * 9)))], 1e-12); // the gate has no lower clamp
});

test("softcap", () => {
  const x = tensor([0, 30, -1e9]);
  device.map(x, device.createMap({ kind: "softcap", cap: 30 }), x, null, 1);
  near(x.data, [0, 30 * Math.tanh(1), -30], 1e-5);
});

test("rotary: a quarter turn, both pairings, positions from the batch", () => {
  const batch = new Batch(4, 4);
  batch.addRow(Int32Array.of(0, 0, 0), 1, 2, Int32Array.of(1), 9); // positions 1 and 2
  const staged = device.createStagedBatch(4);
  device.stage(staged, batch, []);
  const invFreq = Float32Array.of(Math.PI / 2, 0);
  for (const [interleaved, expected] of [
    [false, [-3, 2, 1, 4, -1, 2, -3, 4]],
    [true, [-2, 1, 3, 4, -1, -2, 3, 4]],
  ] as const) {
    const table = device.createRotary({ invFreq, scale: 1, interleaved }, 4);
    const x = tensor([1, 2, 3, 4, 1, 2, 3, 4], 2);
    device.rotaryTable(table, staged);
    device.rotary(x, table, 4, 0, staged);
    near(x.data, expected);
  }
});

test("KV dtypes: what is written is what the dtype holds", () => {
  const values = Float32Array.of(1.0009765625, 1.00048828125, 65519, -1e-8, 3);
  const rounded = (dtype: KvDtype): number[] => {
    const copy = values.slice();
    roundTo(dtype, copy, 0, copy.length);
    return [...copy];
  };
  assert.deepEqual(rounded("f16"), [1.0009765625, 1, 65504, -0, 3]); // a tie goes to the even neighbour
  assert.deepEqual(rounded("bf16").slice(0, 3), [1, 1, 65536]);
  near(rounded("i8"), [0, 0, 65519, 0, 0], 0.01); // steps of 516
  const small = Float32Array.of(254, 1.4 * 2, -5);
  roundTo("i8", small, 0, 3);
  assert.deepEqual([...small], [254, 2, -4], "steps of 2, ties to even");
  assert.deepEqual(rounded("fp8"), [1, 1, 57344, -0, 3], "cut off where the largest scale, 2^7, ends");
  const halves = Float32Array.of(449, 34, -38, 2 ** -9);
  roundTo("fp8", halves, 0, 4);
  assert.deepEqual([...halves], [448, 32, -40, 0], "steps of 4 from 32 on, ties to even; the scale is 2");
});

test("the pool refuses what cannot be allocated, before it tries", () => {
  const spec = { pageSize: 16, numLayers: 32, numKvHeads: 8, keyDim: 128, valueDim: 128, dtype: "f32" as const };
  assert.throws(() => new ReferenceKvPool({ ...spec, numPages: 1e6 }), /cannot allocate .* the KV pool/);
  assert.throws(() => device.allocTensor(1e6, 1e6), /cannot allocate/);
  // A page is one block of 32 x 2 x 8 x 16 x 128 numbers (checklist A1).
  assert.equal(device.kvPageBytes(spec), 4 * 1_048_576);
});

test("route: softmax, then the best; ties to the lower id", () => {
  const spec: RouterSpec = {
    numExperts: 4,
    topK: 2,
    score: "softmax",
    normalize: false,
    scale: 1,
    bias: null,
    numGroups: 1,
    topkGroup: 1,
  };
  const logits = [0, Math.log(3), 0, Math.log(4)]; // weights 1, 3, 1, 4 of 9
  const plain = route(logits, spec);
  assert.deepEqual(plain.ids, [3, 1]);
  near(plain.weights, [4 / 9, 3 / 9]);
  near(route(logits, { ...spec, normalize: true, scale: 2 }).weights, [8 / 7, 6 / 7]);
  near(route(logits, { ...spec, score: "softmax_topk" }).weights, [4 / 7, 3 / 7]);
  assert.deepEqual(route([1, 1, 1, 1], spec).ids, [0, 1]);
});

test("route: the chosen are different experts whatever the logits are; NaN counts as -infinity", () => {
  const spec = {
    numExperts: 4,
    topK: 3,
    score: "softmax",
    normalize: true,
    scale: 1,
    bias: null,
    numGroups: 1,
    topkGroup: 1,
  } as const;
  const { NaN: nan, POSITIVE_INFINITY: inf } = Number;
  const scores = ["softmax", "softmax_topk", "sigmoid"] as const;
  for (const score of scores)
    for (const logits of [
      [nan, nan, nan, nan],
      [-inf, -inf, -inf, -inf],
      [inf, inf, inf, inf],
    ])
      assert.deepEqual(route(logits, { ...spec, score }).ids, [0, 1, 2], `${score} of ${logits}`);
  assert.deepEqual(route([nan, 1, inf, 2], { ...spec, score: "sigmoid" }).ids, [2, 3, 1]);
  assert.deepEqual(route([nan, -inf, 0, nan], { ...spec, score: "softmax_topk", topK: 4 }).ids, [2, 0, 1, 3]);
  const groups = { ...spec, score: "softmax_topk", topK: 2, numGroups: 2 } as const;
  for (const groupBest of [1, 2] as const)
    assert.deepEqual(route([nan, nan, 0, nan], { ...groups, groupBest }).ids, [2, 3]); // never from a group that is left out
});

test("route: bias and groups count for the choice, the score for the weight", () => {
  const spec: RouterSpec = {
    numExperts: 6,
    topK: 2,
    score: "sigmoid",
    normalize: false,
    scale: 1,
    bias: tensor([0, 0, 5, 0, 0, 0]),
    numGroups: 3,
    topkGroup: 1,
  };
  // Group 1 (experts 2, 3) wins by the bias alone; its two experts are chosen though 0 scores higher.
  const { ids, weights } = route([3, -9, 0, -9, 2, -9], spec);
  assert.deepEqual(ids, [2, 3]);
  near(weights, [0.5, 1 / (1 + Math.exp(9))]);
});

test("mixtureOfExperts: the weighted sum of the chosen ones", () => {
  const router: RouterSpec = {
    numExperts: 2,
    topK: 1,
    score: "softmax",
    normalize: true,
    scale: 3,
    bias: null,
    numGroups: 1,
    topkGroup: 1,
  };
  const experts: ExpertWeights = {
    gateUp: [device.loadWeight([host([1, 0, 0, 1], 2, 2)]), device.loadWeight([host([0, 0, 0, 0], 2, 2)])],
    down: [device.loadWeight([host([1, 2], 2, 1)]), device.loadWeight([host([1, 2], 2, 1)])],
    gateUpBias: null,
    downBias: tensor([0, 0, 7, 8], 2),
    inner: 1,
    activation: "silu",
  };
  const out = device.allocTensor(2, 2);
  device.mixtureOfExperts(out, tensor([2, 5, 2, 5], 2), tensor([9, 0, 0, 9], 2), router, experts, 2);
  const silu = 2 / (1 + Math.exp(-2));
  near(out.data, [3 * silu * 5, 3 * 2 * silu * 5, 21, 24], 1e-5);
});
