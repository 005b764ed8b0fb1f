// What is made of a file's tensors and keys, number by number, on tensors of a few numbers.

import assert from "node:assert/strict";
import { test } from "node:test";
import { toFloat32 } from "../../core/dequantize/dequantize.js";
import { f32ToF16 } from "../../core/dequantize/small-floats.js";
import type { HostTensor, TensorDtype } from "../../core/tensor.js";
import { madeTensor, TensorTable } from "../tensor-views.js";
import { NO_RECIPE } from "../text-recipe.js";
import type { Restore } from "./gguf-architecture.js";
import { groupedDeltaNet, tiledDeltaNet } from "./gguf-delta-net.js";
import { GgufKeys } from "./gguf-keys.js";
import { joinLatent } from "./gguf-latent.js";
import { ggufRecipe } from "./gguf-recipe.js";
import { withScales } from "./gguf-scales.js";
import { ggufTensors } from "./gguf-tensors.js";
import { xieluConfig, xieluTensors } from "./gguf-xielu.js";

/** 0, 1, 2, ... from `first` on. */
function ascending(name: string, shape: readonly number[], dtype: TensorDtype = "f32", first = 0): HostTensor {
  const count = shape.reduce((product, size) => product * size, 1);
  const values = Float32Array.from({ length: count }, (_, i) => first + i);
  const bytes = dtype === "f16" ? Uint16Array.from(values, f32ToF16) : values;
  return madeTensor(name, dtype, shape, () => new Uint8Array(bytes.buffer));
}
const valuesOf = (tensor: HostTensor) => [...toFloat32(tensor)];
function sourceOf(...tensors: HostTensor[]): TensorTable {
  const table = new TensorTable("f.gguf");
  for (const tensor of tensors) table.add(tensor);
  return table;
}

test("latent attention: keys turned, values as they are, head by head", () => {
  const tall = joinLatent(ascending("k", [2, 1, 1]), ascending("v", [2, 2, 1], "f32", 100), "kv");
  assert.deepEqual(valuesOf(tall), [0, 100, 101, 1, 102, 103]);
  // 2 heads, a latent of 3, keys of 2, values of 1.
  const keys = ascending("k", [2, 3, 2]);
  const values = ascending("v", [2, 1, 3], "f32", 100);
  const joined = joinLatent(keys, values, "kv");
  assert.deepEqual([joined.name, joined.dtype, joined.shape], ["kv", "f32", [6, 3]]);
  assert.deepEqual(valuesOf(joined), [...[0, 2, 4, 1, 3, 5, 100, 101, 102], ...[6, 8, 10, 7, 9, 11, 103, 104, 105]]);
  for (const [k, v] of [
    ["f16", "f32"],
    ["f32", "f16"],
    ["f16", "f16"],
  ] as const) {
    const half = joinLatent(ascending("k", [2, 3, 2], k), ascending("v", [2, 1, 3], v, 100), "kv");
    assert.equal(half.dtype, "f16");
    assert.deepEqual(valuesOf(half), valuesOf(joined));
    assert.equal(half.bytes().length, half.byteLength);
  }
});

const DELTA = {
  linear_num_key_heads: 2,
  linear_num_value_heads: 4,
  linear_key_head_dim: 1,
  linear_value_head_dim: 2,
};
const restored = (restores: Readonly<Record<string, Restore>>, part: string, tensor: HostTensor) =>
  restores[part]!(tensor, "x.weight", DELTA);

