// Model folders that would hang or confuse who reads them: each ends in an error that names the file.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { openCheckpoint } from "../src/engine/checkpoint.js";
import { startServer } from "./support/test-server.js";
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

test("a file or a link to nowhere in the place of chat templates is refused", () => {
  const [file, link] = [writeTinyCheckpoint(), writeTinyCheckpoint()];
  writeFileSync(join(file, "additional_chat_templates"), "");
  assert.throws(() => openCheckpoint(file), { code: "model_not_found" });
  mkdirSync(join(link, "additional_chat_templates"));
  symlinkSync("nowhere", join(link, "additional_chat_templates", "x.jinja"));
  assert.throws(() => openCheckpoint(link), { code: "file_corrupt" });
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
  for (const Regex of ["(a+)+$", "(\\s|\\n)*z"]) {
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

test("fields of the wrong type are errors of the file, by their path", () => {
  const token = { id: 0, content: "a", special: false };
  const wrong: [string, unknown, string][] = [
    ["model", null, "model"],
    ["model", [], "model"],
    ["model", { type: "BPE", vocab: 3, merges: [] }, "model\\.vocab"],
    ["model", { type: "BPE", vocab: { a: 0.5 }, merges: [] }, "id of token a"],
    ["model", { type: "BPE", vocab: { a: 2 ** 24 }, merges: [] }, "id of token a"],
    ["model", { type: "BPE", vocab: { a: 0 }, merges: 7 }, "model\\.merges"],
    ["model", { type: "BPE", vocab: { a: 0 }, merges: [["a", 1]] }, "model\\.merges"],
    ["model", { type: "BPE", vocab: { a: 0 }, merges: [], unk_token: 1 }, "model\\.unk_token"],
    ["model", { type: "Unigram", vocab: [["a", "b"]] }, "model\\.vocab\\.0"],
    ["added_tokens", 5, "added_tokens"],
    ["added_tokens", [null], "added_tokens\\.0"],
    ["added_tokens", [token, { ...token, content: ["a"] }], "added_tokens\\.1\\.content"],
    ["added_tokens", [{ ...token, content: undefined }], "added_tokens\\.0\\.content"],
    ["added_tokens", [{ ...token, id: -1 }], "id of token a"],
    ["added_tokens", [{ ...token, lstrip: "no" }], "added_tokens\\.0\\.lstrip"],
    ["normalizer", { type: 5 }, "normalizer\\.type"],
    ["normalizer", { type: "Replace", pattern: { Regex: 3 }, content: "" }, "normalizer\\.pattern"],
    ["pre_tokenizer", { type: "Sequence", pretokenizers: 3 }, "pre_tokenizer\\.pretokenizers"],
    ["pre_tokenizer", { type: "Sequence", pretokenizers: [0] }, "pre_tokenizer\\.pretokenizers\\.0"],
    ["post_processor", { type: "TemplateProcessing", single: 1 }, "post_processor\\.single"],
    ["post_processor", { type: "BertProcessing", sep: ["a"], cls: ["a", 1] }, "post_processor\\.sep"],
  ];
  for (const [field, value, path] of wrong) {
    const model = withTokenizer((json) => {
      json[field] = value;
    });
    const message = new RegExp(`tokenizer\\.json: ${path}:|tokenizer\\.json.*\\b${path}\\b`);
    assert.throws(() => openCheckpoint(model), { code: "file_corrupt", message }, `${field} ${path}`);
  }
  const long = withTokenizer((json) => {
    json.normalizer = { type: Array(200).fill(1) };
  });
  assert.throws(() => openCheckpoint(long), /expected a string, found \[1(,1){49}\.$/, "a hundred characters of it");
});

// Work without end, work that grows, and both only for a certain message: whoever reads templates to see what a model can do must not wait.
const HOSTILE = [
  "{% set ns = namespace(t=(1,)) %}{% for i in range(40) %}{% set ns.t = ns.t + ns.t %}{% endfor %}{{ ns.t }}",
  "{% if messages[0].content == 'now' %}{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}{% endif %}{{ messages[0].content }}",
];
test("a hostile template holds up neither the start nor anybody else", async () => {
  for (const template of HOSTILE) {
    const model = writeTinyCheckpoint();
    writeFileSync(join(model, "tokenizer_config.json"), JSON.stringify({ chat_template: template }));
    await using host = await startServer({ model, maxContext: 64 });
    const ask = (content: string) =>
      host.post("/v1/chat/completions", { messages: [{ role: "user", content }], max_tokens: 1 });
    const asked = ask("now");
    let waited = 0;
    for (let isOver = false; !isOver; ) {
      const startMs = performance.now();
      const plain = await host.post("/v1/completions", { prompt: "a", max_tokens: 1 });
      assert.equal(plain.status, 200);
      await plain.text();
      waited = Math.max(waited, performance.now() - startMs);
      isOver = await Promise.race([asked.then(() => true), new Promise<boolean>((r) => setTimeout(r, 20, false))]);
    }
    const refused = await asked;
    assert.equal(refused.status, 400);
    assert.equal(((await refused.json()) as { error: { code: string } }).error.code, "template_failed");
    assert.ok(waited < 2500, `another request took ${waited} ms`); // the template has four seconds of its own
  }
});
