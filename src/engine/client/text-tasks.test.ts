import assert from "node:assert/strict";
import { test } from "node:test";
import { writeTinyCheckpoint } from "../../../test/support/tiny-checkpoint.js";
import { openCheckpoint } from "../checkpoint.js";
import type { EngineFacts } from "../messages.js";
import { type RunText, TextTasks } from "./text-tasks.js";

const checkpoint = openCheckpoint(writeTinyCheckpoint());
const tokenizer = checkpoint.tokenizer!;

/** Texts are tokens here as there; the vector of one is its length and its first token. */
function tasksOf(recipe: Partial<typeof checkpoint.recipe> = {}, more: Partial<EngineFacts> = {}) {
  const ran: [kind: string, text: string, pooling: string | undefined][] = [];
  const run: RunText = async (kind, ids, { pooling }) => {
    ran.push([kind, tokenizer.decode(ids), pooling]);
    return Float32Array.of(ids.length, ids[0]!, 0);
  };
  const facts = { maxContext: 10, poolTokens: 20, task: "generate", numLabels: 0, isBidirectional: false, ...more };
  const tasks = new TextTasks(
    { ...checkpoint, recipe: { ...checkpoint.recipe, ...recipe }, requireTokenizer: () => tokenizer },
    () => facts as EngineFacts,
    async (text, options) => tokenizer.encode(text, options),
    run,
  );
  return { tasks, ran };
}

test("a text runs with the checkpoint's own pooling, or another one without the layers after it", async () => {
  const { tasks, ran } = tasksOf();
  const { vectors, promptTokens } = await tasks.embed(["abc", [5, 6]], {});
  assert.deepEqual([vectors[0]!.length, promptTokens], [3, 5]);
  await tasks.embed(["abc"], { pooling: "mean" });
  await tasksOf({}, { isBidirectional: true }).tasks.embed(["x"], {});
  const own = tasksOf({ pooling: "mean" });
  await own.tasks.embed(["abc"], {});
  assert.deepEqual(
    ran.map(([kind, , pooling]) => [kind, pooling]),
    [
      ["embed", "last"],
      ["embed", "last"],
      ["pool", "mean"],
    ],
  );
  assert.deepEqual(own.ran[0], ["embed", "abc", "mean"]);
  await assert.rejects(tasks.embed(["a"], { pooling: "most" as never }), { param: "pooling" });
});

test("vectors are cut, then scaled, as asked or as the checkpoint says", async () => {
  const { tasks } = tasksOf({ isNormalized: false });
  assert.deepEqual((await tasks.embed([[3, 9, 9, 9]], {})).vectors[0], Float32Array.of(4, 3, 0));
  assert.deepEqual((await tasks.embed([[3, 9, 9, 9]], { normalize: true })).vectors[0], Float32Array.of(0.8, 0.6, 0));
  assert.deepEqual((await tasks.embed([[3, 9]], { normalize: true, dimensions: 1 })).vectors[0], Float32Array.of(1));
  const scaled = tasksOf({ isNormalized: true }).tasks;
  assert.deepEqual((await scaled.embed([[3, 9, 9, 9]], {})).vectors[0], Float32Array.of(0.8, 0.6, 0));
});

test("a text's prompt: the one given, the one named, the one of its kind, the default", async () => {
  const { tasks, ran } = tasksOf({ prompts: { query: "q:", passage: "p:", other: "o:" }, defaultPrompt: "other" });
  await tasks.embed(["x"], {});
  await tasks.embed(["x"], { prompt: "" });
  await tasks.embed(["x"], { prompt: "z:" });
  await tasks.embed(["x"], { promptName: "passage" });
  for (const inputType of ["query", "search_query", "document", "search_document", "passage", "clustering"])
    await tasks.embed(["x"], { inputType: inputType as never });
  assert.deepEqual(
    ran.map(([, text]) => text),
    ["o:x", "x", "z:x", "p:x", "q:x", "q:x", "p:x", "p:x", "p:x", "x"],
  );
  await assert.rejects(tasks.embed(["x"], { promptName: "nope" }), {
    param: "promptName",
    message: /query, passage, other/,
  });
  const without = tasksOf({ prompts: {}, defaultPrompt: "gone" });
  await without.tasks.embed(["x"], {});
  assert.equal(without.ran[0]![1], "x");
});

test("texts are cut where that is asked for, to a number of tokens or to what the model takes", async () => {
  const { tasks, ran } = tasksOf({ maxLength: 6 });
  const text = "abcdefghijkl";
  for (const truncate of [true, 3, 100] as const) await tasks.embed([text], { truncate });
  await tasks.embed([[1, 2, 3, 4]], { truncate: 2 });
  await tasks.embed([text], {});
  await tasks.embed([text], { truncate: false });
  assert.deepEqual(
    ran.slice(0, 3).map(([, cut]) => cut),
    ["abcdef", "abc", "abcdefghij"],
  );
  assert.deepEqual(
    ran.slice(3).map(([, cut]) => cut.length),
    [2, 12, 12],
  );
  for (const truncate of [0, -1, 1.5]) await assert.rejects(tasks.embed([text], { truncate }), { param: "truncate" });
  await assert.rejects(tasks.embed(["abc", text], { maxTokens: 11 }), { code: "text_too_long" });
  await tasks.embed([text], { maxTokens: 12 });
  await assert.rejects(tasks.embed(["x".repeat(321)], {}), { code: "text_too_long" }, "more than ten tokens can be");
  await tasks.embed(["x".repeat(321)], { truncate: true });
  assert.equal(ran.at(-1)![1], "xxxxxx");
});

test("pairs are compared by angle where a model embeds; the best come first, equals in their order", async () => {
  const { tasks, ran } = tasksOf({ pooling: "last", isNormalized: false, prompts: { query: "q:", document: "d:" } });
  const { results, promptTokens } = await tasks.rerank("a", ["bb", "b", "bb"], { topN: 2 });
  assert.deepEqual(
    ran.map(([, text]) => text),
    ["q:a", "d:bb", "d:b"],
    "each text once",
  );
  assert.equal(promptTokens, 3 + 4 + 3);
  assert.equal(results.length, 2);
  assert.ok(results[0]!.score >= results[1]!.score);
  const all = await tasks.rerank("a", ["bb", "b", "bb"], {});
  assert.deepEqual(
    all.results.map(({ index }) => index).filter((index) => index !== 1),
    [0, 2],
  );
  for (const topN of [0, 1.5]) await assert.rejects(tasks.rerank("a", ["b"], { topN }), { param: "topN" });
  await assert.rejects(tasksOf().tasks.score([["a", "b"]], {}), { code: "task_unsupported" });
  await assert.rejects(tasksOf({}, { numLabels: 3 }).tasks.score([["a", "b"]], {}), { code: "task_unsupported" });
});