test("delta nets in turn: value heads of a key head come together again", () => {
  const rows = (part: string, tensor: HostTensor) => valuesOf(restored(tiledDeltaNet, part, tensor)[0]!);
  // Heads 0 1 2 3 of a file are the first of each key head, then the second.
  assert.deepEqual(rows("ssm_alpha", ascending("a", [4, 1])), [0, 2, 1, 3]);
  assert.deepEqual(rows("ssm_beta", ascending("a", [4, 1])), [0, 2, 1, 3]);
  assert.deepEqual(rows("attn_gate", ascending("a", [8, 1])), [0, 1, 4, 5, 2, 3, 6, 7]);
  // 2 rows of q, 2 of k, then those of v.
  assert.deepEqual(rows("attn_qkv", ascending("a", [12, 1])), [0, 1, 2, 3, 4, 5, 8, 9, 6, 7, 10, 11]);
  // Value heads of 3 rows, of which the 4 before are no whole number.
  const odd = tiledDeltaNet.attn_qkv!(ascending("a", [16, 1]), "x.weight", { ...DELTA, linear_value_head_dim: 3 });
  assert.deepEqual(valuesOf(odd[0]!), [0, 1, 2, 3, 4, 5, 6, 10, 11, 12, 7, 8, 9, 13, 14, 15]);
  assert.deepEqual(rows("ssm_out", ascending("a", [2, 8])), [
    ...[0, 1, 4, 5, 2, 3, 6, 7],
    ...[8, 9, 12, 13, 10, 11, 14, 15],
  ]);
  const out = (dtype: TensorDtype) => restored(tiledDeltaNet, "ssm_out", ascending("a", [2, 8], dtype))[0]!;
  assert.deepEqual([out("f32").dtype, out("f16").dtype], ["f32", "f16"]);
  assert.deepEqual(valuesOf(out("f16")), valuesOf(out("f32")));
  // A block of 32 holds parts of several heads.
  const blocks = madeTensor("b", "q8_0", [1, 32], () => {
    const bytes = new Uint8Array(34);
    bytes[1] = 0x3c; // a scale of 1
    for (let i = 0; i < 32; i++) bytes[2 + i] = i;
    return bytes;
  });
  const wide = { ...DELTA, linear_value_head_dim: 8 };
  const [decoded] = tiledDeltaNet.ssm_out!(blocks, "x.weight", wide);
  const span = (from: number) => Array.from({ length: 8 }, (_, i) => from + i);
  assert.equal(decoded!.dtype, "f16");
  assert.deepEqual(valuesOf(decoded!), [...span(0), ...span(16), ...span(8), ...span(24)]);
});

test("delta nets by key head: gates are taken apart", () => {
  const [b, a] = restored(groupedDeltaNet, "ssm_ba", ascending("ba", [8, 2]));
  assert.deepEqual([b!.name, a!.name], ["x.in_proj_b.weight", "x.in_proj_a.weight"]);
  assert.deepEqual(
    [b!.shape, a!.shape],
    [
      [4, 2],
      [4, 2],
    ],
  );
  assert.deepEqual(valuesOf(b!), [0, 1, 2, 3, 8, 9, 10, 11]);
  assert.deepEqual(valuesOf(a!), [4, 5, 6, 7, 12, 13, 14, 15]);
});

test("recipes: pooling, dense layers, a reranker's question", () => {
  const recipe = (metadata: Record<string, unknown>, ...tensors: HostTensor[]) =>
    ggufRecipe(new Map(Object.entries({ "general.architecture": "a", ...metadata })), sourceOf(...tensors));
  assert.deepEqual(recipe({}), NO_RECIPE);
  assert.deepEqual(
    [0, 1, 2, 3, 4, 5].map((type) => recipe({ "a.pooling_type": type }).pooling),
    [null, "mean", "first", "last", null, null],
  );
  const dense = (name: string, inputs: number, outputs: number) => ({
    ...{ file: null, name, inputs, outputs, hasBias: false, activation: "identity" },
  });
  assert.deepEqual(recipe({}, ascending("dense_3.weight", [5, 4]), ascending("dense_2.weight", [4, 3])).dense, [
    dense("dense_2", 3, 4),
    dense("dense_3", 4, 5),
  ]);
  const question = "is {document} about {query}?";
  assert.deepEqual(recipe({ "tokenizer.chat_template.rerank": question }), { ...NO_RECIPE, isAsked: true, question });
  assert.deepEqual(recipe({ "tokenizer.chat_template.rerank": 3 }), NO_RECIPE);
});

