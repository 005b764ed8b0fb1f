import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { type SafetensorsEntry, writeSafetensors } from "../../test/support/safetensors-writer.js";
import { FormatError } from "../core/errors.js";
import { patternOf } from "./pattern.js";
import { openPeftAdapter } from "./peft.js";

const folder = mkdtempSync(join(tmpdir(), "pagoda-peft-"));
after(() => rmSync(folder, { recursive: true }));

const zeros = (...shape: number[]): SafetensorsEntry => ({
  dtype: "F32",
  shape,
  data: new Float32Array(shape.reduce((a, b) => a * b, 1)),
});

const Q = "base_model.model.model.layers.0.self_attn.q_proj";
const DOWN = "base_model.model.model.layers.0.mlp.down_proj";

function pair(module: string, rank: number): [string, SafetensorsEntry][] {
  return [
    [`${module}.lora_A.weight`, zeros(rank, 8)],
    [`${module}.lora_B.weight`, zeros(6, rank)],
  ];
}

function open(config: Record<string, unknown>, tensors: [string, SafetensorsEntry][] = pair(Q, 4)) {
  writeFileSync(
    join(folder, "adapter_config.json"),
    JSON.stringify({ peft_type: "LORA", r: 4, lora_alpha: 6, ...config }),
  );
  writeSafetensors(join(folder, "adapter_model.safetensors"), new Map(tensors));
  const adapter = openPeftAdapter(folder);
  adapter.close();
  return adapter;
}

function refusal(run: () => unknown): FormatError {
  try {
    run();
  } catch (error) {
    assert.ok(error instanceof FormatError, String(error));
    return error;
  }
  assert.fail("it was not refused");
}

test("rank and scale are those of the config; patterns go first, by the end of a module's path", () => {
  const both = [...pair(Q, 4), ...pair(DOWN, 3)];
  const patterns = { rank_pattern: { "mlp.down_proj": 3 }, alpha_pattern: { ".*down_proj": 1.5 } };
  const { pairs } = open(
    { ...patterns, use_dora: false, bias: "none", modules_to_save: [], layer_replication: null },
    both,
  );
  assert.deepEqual(
    pairs.map(({ module, rank, scale }) => ({ module, rank, scale })),
    [
      { module: "model.layers.0.self_attn.q_proj", rank: 4, scale: 1.5 },
      { module: "model.layers.0.mlp.down_proj", rank: 3, scale: 0.5 },
    ],
  );
  assert.equal(open({ use_rslora: true, lora_alpha: 2.5 }).pairs[0]!.scale, 1.25);
});

for (const [field, value] of Object.entries({
  peft_type: "IA3",
  use_dora: true,
  bias: "lora_only",
  lora_bias: true,
  modules_to_save: ["lm_head"],
  trainable_token_indices: [1],
  target_parameters: ["mlp.experts.gate_up_proj"],
  layer_replication: [[0, 2]],
  init_lora_weights: "pissa",
  target_modules: [1],
  layers_to_transform: "all",
  use_something_new: true,
  r: 0,
  lora_alpha: "16",
  rank_pattern: { "(a+)+$": 4 },
})) {
  test(`${field} = ${JSON.stringify(value)} is refused by the field's name`, () => {
    const error = refusal(() => open({ [field]: value }));
    assert.equal(error.code, "unsupported_model_option");
    assert.equal(error.details.param, field);
  });
}

test("a tensor that is no half of a pair is refused by its name, and so is a pair of one half", () => {
  for (const name of [
    `${Q}.lora_magnitude_vector`,
    "base_model.model.model.embed_tokens.lora_embedding_A",
    `${Q}.weight`,
  ]) {
    const error = refusal(() => open({}, [...pair(Q, 4), [name, zeros(4)]]));
    assert.deepEqual([error.code, error.details.tensor], ["adapter_unfit", name]);
  }
  const half = refusal(() => open({}, pair(Q, 4).slice(0, 1)));
  assert.deepEqual([half.code, half.details.tensor], ["tensor_missing", `${Q}.lora_B.weight`]);
});

test("what the config did not choose is refused by the tensor's name; lists, expressions and layers", () => {
  const of = (config: Record<string, unknown>): unknown => {
    try {
      return open(config).pairs.length;
    } catch (error) {
      assert.ok(error instanceof FormatError);
      return [error.code, error.details.tensor];
    }
  };
  const unfit = ["adapter_unfit", `${Q}.lora_A.weight`];
  for (const target_modules of [["q_proj"], ["self_attn.q_proj"], ".*\\.(q|v)_proj", "all-linear", null, "(.*)+q_proj"])
    assert.equal(of({ target_modules }), 1, `${target_modules}`);
  for (const target_modules of [["v_proj"], ["proj"], ".*v_proj", "q_proj"])
    assert.deepEqual(of({ target_modules }), unfit, `${target_modules}`);
  for (const layers_to_transform of [0, [0, 2], null, []]) assert.equal(of({ layers_to_transform }), 1);
  for (const layers_to_transform of [1, [1, 2]]) assert.deepEqual(of({ layers_to_transform }), unfit);
  // Said, and asking for nothing.
  assert.equal(of({ use_something_new: false, another: null, third: [], peft_version: "0.99", lora_dropout: 0.1 }), 1);
});

test("a rank other than the config's, or a matrix of experts, is refused by the tensor's name", () => {
  const other = refusal(() => open({}, pair(Q, 5)));
  assert.deepEqual([other.code, other.details.tensor], ["tensor_mismatch", `${Q}.lora_A.weight`]);
  const stacked = refusal(() =>
    open({}, [
      [`${Q}.lora_A.weight`, zeros(4, 8)],
      [`${Q}.lora_B.weight`, zeros(2, 6, 4)],
    ]),
  );
  assert.deepEqual([stacked.code, stacked.details.tensor], ["tensor_mismatch", `${Q}.lora_B.weight`]);
});

test("expressions that could match for ever are not taken", () => {
  for (const slow of ["(a+)+$", "(?=a)", "(a)\\1", "a*b*c*d*e*", "", "[", "a".repeat(300)])
    assert.equal(patternOf(slow), null);
  assert.ok(patternOf("layers\\.(0|2)\\..*q_proj")!.test("model.layers.2.self_attn.q_proj"));
  assert.ok(!patternOf("q_proj")!.test("model.layers.2.self_attn.xq_proj"));
  assert.ok(!patternOf("^layers.0.q_proj")!.test("model.layers.0.q_proj"));
});
