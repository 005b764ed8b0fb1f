// Frequencies against numbers computed apart, in float32, by the published formula of each rope type.

import assert from "node:assert/strict";
import { test } from "node:test";
import { readRope } from "../formats/rope-config.js";
import { computeRope, type Rope, ropeContext, rotaryDimOf, yarnMscale } from "./rope.js";

function rope(fields: Record<string, unknown>, headDim: number, maxContext = 1000, maxPosition = 1000): Rope {
  return computeRope(config(fields, maxPosition), headDim, maxContext);
}

function config(fields: Record<string, unknown>, maxPosition = 1000) {
  return readRope({ rope_parameters: fields, max_position_embeddings: maxPosition }, "config.json");
}

/** expected: [index, frequency] */
function assertFrequencies({ invFreq }: Rope, length: number, expected: readonly (readonly [number, number])[]): void {
  assert.equal(invFreq.length, length);
  for (const [i, frequency] of expected) {
    assert.ok(Math.abs(invFreq[i]! / frequency - 1) < 3e-7, `[${i}]: ${invFreq[i]}, expected ${frequency}`);
  }
}

function assertScale({ scale }: Rope, expected: number): void {
  assert.ok(Math.abs(scale - expected) < 1e-12, `${scale}, expected ${expected}`);
}

test("default: theta ** (-2i / dim)", () => {
  const plain = rope({ rope_theta: 10_000 }, 16);
  assertFrequencies(plain, 8, [
    [0, 1],
    [1, 0.316227764],
    [4, 0.01],
    [7, 0.000316227786],
  ]);
  assert.equal(plain.scale, 1);
});

test("linear: all frequencies divided", () => {
  const linear = rope({ rope_theta: 10_000, rope_type: "linear", factor: 4 }, 16);
  assertFrequencies(linear, 8, [
    [0, 0.25],
    [3, 0.00790569466],
    [7, 7.90569466e-5],
  ]);
  assert.equal(linear.scale, 1);
});

test("dynamic: the default within max_position_embeddings, which no context exceeds", () => {
  const dynamic = rope({ rope_theta: 10_000, rope_type: "dynamic", factor: 4 }, 16);
  assert.deepEqual(dynamic, rope({ rope_theta: 10_000 }, 16));
});

test("llama3: high frequencies kept, low ones divided, a blend between (the numbers of Llama 3.1)", () => {
  const fields = {
    rope_theta: 500_000,
    rope_type: "llama3",
    factor: 8,
    low_freq_factor: 1,
    high_freq_factor: 4,
    original_max_position_embeddings: 8192,
  };
  assertFrequencies(rope(fields, 128), 64, [
    [0, 1],
    [1, 0.814617217],
    [16, 0.0376060307],
    [21, 0.0134904208],
    [32, 0.000524846022],
    [42, 2.27489272e-5],
    [63, 3.06892588e-7],
  ]);
});

test("yarn: ramp between kept and divided, rounded ends, sharpened attention", () => {
  const fields = { rope_theta: 1e6, rope_type: "yarn", factor: 4, original_max_position_embeddings: 64 };
  const yarn = rope(fields, 32);
  assertFrequencies(yarn, 16, [
    [0, 1],
    [1, 0.316272378],
    [4, 0.00790569466],
    [5, 0.00333380373],
    [8, 0.00025],
    [15, 5.92843435e-7],
  ]);
  assertScale(yarn, 1.138629436111989);
});

test("yarn without truncation (gpt-oss)", () => {
  const fields = {
    rope_theta: 150_000,
    rope_type: "yarn",
    factor: 32,
    original_max_position_embeddings: 4096,
    truncate: false,
  };
  const yarn = rope(fields, 64);
  assertFrequencies(yarn, 32, [
    [1, 0.689044297],
    [8, 0.05081328],
    [10, 0.0193350017],
    [16, 0.000456483918],
    [31, 3.0235114e-7],
  ]);
  assertScale(yarn, 1.3465735902799727);
});

test("yarn with mscale fields (DeepSeek), and with the factor stated", () => {
  const fields = { rope_theta: 10_000, rope_type: "yarn", factor: 40, original_max_position_embeddings: 4096 };
  const latent = rope({ ...fields, mscale: 1, mscale_all_dim: 0.8 }, 64);
  assertFrequencies(latent, 32, [
    [1, 0.749894202],
    [10, 0.0562341288],
    [16, 0.00550000044],
    [21, 0.000414990413],
    [31, 3.33380353e-6],
  ]);
  assertScale(latent, 1.0569662567531275);
  assert.equal(rope({ ...fields, mscale: 1, mscale_all_dim: 1 }, 64).scale, 1);
  assert.equal(rope({ ...fields, attention_factor: 0.7 }, 64).scale, 0.7);
  assert.equal(yarnMscale(1, 1), 1);
});

test("longrope: the set of factors is chosen by the longest context to run", () => {
  const fields = {
    rope_theta: 10_000,
    rope_type: "longrope",
    original_max_position_embeddings: 4096,
    short_factor: [1, 1.1, 1.2, 1.3],
    long_factor: [1.5, 2.5, 4, 8],
  };
  const short = rope(fields, 8, 4096, 131_072);
  assertFrequencies(short, 4, [
    [0, 1],
    [1, 0.0909090936],
    [2, 0.00833333284],
    [3, 0.00076923077],
  ]);
  const long = rope(fields, 8, 4097, 131_072);
  assertFrequencies(long, 4, [
    [0, 0.666666687],
    [1, 0.0399999991],
    [2, 0.0025],
    [3, 0.000125],
  ]);
  assertScale(short, 1.1902380714238083);
  assertScale(long, 1.1902380714238083);
});

test("a part of the head is rotated; yarn may reach beyond max_position_embeddings", () => {
  const partial = config({ rope_theta: 10_000, partial_rotary_factor: 0.75 });
  assert.equal(rotaryDimOf(partial, 128), 96);
  assert.equal(computeRope(partial, 128, 1000).invFreq.length, 48);
  assert.equal(ropeContext(partial), 1000);
  assert.equal(ropeContext(config({ rope_type: "yarn", factor: 4, original_max_position_embeddings: 512 })), 2048);
});