test("xielu: one number for all layers, or one for each", () => {
  const config = (values: Record<string, unknown>) => {
    const all = { alpha_p: 1, alpha_n: 2, beta: 3, eps: [4, 5], ...values };
    const metadata = Object.entries(all).map(([part, value]) => [`xielu.${part}`, value] as const);
    return xieluConfig(new GgufKeys(new Map<string, unknown>([["a.block_count", 2], ...metadata]), "a", "f.gguf"));
  };
  const made = config({});
  assert.deepEqual(made, { xielu: { alpha_p: [1, 1], alpha_n: [2, 2], beta: [3, 3], eps: [4, 5] } });
  assert.deepEqual(
    xieluTensors(made).map((tensor) => [tensor.name, tensor.shape, ...valuesOf(tensor)]),
    [
      ["model.layers.0.mlp.act_fn.alpha_p", [1], 1],
      ["model.layers.1.mlp.act_fn.alpha_p", [1], 1],
      ["model.layers.0.mlp.act_fn.alpha_n", [1], 2],
      ["model.layers.1.mlp.act_fn.alpha_n", [1], 2],
      ["model.layers.0.mlp.act_fn.beta", [], 3],
      ["model.layers.1.mlp.act_fn.beta", [], 3],
      ["model.layers.0.mlp.act_fn.eps", [], 4],
      ["model.layers.1.mlp.act_fn.eps", [], 5],
    ],
  );
  for (const eps of [[4], [4, 5, 6], [4, "5"], [4, Number.NaN], undefined, "4", Infinity])
    assert.throws(() => config({ eps }), /xielu\.eps.*one number for each of 2 layers/);
});

test("a head that predicts further tokens is one layer more, its norms as the family stores them", () => {
  const head = [
    ascending("blk.2.attn_norm.weight", [4]),
    ascending("blk.2.nextn.eh_proj.weight", [4, 8]),
    ascending("blk.2.nextn.enorm.weight", [4]),
    ascending("blk.2.nextn.shared_head_norm.weight", [4]),
    ascending("blk.2.nextn.embed_tokens.weight", [2, 4]),
  ];
  const read = (architecture: string, family: string) => {
    const config = { architectures: [family], num_hidden_layers: 2, num_nextn_predict_layers: 1 };
    return ggufTensors(architecture, config, sourceOf(...head));
  };
  const glm = read("glm4moe", "Glm4MoeForCausalLM");
  const parts = ["input_layernorm", "eh_proj", "enorm", "shared_head.norm"];
  assert.deepEqual(
    [...glm.names()],
    parts.map((part) => `model.layers.2.${part}.weight`),
  );
  const [plain, less] = [glm, read("qwen3next", "Qwen3NextForCausalLM")].map((source) =>
    toFloat32(source.get("model.layers.2.enorm.weight")),
  );
  assert.deepEqual(
    less,
    plain!.map((weight) => weight - 1),
  );
});

