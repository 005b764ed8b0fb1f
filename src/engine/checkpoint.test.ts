import assert from "node:assert/strict";
import { cpSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { writeTinyCheckpoint } from "../../test/support/tiny-checkpoint.js";
import { openCheckpoint } from "./checkpoint.js";

const tiny = writeTinyCheckpoint({ layers: 1 });

/** The same checkpoint under another name, with other words in its tokenizer and config. */
function named(name: string, words: readonly string[] = [], config: Record<string, unknown> = {}): string {
  const folder = join(mkdtempSync(join(tmpdir(), "pagoda-checkpoint-")), name);
  cpSync(tiny, folder, { recursive: true });
  const change = (file: string, edit: (json: Record<string, unknown>) => object) => {
    const path = join(folder, file);
    writeFileSync(path, JSON.stringify(edit(JSON.parse(readFileSync(path, "utf8")))));
  };
  change("config.json", (json) => ({ ...json, ...config }));
  change("tokenizer.json", (json) => {
    const known = json.added_tokens as { content: string }[];
    for (const [i, word] of words.entries()) known[i + 2] = { ...known[i + 2]!, content: word };
    return json;
  });
  return folder;
}

test("only the name of Qwen's rerankers says that yes and no are verdicts", () => {
  const recipeOf = (...args: Parameters<typeof named>) => {
    const { isAsked, verdict } = openCheckpoint(named(...args)).recipe;
    return { isAsked, verdict };
  };
  const none = { isAsked: false, verdict: null };
  assert.deepEqual(recipeOf("Qwen3-Reranker-0.6B", ["yes", "no"]), { isAsked: true, verdict: { yes: 258, no: 259 } });
  assert.deepEqual(recipeOf("qwen3-reranker", ["yes"]), { isAsked: true, verdict: { yes: 258, no: null } });
  assert.deepEqual(recipeOf("Qwen3", ["yes", "no"]), none);
  assert.deepEqual(recipeOf("Qwen3-Reranker-4B"), none, "it has no such tokens");
  const classifier = { architectures: ["Qwen3ForSequenceClassification"] };
  assert.deepEqual(recipeOf("Qwen3-Reranker-4B", ["yes", "no"], classifier), { isAsked: true, verdict: null });
});

test("a checkpoint's ends are those of its config and of its tokenizer, each once", () => {
  assert.deepEqual(openCheckpoint(named("a")).eosIds, [257]);
  assert.deepEqual(openCheckpoint(named("b", [], { eos_token_id: [5, 257] })).eosIds, [5, 257]);
  const { templates, tokenizer, requireTokenizer, name } = openCheckpoint(named("c"));
  assert.deepEqual([name, [...templates.keys()], requireTokenizer() === tokenizer], ["c", ["default"], true]);
});
