// Model folders that would hang or confuse who reads them: each ends in an error that names the file.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { openCheckpoint } from "../src/engine/checkpoint.js";
import { writeTinyCheckpoint } from "./support/tiny-checkpoint.js";

const noPipes = process.platform === "win32" ? "no named pipes in folders here" : false;
test("a pipe in the place of a file is not waited for", { skip: noPipes }, () => {
  for (const name of [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "model.safetensors",
    "model.safetensors.index.json",
  ]) {
    const model = writeTinyCheckpoint();
    rmSync(join(model, name), { force: true });
    assert.equal(spawnSync("mkfifo", [join(model, name)]).status, 0);
    assert.throws(
      () => openCheckpoint(model).openTensors(),
      { code: "file_corrupt", message: new RegExp(`${name}.*a regular file, found a pipe`) },
      name,
    );
  }
});

function withTokenizer(change: (json: Record<string, unknown>) => void): string {
  const model = writeTinyCheckpoint();
  const file = join(model, "tokenizer.json");
  const json = JSON.parse(readFileSync(file, "utf8")) as Record<string, unknown>;
  change(json);
  writeFileSync(file, JSON.stringify(json));
  return model;
}

test("an expression that backtracks without end is refused when the model is opened", () => {
  for (const Regex of ["(a+)+$", "(x|x)*y", "^(([a-z])+.)+[A-Z]([a-z])+$", "(\\s|\\n)*z"]) {
    const split = { type: "Split", pattern: { Regex }, behavior: "Isolated", invert: false };
    const nested = withTokenizer((json) => {
      json.pre_tokenizer = { type: "Sequence", pretokenizers: [split] };
    });
    assert.throws(
      () => openCheckpoint(nested),
      { code: "file_corrupt", message: /pre_tokenizer.*less than a second/ },
      Regex,
    );
  }
  const harmless = {
    type: "Split",
    pattern: { Regex: "\\p{L}+|\\p{N}{1,3}|\\s+(?!\\S)|\\s+" },
    behavior: "Isolated",
    invert: false,
  };
  openCheckpoint(
    withTokenizer((json) => {
      json.pre_tokenizer = { type: "Sequence", pretokenizers: [harmless, json.pre_tokenizer] };
    }),
  );
});

test("fields of the wrong type are errors of the file, never of the program", () => {
  const wrong: [string, unknown][] = [
    ["model", null],
    ["model", []],
    ["model", { type: "BPE", vocab: 3, merges: [] }],
    ["model", { type: "BPE", vocab: { a: 0 }, merges: 7 }],
    ["model", { type: "Unigram", vocab: [["a", "b"]] }],
    ["added_tokens", 5],
    ["added_tokens", [null]],
    ["normalizer", { type: 5 }],
    ["pre_tokenizer", { type: "Sequence", pretokenizers: 3 }],
    ["post_processor", { type: "TemplateProcessing", single: 1 }],
    ["decoder", { type: "Sequence", decoders: {} }],
  ];
  for (const [field, value] of wrong) {
    const model = withTokenizer((json) => {
      json[field] = value;
    });
    try {
      const tokenizer = openCheckpoint(model).requireTokenizer();
      tokenizer.decode(tokenizer.encode("Hello, wörld! 12 <eos>"));
    } catch (error) {
      assert.match(
        (error as { code?: string }).code ?? String(error),
        /^(file_corrupt|unsupported_model_option)$/,
        `${field}: ${error}`,
      );
    }
  }
});
