// Mixtures of experts: every kind of router, biases, the activations of experts.

import assert from "node:assert/strict";
import type { HostTensor, TensorDtype } from "../../src/core/tensor.js";
import type { Device, ExpertWeights, RouterSpec, Tensor } from "../../src/device/device.js";
import type { Tolerance } from "./device.js";
import { type Duel, readAll } from "./duel.js";
import { numbers, randomWeight, rowsOf } from "./inputs.js";

const E = 8;
const HIDDEN = 64;
const INNER = 40;
const MOST = 65;

type Router = Omit<RouterSpec, "bias" | "expertScale"> & { readonly hasBias: boolean; readonly hasScales?: boolean };

const SOFTMAX: Router = {
  numExperts: E,
  topK: 2,
  score: "softmax",
  normalize: true,
  scale: 1,
  hasBias: false,
  numGroups: 1,
  topkGroup: 1,
};

const ROUTERS: Record<string, Router> = {
  "softmax, normalised": SOFTMAX,
  "softmax as it is": { ...SOFTMAX, normalize: false, topK: 3 },
  "softmax over the chosen": { ...SOFTMAX, score: "softmax_topk", normalize: false, topK: 4 },
  "sigmoid, bias, groups": {
    ...SOFTMAX,
    score: "sigmoid",
    hasBias: true,
    scale: 2.5,
    numGroups: 4,
    topkGroup: 2,
    topK: 3,
  },
  "softmax, the best of each group": { ...SOFTMAX, normalize: false, numGroups: 4, topkGroup: 2, groupBest: 1 },
  "weights on the input": { ...SOFTMAX, score: "sigmoid", normalize: false, scalesInput: true },
  "weights with factors": { ...SOFTMAX, topK: 3, hasScales: true },
  "one expert": { ...SOFTMAX, topK: 1 },
  "all experts": { ...SOFTMAX, topK: E },
};

