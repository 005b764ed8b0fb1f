import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { folderMaker } from "../../../test/support/file-folder.js";
import { FormatError } from "../../core/errors.js";
import { NO_RECIPE } from "../text-recipe.js";
import { readTextRecipe } from "./sentence-transformers.js";

const folder = folderMaker();

const read = (files: Record<string, unknown>, config: Record<string, unknown> = {}) =>
  readTextRecipe(folder(files), config);
const modules = (...kinds: string[]) =>
  kinds.map((kind, i) => ({ type: `sentence_transformers.models.${kind}`, path: `${i}_${kind}` }));
const settings = (content: unknown) => read({ "config_sentence_transformers.json": content });
const lengths = (content: unknown) => read({ "sentence_bert_config.json": content });
/** A folder whose one module has this config. */
const withModule = (kind: string, config: unknown) =>
  read({ "modules.json": modules(kind), [`0_${kind}/config.json`]: config });

function refuses(action: () => unknown, code: string, ...parts: string[]): void {
  assert.throws(action, (error: Error) => {
    assert.ok(error instanceof FormatError && error.code === code, String(error));
    for (const part of parts) assert.ok(error.message.includes(part), `${part} in: ${error.message}`);
    return true;
  });
}

test("a folder without these files says nothing", () => {
  assert.deepEqual(read({}), NO_RECIPE);
  assert.deepEqual(read({ "modules.json": [], "config_sentence_transformers.json": {} }), NO_RECIPE);
});

test("modules, prompts and lengths make one recipe", () => {
  const path = folder({
    "modules.json": [...modules("Transformer", "Pooling", "Dense", "Dense", "Normalize")],
    "1_Pooling/config.json": { pooling_mode_mean_tokens: true, pooling_mode_cls_token: false },
    "2_Dense/config.json": { in_features: 4, out_features: 8, bias: false, activation_function: "torch.nn.Identity" },
    "3_Dense/config.json": { in_features: 8, out_features: 2 },
    "config_sentence_transformers.json": {
      prompts: { query: "q: ", none: null, number: 3 },
      default_prompt_name: "query",
    },
    "sentence_bert_config.json": { max_seq_length: 1 },
  });
  const dense = (folder: string, inputs: number, outputs: number, hasBias: boolean, activation: string) => ({
    file: join(path, folder, "model.safetensors"),
    name: "linear",
    inputs,
    outputs,
    hasBias,
    activation,
  });
  assert.deepEqual(readTextRecipe(path, {}), {
    ...NO_RECIPE,
    pooling: "mean",
    dense: [dense("2_Dense", 4, 8, false, "identity"), dense("3_Dense", 8, 2, true, "tanh")],
    prompts: { query: "q: " },
    defaultPrompt: "query",
    maxLength: 1,
  });
});

test("prompts and lengths that are none are passed over", () => {
  for (const content of [{ prompts: [] }, { prompts: "query: " }, { prompts: null }, { default_prompt_name: null }])
    assert.deepEqual(settings(content), NO_RECIPE);
  for (const length of [0, -1, 1.5, "512", null]) assert.deepEqual(lengths({ max_seq_length: length }), NO_RECIPE);
  assert.equal(lengths({ max_seq_length: 512 }).maxLength, 512);
});

test("pooling by name or by flag, one of them", () => {
  const pooling = (config: Record<string, unknown>) => withModule("Pooling", config).pooling;
  const known = [
    ["cls", "pooling_mode_cls_token", "first"],
    ["mean", "pooling_mode_mean_tokens", "mean"],
    ["max", "pooling_mode_max_tokens", "max"],
    ["mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len"],
    ["weightedmean", "pooling_mode_weightedmean_tokens", "weighted_mean"],
    ["lasttoken", "pooling_mode_lasttoken", "last"],
  ] as const;
  for (const [name, flag, want] of known) {
    assert.equal(pooling({ pooling_mode: name }), want);
    assert.equal(pooling({ pooling_mode: [name], include_prompt: true }), want);
    assert.equal(pooling({ [flag]: true }), want);
    assert.equal(pooling({ pooling_mode: name, [flag]: true }), want);
  }
  const refused = (config: Record<string, unknown>, ...parts: string[]) =>
    refuses(() => pooling(config), "unsupported_model_option", ...parts);
  refused({}, "pooling_mode", "none", "weightedmean, lasttoken");
  refused({ pooling_mode_cls_token: 1 }, "none");
  refused({ pooling_mode: ["cls", "max"] }, "first and max");
  refused({ pooling_mode: "cls", pooling_mode_max_tokens: true }, "first and max");
  refused({ pooling_mode: "median" }, "median");
  refused({ pooling_mode: "mean", include_prompt: false }, "include_prompt");
});

