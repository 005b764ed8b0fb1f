import assert from "node:assert/strict";
import { test } from "node:test";
import { FormatError } from "../../core/errors.js";
import { chooseFiles, groupParts, parseHubSpec, partsOf, quantisationOf } from "./hub-spec.js";

const long = "n".repeat(96);

test("what is a model of the hub, and what is not", () => {
  const table: [text: string, repo: string, revision: string, choice: string | null][] = [
    ["gpt2", "gpt2", "main", null],
    ["org/name", "org/name", "main", null],
    ["0rg/n.a-m_e@refs/pr/1", "0rg/n.a-m_e", "refs/pr/1", null],
    ["org/name@v1.0:Q4_K_M", "org/name", "v1.0", "Q4_K_M"],
    ["org/name:sub/m-Q8_0.gguf", "org/name", "main", "sub/m-Q8_0.gguf"],
    [`${long}/${long}`, `${long}/${long}`, "main", null],
  ];
  for (const [text, repo, revision, choice] of table)
    assert.deepEqual(parseHubSpec(text), { repo, revision, choice, text }, text);
  const none = [
    "",
    "/org",
    "org/",
    ".org/name",
    "a/b/c",
    "a//b",
    "org/na--me",
    "org/n..e",
    "a b",
    "org/name@",
    "org/name:",
  ];
  const more = [
    "org/name@-x",
    "org/name:a:b",
    "org/name:a\\b",
    "m.gguf",
    "org/m.gguf",
    "org/m.gguf:Q8_0",
    `${long}n/a`,
  ];
  for (const text of [...none, ...more]) assert.equal(parseHubSpec(text), null, text);
});

test("quantisations and parts by the names of files", () => {
  const known: Record<string, string | null> = {
    "m-Q4_K_M.gguf": "Q4_K_M",
    "m.q8_0.gguf": "Q8_0",
    "sub/m_IQ2_XXS.gguf": "IQ2_XXS",
    "m-UD-Q4_K_XL.gguf": "UD-Q4_K_XL",
    "m-TQ1_0.gguf": "TQ1_0",
    "bf16.gguf": "BF16",
    "m-F32-00001-of-00002.gguf": "F32",
    "m-fp16.gguf": "FP16",
    "m-mxfp4.gguf": "MXFP4",
    "m-MXFP4_MOE.gguf": "MXFP4_MOE",
    "m.gguf": null,
    "mQ4_0.gguf": null,
    "Q4_0/m.gguf": null,
  };
  for (const [path, want] of Object.entries(known)) assert.equal(quantisationOf(path), want, path);
  assert.deepEqual(["m.gguf", "m-00001-of-00003.gguf", "m-of-3.gguf"].map(partsOf), [1, 3, 1]);
  const paths = [
    "b-00002-of-00002.gguf",
    "b-00001-of-00002.gguf",
    "a.gguf",
    "a.bin",
    "mmproj-a.gguf",
    "a.IMATRIX.gguf",
  ];
  assert.deepEqual(
    [...groupParts(paths)],
    [
      ["a.gguf", ["a.gguf"]],
      ["b-of-00002.gguf", ["b-00001-of-00002.gguf", "b-00002-of-00002.gguf"]],
    ],
  );
});

test("of a folder the files that an engine reads, of GGUF files the one that is meant", () => {
  const choose = (choice: string | null, paths: string[]) =>
    chooseFiles({ repo: "org/name", revision: "main", choice, text: "org/name:text" }, paths);
  const read = [
    ...["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"],
    ...["added_tokens.json", "chat_template.json", "quantize_config.json", "quant_config.json", "chat_template.jinja"],
    ...["model.safetensors.index.json", "additional_chat_templates/tool_use.jinja", "model-00001-of-00002.safetensors"],
    ...["modules.json", "config_sentence_transformers.json", "sentence_bert_config.json", "1_Pooling/config.json"],
    ...["2_Dense/config.json", "2_Dense/model.safetensors", "preprocessor_config.json", "processor_config.json"],
  ];
  const left = ["pytorch_model.bin", "onnx/model.onnx", "onnx/config.json", "original/model.safetensors", "README.md"];
  const others = ["consolidated.safetensors", "model-1-of-2.safetensors", "adapter_config.json", "x/y.jinja"];
  assert.deepEqual(choose(null, [...left, ...read, ...others, "m-Q8_0.gguf"]), { files: read, main: null });
  const small = ["config.json", "model.safetensors"];
  assert.deepEqual(choose(null, small), { files: small, main: null });

  const ggufs = ["m-Q4_K_M.gguf", "m-Q8_0.gguf", "s/m-F16-00001-of-00002.gguf", "s/m-F16-00002-of-00002.gguf"];
  const table: [choice: string | null, paths: string[], files: string[]][] = [
    [null, ggufs, ["m-Q4_K_M.gguf"]],
    [null, ["m-Q8_0.gguf", "m-Q4_K_M.gguf"], ["m-Q4_K_M.gguf"]],
    [null, ["odd.gguf"], ["odd.gguf"]],
    [null, ["config.json", "odd.gguf"], ["odd.gguf"]],
    ["q8_0", [...ggufs, ...small], ["m-Q8_0.gguf"]],
    ["m-Q8_0", ggufs, ["m-Q8_0.gguf"]],
    ["m-Q8_0.gguf", ggufs, ["m-Q8_0.gguf"]],
    ["F16", ggufs, ggufs.slice(2)],
    // With its eyes, where they lie beside it.
    [null, ["m-Q4_K_M.gguf", "mmproj-BF16.gguf", "mmproj-F16.gguf"], ["m-Q4_K_M.gguf", "mmproj-F16.gguf"]],
    [null, ["m-Q4_K_M.gguf", "mmproj-model.gguf"], ["m-Q4_K_M.gguf", "mmproj-model.gguf"]],
    [null, ["m-Q4_K_M.gguf", "other/mmproj-F16.gguf"], ["m-Q4_K_M.gguf"]],
    // A file of that very name before files of that quantisation.
    ["Q8_0", ["Q8_0.gguf", "m-Q8_0.gguf"], ["Q8_0.gguf"]],
  ];
  for (const [choice, paths, files] of table)
    assert.deepEqual(choose(choice, paths), { files, main: files[0] }, `${choice} of ${paths}`);

  const refuses = (choice: string | null, paths: string[], reason: string) =>
    assert.throws(
      () => choose(choice, paths),
      (error: Error) =>
        error instanceof FormatError && error.code === "model_not_found" && error.message.includes(reason),
      reason,
    );
  refuses(null, ["m-Q8_0.gguf", "odd.gguf"], "org/name:text: choose one of :Q8_0 :odd.gguf");
  refuses("Q2_K", ggufs, "nothing or too much matches Q2_K; choose one of :Q4_K_M :Q8_0 :F16");
  refuses("Q8_0", ["a-Q8_0.gguf", "b-Q8_0.gguf"], "matches Q8_0; choose one of :Q8_0 :Q8_0");
  refuses(null, ["a-Q4_K_M.gguf", "b-Q4_K_M.gguf"], "choose one of :Q4_K_M :Q4_K_M");
  refuses(null, ["config.json"], "neither safetensors nor GGUF");
  refuses(null, ["model.safetensors"], "neither safetensors nor GGUF");
});