test("layers past the last are those that predict further tokens; two rows of a verdict are one", () => {
  const names = (config: Record<string, unknown>, ...tensors: HostTensor[]) => [
    ...ggufTensors("llama", { num_hidden_layers: 2, ...config }, sourceOf(...tensors)).names(),
  ];
  const norms = [0, 1, 2, 3].map((layer) => ascending(`blk.${layer}.attn_norm.weight`, [4]));
  const embedding = ascending("token_embd.weight", [2, 4]);
  const kept = ["model.layers.0.input_layernorm.weight", "model.layers.1.input_layernorm.weight"];
  assert.deepEqual(names({ num_nextn_predict_layers: 1 }, embedding, ...norms), ["model.embed_tokens.weight", ...kept]);
  assert.equal(names({}, embedding, ...norms).length, 5);
  const others = ["rope_freqs", "rope_factors_long", "rope_factors_short", "blk.0.attn_rot_embd", "blk.0.nextn.x"];
  const unused = others.map((name) => ascending(`${name}.weight`, [2]));
  assert.deepEqual(names({}, ...unused, ...norms.slice(0, 2)), kept);
  assert.deepEqual(names({ num_nextn_predict_layers: 1 }, norms[3]!, ...norms.slice(0, 2)), kept);
  const latent = [ascending("blk.1.attn_v_b.weight", [2, 1, 3]), ascending("blk.1.attn_k_b.weight", [2, 3, 2])];
  assert.deepEqual(
    [...ggufTensors("deepseek2", {}, sourceOf(...latent, norms[0]!)).names()],
    ["model.layers.1.self_attn.kv_b_proj.weight", kept[0]],
  );
  const score = (rows: number) =>
    ggufTensors("llama", {}, sourceOf(ascending("cls.output.weight", [rows, 3]))).get("score.weight");
  assert.deepEqual(
    [score(2).shape, valuesOf(score(2))],
    [
      [1, 3],
      [-3, -3, -3],
    ],
  );
  assert.deepEqual(
    [score(1).shape, valuesOf(score(1))],
    [
      [1, 3],
      [0, 1, 2],
    ],
  );
  const experts = (name: string, config: Record<string, unknown> = { num_local_experts: 2 }) =>
    names(config, ascending(name, [2, 2, 1]));
  assert.equal(experts("blk.0.ffn_gate_exps.weight").length, 2);
  assert.throws(() => experts("ffn_gate_exps.weight"), /tensor = ffn_gate_exps\.weight is not supported/);
  assert.throws(() => experts("blk.0.ffn_side_exps.weight"), /tensor = blk\.0\.ffn_side_exps\.weight/);
  assert.throws(() => experts("blk.0.ffn_gate_exps.weight", {}), /tensor = blk\.0\.ffn_gate_exps\.weight/);
  const router = sourceOf(ascending("blk.0.ffn_gate_inp.scale", [4]), ascending("blk.0.ffn_gate_inp.weight", [2, 4]));
  assert.deepEqual(
    [...ggufTensors("gemma4", {}, router).names()],
    ["model.layers.0.router.scale", "model.layers.0.router.proj.weight"],
  );
  const long = `blk.0.${"x".repeat(150)}.weight`;
  assert.throws(
    () => names({}, ascending(long, [2])),
    (error: Error) => error.message.includes(`tensor = ${long.slice(0, 100)} is`),
  );
});

test("a scale is one number, or one for each matrix of a stack", () => {
  const read = (shape: number[], count: number) => {
    const source = sourceOf(ascending("x.weight", shape), ascending("x.scale", [count], "f32", 2), ascending("y", [1]));
    const scaled = withScales(source, () => false);
    assert.deepEqual([...scaled.names()], ["x.weight", "y"]);
    const tensor = scaled.get("x.weight");
    return [tensor.dtype, ...valuesOf(tensor)];
  };
  assert.deepEqual(read([2, 2], 1), ["f16", 0, 2, 4, 6]);
  assert.deepEqual(read([2, 1, 2], 2), ["f16", 0, 2, 6, 9]);
  assert.deepEqual(read([2, 1, 2], 1), ["f16", 0, 2, 4, 6]);
  assert.throws(() => read([2, 2], 2), /tensor x\.scale: expected 1 number, found 2/);
  assert.throws(() => read([3, 1, 2], 2), /tensor x\.scale: expected 1 or 3 numbers, found 2/);
  const kept = sourceOf(ascending("x.weight", [2]), ascending("x.scale", [1]));
  assert.equal(
    withScales(kept, () => true),
    kept,
  );
  const alone = withScales(sourceOf(ascending("x.scale", [1]), ascending("x.input_scale", [1])), () => false);
  assert.deepEqual([...alone.names()], ["x.scale", "x.input_scale"], "to be refused by name");
});