test("dense layers: sizes, bias, activations", () => {
  const dense = (config: Record<string, unknown>) =>
    withModule("Dense", { in_features: 1, out_features: 2, ...config });
  const activations = {
    Identity: "identity",
    Tanh: "tanh",
    ReLU: "relu",
    GELU: "gelu",
    Sigmoid: "sigmoid",
    SiLU: "silu",
  };
  for (const [name, want] of Object.entries(activations))
    assert.equal(dense({ activation_function: `torch.nn.modules.activation.${name}` }).dense[0]!.activation, want);
  assert.equal(dense({ bias: null }).dense[0]!.hasBias, true);
  assert.equal(dense({ in_features: 2 ** 20 }).dense[0]!.inputs, 2 ** 20);
  refuses(() => dense({ activation_function: "Mish" }), "unsupported_model_option", "Mish", "Tanh, ReLU");
  for (const value of [0, -1, 1.5, "4", null, 2 ** 20 + 1]) {
    refuses(() => dense({ in_features: value }), "file_corrupt", "in_features", JSON.stringify(value));
    refuses(() => dense({ out_features: value }), "file_corrupt", "out_features");
  }
  refuses(() => withModule("Dense", {}), "file_corrupt", "in_features", "nothing");
  refuses(() => read({ "modules.json": modules("Dense") }), "file_corrupt", "no such file");
});

test("tokens of a verdict", () => {
  const verdict = (config: Record<string, unknown>) => withModule("LogitScore", config);
  assert.deepEqual(verdict({ true_token_id: 7, false_token_id: 0 }), {
    ...NO_RECIPE,
    isAsked: true,
    verdict: { yes: 7, no: 0 },
  });
  assert.deepEqual(verdict({ true_token_id: 7 }).verdict, { yes: 7, no: null });
  assert.deepEqual(verdict({ true_token_id: 7, false_token_id: null }).verdict, { yes: 7, no: null });
  for (const value of ["7", 1.5, {}]) {
    refuses(() => verdict({ true_token_id: value }), "file_corrupt", "true_token_id", JSON.stringify(value));
    refuses(() => verdict({ true_token_id: 7, false_token_id: value }), "file_corrupt", "false_token_id");
  }
  refuses(() => verdict({}), "file_corrupt", "true_token_id", "nothing");
});

test("the activation of scores stands in one of three places, the model's own first", () => {
  const activation = (config: Record<string, unknown>, inSettings: Record<string, unknown> = {}) =>
    read({ "config_sentence_transformers.json": inSettings }, config).scoreActivation;
  const nested = (name: unknown) => ({ sentence_transformers: { activation_fn: name } });
  assert.equal(activation({}), null);
  assert.equal(activation(nested("torch.nn.modules.linear.Identity")), "identity");
  assert.equal(activation({}, { activation_fn: "Sigmoid" }), "sigmoid");
  assert.equal(activation({ sbert_ce_default_activation_function: "a.Softmax" }), "softmax");
  assert.equal(activation(nested("Sigmoid"), { activation_fn: "Softmax" }), "sigmoid");
  assert.equal(
    activation({ sbert_ce_default_activation_function: "Softmax" }, { activation_fn: "Sigmoid" }),
    "sigmoid",
  );
  assert.equal(activation({ sentence_transformers: ["Sigmoid"] }), null);
  assert.equal(activation(nested("Mish")), null);
  assert.equal(activation(nested(3)), null);
});

test("a list of modules that is none, or leads out of the folder", () => {
  const list = (content: unknown, ...parts: string[]) =>
    refuses(() => read({ "modules.json": content }), "file_corrupt", "modules.json", ...parts);
  list("[{", "a list of modules");
  list({}, "content", "a list of modules", "object");
  list([null], "an object with type and path", "null");
  list([{ type: "a.Transformer" }], "type and path");
  list([{ path: "" }], "type and path");
  list([{ type: "a.Transformer", path: "../other" }], "a folder inside the model's", "../other");
  list([{ type: "a.Transformer", path: "a/../../other" }], "a folder inside");
  list([{ type: "a.Transformer", path: "/etc" }], "a folder inside");
  refuses(() => withModule("Rotate", {}), "unsupported_model_option", "Rotate", "Transformer, Pooling");
});
