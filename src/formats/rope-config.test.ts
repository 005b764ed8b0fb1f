import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { FormatError } from "../core/errors.js";
import { readRope } from "./rope-config.js";

const read = (raw: Record<string, unknown>, layerType?: string) => readRope(raw, "config.json", layerType);

function refuses(raw: Record<string, unknown>, message: RegExp, layerType?: string): void {
  assert.throws(
    () => read(raw, layerType),
    (error: Error) => error instanceof FormatError && message.test(error.message),
  );
}

test("older and newer spelling give the same", () => {
  const pairs: [Record<string, unknown>, Record<string, unknown>][] = [
    [{ rope_theta: 5e5 }, { rope_parameters: { rope_theta: 5e5, rope_type: "default" } }],
    [{ rope_theta: 5e5, rope_scaling: null }, { rope_parameters: { rope_theta: 5e5 } }],
    [
      { rope_theta: 1e4, partial_rotary_factor: 0.5, rope_scaling: { type: "linear", factor: 2 } },
      { rope_parameters: { rope_theta: 1e4, partial_rotary_factor: 0.5, rope_type: "linear", factor: 2 } },
    ],
    [
      {
        rope_theta: 5e5,
        rope_scaling: {
          rope_type: "llama3",
          factor: 8,
          low_freq_factor: 1,
          high_freq_factor: 4,
          original_max_position_embeddings: 8192,
        },
      },
      {
        rope_parameters: {
          rope_theta: 5e5,
          rope_type: "llama3",
          factor: 8,
          low_freq_factor: 1,
          high_freq_factor: 4,
          original_max_position_embeddings: 8192,
        },
      },
    ],
    [
      {
        rope_theta: 1e6,
        rope_scaling: { type: "yarn", factor: 4, original_max_position_embeddings: 32768, finetuned: true },
      },
      { rope_parameters: { rope_theta: 1e6, rope_type: "yarn", factor: 4, original_max_position_embeddings: 32768 } },
    ],
  ];
  for (const [older, newer] of pairs) {
    const context = { max_position_embeddings: 131072 };
    assert.deepEqual(read({ ...older, ...context }), read({ ...newer, ...context }));
  }
});

test("defaults: theta 10000, whole head, yarn's betas", () => {
  assert.deepEqual(read({}), { theta: 10_000, partialRotaryFactor: 1, maxPosition: 0, type: "default" });
  assert.deepEqual(read({ rope_parameters: {} }), read({}));
  assert.deepEqual(read({ rope_parameters: { rope_type: "proportional" } }), {
    ...{ theta: 10_000, partialRotaryFactor: 1, maxPosition: 0, type: "proportional", factor: 1 },
  });
  const yarn = read({ rope_scaling: { rope_type: "yarn", factor: 4 }, max_position_embeddings: 512 });
  assert.deepEqual(yarn, {
    theta: 10_000,
    partialRotaryFactor: 1,
    maxPosition: 512,
    type: "yarn",
    factor: 4,
    originalMaxPosition: 512,
    attentionFactor: null,
    betaFast: 32,
    betaSlow: 1,
    mscale: null,
    mscaleAllDim: null,
    truncate: true,
  });
});

test("longrope takes its original length from beside rope_scaling, and its older name", () => {
  const rope = read({
    max_position_embeddings: 131072,
    original_max_position_embeddings: 4096,
    rope_scaling: { type: "su", short_factor: [1, 1], long_factor: [1, 8] },
  });
  assert.ok(rope.type === "longrope");
  assert.equal(rope.factor, 32);
  assert.equal(rope.originalMaxPosition, 4096);
  assert.deepEqual(rope.longFactor, [1, 8]);
});

test("gemma3: one rope per layer type, in both spellings", () => {
  const newer = {
    rope_parameters: {
      full_attention: { rope_theta: 1e6, rope_type: "linear", factor: 8 },
      sliding_attention: { rope_theta: 1e4, rope_type: "default" },
    },
  };
  const older = { rope_theta: 1e6, rope_local_base_freq: 1e4, rope_scaling: { rope_type: "linear", factor: 8 } };
  for (const layerType of ["full_attention", "sliding_attention"]) {
    assert.deepEqual(read(newer, layerType), read(older, layerType));
  }
  assert.equal(read(newer, "sliding_attention").theta, 1e4);
  assert.equal(read(older, "full_attention").type, "linear");
  refuses(newer, /rope_parameters\.chunked_attention/, "chunked_attention");
});

test("unknown types and fields, missing and wrong values are refused by name", () => {
  refuses({ rope_scaling: { rope_type: "spiral" } }, /rope_scaling\.rope_type = spiral/);
  refuses({ rope_scaling: { type: "constructor" } }, /constructor/);
  refuses({ rope_scaling: { type: 7 } }, /rope_type = 7/);
  refuses({ rope_scaling: { longitude: [1, 2] } }, /rope_scaling\.longitude/);
  refuses({ rope_parameters: { rope_type: "linear", factor: 2, beta_fast: 3 } }, /rope_parameters\.beta_fast/);
  refuses({ rope_scaling: { type: "linear" } }, /rope_scaling\.factor = missing/);
  refuses({ rope_scaling: { type: "linear", factor: "2" } }, /rope_scaling\.factor = 2/);
  refuses({ rope_scaling: { type: "linear", factor: -2 } }, /positive/);
  refuses({ rope_theta: 0 }, /rope_theta/);
  refuses({ rope_theta: Infinity }, /rope_theta = null.*a number/);
  for (const factors of [[0], [1, -1], ["2"], [null], undefined, 3])
    refuses(
      {
        rope_scaling: { type: "longrope", factor: 2, short_factor: factors, long_factor: [1] },
        max_position_embeddings: 9,
      },
      /short_factor = .* an array of positive numbers/,
    );
  refuses({ rope_scaling: "yarn" }, /rope_scaling = yarn/);
  refuses({ rope_scaling: { type: "llama3", factor: 8, low_freq_factor: 1, high_freq_factor: 4 } }, /original_max/);
  refuses(
    { rope_scaling: { type: "longrope", factor: 2, short_factor: [1], long_factor: "x" }, max_position_embeddings: 9 },
    /long_factor/,
  );
});

const goldens = "../shared/goldens";
test("every golden checkpoint's config is read", {
  skip: existsSync(goldens) ? false : `${goldens} is not here`,
}, () => {
  const type = (name: string, layerType?: string) =>
    readRope(JSON.parse(readFileSync(`${goldens}/${name}/config.json`, "utf8")), name, layerType).type;
  for (const name of ["llama", "mistral-swa", "phi3", "deepseek-v3", "granite", "smollm3", "gemma2"]) {
    assert.equal(type(name), "default", name);
  }
  assert.equal(type("llama-tied-rope3"), "llama3");
  assert.equal(type("qwen3-yarn"), "yarn");
  assert.equal(type("gpt-oss"), "yarn");
  assert.equal(type("gemma3", "sliding_attention"), "default");
});
