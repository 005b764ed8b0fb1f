import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { writeGguf } from "../support/gguf-writer.js";
import { findTemplates } from "./find.js";
import { firstDifference, renderAllInJinja } from "./renders.js";

const CHATS = fileURLToPath(new URL("../../../test/fixtures/jinja/chats/", import.meta.url));
const compare = (...places: string[]) =>
  spawnSync(process.execPath, [fileURLToPath(new URL("compare.js", import.meta.url)), ...places], { encoding: "utf8" });

function noJinja(): string | false {
  try {
    renderAllInJinja([]);
    return false;
  } catch (error) {
    return (error as Error).message;
  }
}

test("our templates render as in the jinja2 of this machine", { skip: noJinja() }, () => {
  const { status, stdout } = compare(CHATS);
  assert.equal(status, 0, stdout);
  assert.match(stdout, /^9 templates +144 +\d+ +0$/m);
});

test("without a template there is nothing to compare", () => {
  const { status, stderr } = compare();
  assert.equal(status, 2);
  assert.match(stderr, /PLACE/);
});

test("templates are found in files, model folders and GGUF files, each text once", () => {
  const root = mkdtempSync(join(tmpdir(), "templates-"));
  mkdirSync(join(root, "two"));
  const config = [
    { name: "default", template: "A" },
    { name: "tool_use", template: "B" },
  ];
  writeFileSync(join(root, "two", "tokenizer_config.json"), JSON.stringify({ chat_template: config }));
  writeFileSync(join(root, "two", "chat_template.json"), JSON.stringify({ chat_template: "A" }));
  writeFileSync(join(root, "two", "config.json"), JSON.stringify({ chat_template: "not one" }));
  writeFileSync(join(root, "one.jinja"), "C");
  writeFileSync(join(root, "again.jinja"), "C");
  writeFileSync(join(root, "g.gguf"), writeGguf({ "tokenizer.chat_template": "D" }, []));
  assert.deepEqual(
    findTemplates([root]).map(({ name, source }) => `${name}: ${source}`),
    ["again: C", "g.gguf: D", "two: A", "two tool_use: B"],
  );
});

test("a difference is shown where it begins; an error equals an error alone", () => {
  assert.equal(firstDifference({ text: "same" }, { text: "same" }), null);
  assert.equal(firstDifference({ error: "ours" }, { error: "theirs" }), null);
  assert.match(firstDifference({ text: "a b" }, { text: "a c" })!, /^at character 2: "a b", jinja2 "a c"$/);
  assert.match(firstDifference({ text: "a" }, { text: "a\n" })!, /^at character 1: "a", jinja2 "a\\n"$/);
  assert.match(firstDifference({ error: "no" }, { text: "" })!, /^fails \(no\), jinja2 does not/);
  assert.match(firstDifference({ text: "" }, { error: "no" })!, /^renders where jinja2 fails \(no\)/);
});