export function mixtureContract(duel: Duel, tolerance: Tolerance): void {
  for (const [name, router] of Object.entries(ROUTERS)) {
    duel.test("mixtureOfExperts", name, async () => {
      for (const n of [1, 2, 7, 33]) {
        await duel.compare(tolerance.float, (d) => mix(d, router, experts(d, "silu", false), 0, n), `${n} rows`);
      }
    });
  }

  for (const activation of ["silu", "gelu_tanh", "oss"] as const) {
    duel.test("mixtureOfExperts", `${activation} experts with biases`, async () => {
      await duel.compare(tolerance.float, (d) => mix(d, SOFTMAX, experts(d, activation, true), 0, 9));
    });
  }

  for (const dtype of ["bf16", "q8_0", "q4_0", "mxfp4", "f8_e4m3_64"] as const) {
    duel.test("mixtureOfExperts", `oss experts of ${dtype} weights`, async () => {
      const rounding = 3 * tolerance.integer; // of two products, one of them through a gate
      for (const n of [2, 21, MOST]) {
        await duel.compare(rounding, (d) => mix(d, SOFTMAX, experts(d, "oss", true, dtype, 64), 0, n), `${n} rows`);
      }
    });
  }

  for (const dtype of ["bf16", "f16", "q4_1"] as const) {
    duel.test("mixtureOfExperts", `wide experts of ${dtype} weights`, async () => {
      for (const n of [1, 12, 150]) {
        await duel.compare(4 * tolerance.integer, (d) => {
          return mix(d, ROUTERS["weights on the input"]!, experts(d, "silu", false, dtype, 192, 512), 0, n, 512);
        });
      }
    });
  }

  duel.test("mixtureOfExperts", "experts without a gate", async () => {
    await duel.compare(tolerance.float, (d) => {
      const { gateUp: _, ...rest } = experts(d, "relu2", false);
      const gateUp = rest.down.map((_down, e) => d.loadWeight([randomWeight("f32", INNER, HIDDEN, 60 + e)]));
      return mix(d, SOFTMAX, { ...rest, gateUp, isGated: false }, 0, 9);
    });
  });

  duel.test("mixtureOfExperts", "experts that it cannot multiply are refused when they are loaded", async () => {
    const { device } = duel;
    if (device.bindExperts === undefined) return; // it multiplies all
    const [halves, floats] = [experts(device, "silu", false, "bf16", 64), experts(device, "silu", false, "f32", 64)];
    device.bindExperts(halves, E);
    const mixed = { ...halves, down: halves.down.map((weight, e) => (e === 3 ? floats.down[e]! : weight)) };
    assert.throws(() => device.bindExperts!(mixed, E), { code: "device_call" });
    assert.throws(() => device.bindExperts!({ ...halves, down: floats.down }, E), { code: "device_call" });
    assert.throws(() => device.bindExperts!({ ...halves }, 513), { code: "device_call" });
  });

  duel.test("mixtureOfExperts", "equal scores go to the lower ids", async () => {
    await duel.compare(tolerance.float, (d) => {
      const out = d.allocTensor(3, HIDDEN);
      const flat = d.loadTensor(new Float32Array(3 * E).fill(0.5), 3, E);
      const x = rowsOf(d, 0, 3, HIDDEN, 50);
      d.mixtureOfExperts(out, x, flat, { ...SOFTMAX, bias: null }, experts(d, "silu", false), 3);
      return out;
    });
  });

  duel.test(
    "mixtureOfExperts",
    "logits that are not finite choose different experts, and other rows are as they were",
    async () => {
      const { NaN: nan, POSITIVE_INFINITY: inf } = Number;
      const n = MOST; // as many rows as there is room for: an expert that a row chose twice would have more
      const kinds = [[nan], [inf], [-inf], [nan, 1], [inf, nan, -inf, 0], [0, 1, 2, 3, 4, 5, 6, 7]];
      const logits = Float32Array.from({ length: n * E }, (_, i) => {
        const kind = kinds[Math.floor(i / E) % kinds.length]!;
        return kind[(i % E) % kind.length]!;
      });
      for (const score of ["softmax", "softmax_topk", "sigmoid"] as const) {
        const router: RouterSpec = { ...SOFTMAX, score, topK: 4, normalize: false, bias: null };
        const run = (d: Device): Promise<Float32Array> => {
          const out = d.allocTensor(n, HIDDEN);
          const x = rowsOf(d, 0, n, HIDDEN, 50);
          d.mixtureOfExperts(out, x, d.loadTensor(logits, n, E), router, experts(d, "silu", false), n);
          return readAll(d, out);
        };
        const [expected, found] = [await run(duel.reference), await run(duel.device)];
        const largest = expected.reduce(
          (most, value) => (Number.isFinite(value) ? Math.max(most, Math.abs(value)) : most),
          1,
        );
        for (const [i, value] of expected.entries()) {
          const isRight = Number.isFinite(value)
            ? Math.abs(value - found[i]!) <= tolerance.float * largest
            : !Number.isFinite(found[i]);
          assert.ok(isRight, `${score}: ${found[i]} where ${value} is expected, row ${Math.floor(i / HIDDEN)}`);
        }
      }
    },
  );

  for (const name of ["softmax, normalised", "sigmoid, bias, groups"]) {
    duel.test("mixtureOfExperts", `${name}: rows do not depend on their neighbours`, async () => {
      const weights = experts(duel.device, "silu", true);
      await duel.compareRows(MOST, (from, n) => mix(duel.device, ROUTERS[name]!, weights, from, n));
      const wide = experts(duel.device, "silu", true, "bf16", 64, 320);
      await duel.compareRows(MOST, (from, n) => mix(duel.device, ROUTERS[name]!, wide, from, n, 320));
    });
  }
}

function mix(device: Device, given: Router, weights: ExpertWeights, from: number, n: number, hidden = HIDDEN): Tensor {
  const { hasBias, hasScales, ...router } = given;
  const out = device.allocTensor(n, hidden);
  const logits = rowsOf(device, from, n, E, 51, 3);
  const bias = hasBias ? device.loadTensor(numbers(E, 52, 0.3), 1, E) : null;
  const scales = hasScales ? { expertScale: device.loadTensor(numbers(E, 56), 1, E) } : {};
  device.mixtureOfExperts(out, rowsOf(device, from, n, hidden, 53), logits, { ...router, bias, ...scales }, weights, n);
  return out;
}

function experts(
  device: Device,
  activation: ExpertWeights["activation"],
  hasBias: boolean,
  dtype: TensorDtype = "f32",
  inner = INNER,
  hidden = HIDDEN,
): ExpertWeights {
  const ids = Array.from({ length: E }, (_, e) => e);
  const load = (...parts: HostTensor[]) => device.loadWeight(parts, { isMatrix: true });
  return {
    gateUp: ids.map((e) =>
      load(randomWeight(dtype, inner, hidden, 60 + e), randomWeight(dtype, inner, hidden, 70 + e)),
    ),
    down: ids.map((e) => load(randomWeight(dtype, hidden, inner, 80 + e))),
    gateUpBias: hasBias ? device.loadTensor(numbers(E * 2 * inner, 54), E, 2 * inner) : null,
    downBias: hasBias ? device.loadTensor(numbers(E * hidden, 55), E, hidden) : null,
    inner,
    activation,
  };
}
