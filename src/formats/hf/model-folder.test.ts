import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { folderMaker } from "../../../test/support/file-folder.js";
import { FormatError } from "../../core/errors.js";
import { ModelFolder } from "./model-folder.js";

const folder = folderMaker();

function refuses(action: () => unknown, message: RegExp): void {
  assert.throws(action, (error: Error) => error instanceof FormatError && message.test(error.message));
}

test("the bundled model opens", () => {
  const model = new ModelFolder("models/pagoda-stories-16m");
  assert.equal(model.name, "pagoda-stories-16m");
  assert.deepEqual(model.config.architectures, ["LlamaForCausalLM"]);
  assert.deepEqual(model.generation, { bosId: 0, eosIds: [4, 0], sampling: { temperature: 0.7, topP: 0.95 } });
  assert.match(model.readChatTemplates().get("default")!, /add_generation_prompt/);
  assert.equal(model.readTokenizer()?.config.eos_token, "<|end|>");
  const tensors = model.openTensors();
  assert.equal(tensors.get("model.embed_tokens.weight", [8192, 384]).dtype, "bf16");
  tensors.close();
});

test("a missing folder, a file, a folder without config.json and half a JSON file are named", () => {
  refuses(() => new ModelFolder(join(folder({}), "absent")), /absent: there is no such folder/);
  refuses(() => new ModelFolder(join(folder({ "config.json": "{}" }), "config.json")), /not a folder/);
  refuses(() => new ModelFolder(folder({})), /no config\.json/);
  refuses(() => new ModelFolder(folder({ "config.json": '{"a": ' })), /config\.json: content: expected JSON/);
  refuses(() => new ModelFolder(folder({ "config.json": "[]" })), /a JSON object, found an array/);
  refuses(() => new ModelFolder(folder({ "config.json": "version https://git-lfs.github.com/spec/v1" })), /Git LFS/);
});

test("missing weights say what is there instead", () => {
  const open = (files: Record<string, unknown>) =>
    new ModelFolder(folder({ "config.json": "{}", ...files })).openTensors();
  refuses(() => open({}), /neither model\.safetensors nor/);
  refuses(() => open({ "pytorch_model.bin": "" }), /holds pytorch_model\.bin/);
  refuses(() => open({ "model-00001-of-00002.safetensors": "" }), /no model\.safetensors\.index\.json/);
  const index = { "model.safetensors.index.json": { weight_map: { a: "model-00001-of-00002.safetensors" } } };
  refuses(() => open(index), /model-00001-of-00002\.safetensors.*no such file; the folder may be half-copied/);
});

test("ids come from generation_config.json, else from config.json; nonsense is refused", () => {
  const generation = (config: unknown, own?: unknown) =>
    new ModelFolder(folder({ "config.json": config, ...(own === undefined ? {} : { "generation_config.json": own }) }))
      .generation;
  assert.deepEqual(generation({ eos_token_id: 2, bos_token_id: 1 }), { bosId: 1, eosIds: [2], sampling: {} });
  assert.deepEqual(generation({ eos_token_id: 2 }, { eos_token_id: [7, 8, 7] }).eosIds, [7, 8]);
  assert.deepEqual(generation({}), { bosId: null, eosIds: [], sampling: {} });
  assert.deepEqual(generation({}, { do_sample: false, temperature: 0.3 }).sampling, { temperature: 0 });
  assert.deepEqual(generation({}, { top_k: 20, min_p: 0.1, repetition_penalty: 1.05 }).sampling, {
    topK: 20,
    minP: 0.1,
    repetitionPenalty: 1.05,
  });
  refuses(() => generation({}, { eos_token_id: "two" }), /eos_token_id: expected a token id/);
  refuses(() => generation({}, { temperature: "hot" }), /temperature/);
  assert.deepEqual(generation({}, { temperature: 0, top_p: null }).sampling, { temperature: 0 });
  refuses(() => generation({}, { top_k: -1 }), /top_k: expected a number, 0 or more, found -1/);
  assert.deepEqual(generation({ bos_token_id: 0 }, { bos_token_id: null }).bosId, 0);
  for (const id of [-1, 1.5, [3, -1]])
    refuses(() => generation({ eos_token_id: id }), /eos_token_id: expected a token id/);
});

test("chat templates: one, named ones, and files that win over the older field", () => {
  const templates = (files: Record<string, unknown>) =>
    Object.fromEntries(new ModelFolder(folder({ "config.json": "{}", ...files })).readChatTemplates());
  const named = [
    { name: "default", template: "d" },
    { name: "tool_use", template: "t" },
  ];
  assert.deepEqual(templates({}), {});
  assert.deepEqual(templates({ "tokenizer_config.json": { chat_template: "x" } }), { default: "x" });
  assert.deepEqual(templates({ "tokenizer_config.json": { chat_template: named } }), { default: "d", tool_use: "t" });
  const inFiles = { "chat_template.jinja": "file", "additional_chat_templates/rag.jinja": "r" };
  assert.deepEqual(templates({ "tokenizer_config.json": { chat_template: "x" }, ...inFiles }), {
    default: "file",
    rag: "r",
  });
});
