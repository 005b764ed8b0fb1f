import assert from "node:assert/strict";
import { test } from "node:test";
import { overriding } from "../../../test/support/overriding.js";
import { writeTinyCheckpoint } from "../../../test/support/tiny-checkpoint.js";
import { CapacityError } from "../../core/errors.js";
import type { EncodeOptions } from "../../tokenizer/tokenizer.js";
import type { EngineFacts } from "../messages.js";
import { openChatCheckpoint } from "./chat-checkpoint.js";
import { type RunText, TextTasks } from "./text-tasks.js";
import { verdictPrompt } from "./verdict-prompt.js";

const checkpoint = openChatCheckpoint(writeTinyCheckpoint());
const tokenizer = checkpoint.tokenizer!;
const [OPEN, BETWEEN, CLOSE] = ["(", "|", ")"].map((mark) => tokenizer.encode(mark));
const around = { before: OPEN!, between: BETWEEN!, after: CLOSE!, hasTypes: true };
/** Pairs stand in brackets, texts alone in nothing. */
const framing = overriding(tokenizer, {
  frame: (isPair) => (isPair ? around : { before: [], between: [], after: [], hasTypes: false }),
});

const MOST = 50;

/** Texts are tokens here as there; the vector of one is its length and its first token. */
function tasksOf(recipe: Partial<typeof checkpoint.recipe> = {}, more: Partial<EngineFacts> = {}) {
  const ran: [kind: string, text: string, pooling: string | undefined, ...second: number[]][] = [];
  const asked: [text: string, options: EncodeOptions][] = [];
  const run: RunText = async (kind, ids, { pooling, secondStart }) => {
    ran.push([kind, tokenizer.decode(ids), pooling, ...(secondStart === undefined ? [] : [secondStart])]);
    return Float32Array.of(ids.length, ids[0]!, 0);
  };
  const facts = { maxContext: 10, poolTokens: 20, task: "generate", numLabels: 0, isBidirectional: false, ...more };
  const asking = { ...checkpoint, recipe: { ...checkpoint.recipe, ...recipe }, requireTokenizer: () => framing };
  const tasks = new TextTasks(
    asking,
    () => facts as EngineFacts,
    async (text, options) => {
      asked.push([text, options]);
      return tokenizer.encode(text, options);
    },
    async (query, document, limit, { instruction }) => verdictPrompt(asking, query, document, instruction, limit),
    run,
    (count) => {
      if (count > MOST) throw new CapacityError("queue_full", { value: 0, limit: MOST });
    },
  );
  return { tasks, ran, asked };
}

test("a list that has no room is refused before any text of it is tokenised", async () => {
  const { tasks, asked, ran } = tasksOf();
  await assert.rejects(tasks.embed(Array(MOST + 1).fill("a"), {}), { code: "queue_full" });
  assert.deepEqual([asked, ran], [[], []]);
});

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

test("vectors are cut, then scaled unless that is not wanted", async () => {
  const { tasks } = tasksOf();
  assert.deepEqual((await tasks.embed([[3, 9, 9, 9]], { normalize: false })).vectors[0], Float32Array.of(4, 3, 0));
  assert.deepEqual((await tasks.embed([[3, 9, 9, 9]], {})).vectors[0], Float32Array.of(0.8, 0.6, 0));
  assert.deepEqual((await tasks.embed([[3, 9]], { normalize: true, dimensions: 1 })).vectors[0], Float32Array.of(1));
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
  await tasks.embed([`y${"x".repeat(320)}`], { truncate: true });
  assert.equal(ran.at(-1)![1], "yxxxxx");
  await tasks.embed([text], { truncate: 1 });
  assert.equal(ran.at(-1)![1], "a");
});

test("pairs are compared by angle where a model embeds; the best come first, equals in their order", async () => {
  const { tasks, ran } = tasksOf({ pooling: "last", prompts: { query: "q:", document: "d:" } });
  const { results, promptTokens } = await tasks.rerank("a", ["bb", "b", "bb"], { topN: 2 });
  assert.deepEqual(
    ran.map(([, text]) => text),
    ["q:a", "d:bb", "d:b"],
    "each text once",
  );
  assert.equal(promptTokens, 3 + 4 + 3);
  assert.equal((await tasks.rerank("a", ["bb", "b", "bb"], { topN: 1 })).results.length, 1);
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

test("a text is content, in which no control token is found; its prompt is the checkpoint's own", async () => {
  const { tasks, asked } = tasksOf({ prompts: { query: "q:" } });
  await tasks.embed(["<eos>"], { promptName: "query" });
  await tasks.embed([""], { prompt: "<eos>" });
  assert.deepEqual(asked, [
    ["q:<eos>", { addSpecialTokens: false, content: [[2, 7]] }],
    ["<eos>", { addSpecialTokens: false, content: [] }],
  ]);
});

test("a cross-encoder reads both texts at once: one number, made a probability unless it is to stay as it is", async () => {
  const scorer = { numLabels: 1, scorePooling: "first" } as const;
  const { tasks, ran } = tasksOf({ scoreActivation: "sigmoid" }, scorer);
  const pairs = [["a", "bc"]] as const;
  assert.deepEqual(await tasks.score(pairs, { raw: true }), { scores: [6], promptTokens: 6 });
  assert.deepEqual(ran, [["score", "(a|bc)", "first", 3]]);
  const sigmoid = 1 / (1 + Math.exp(-6));
  for (const raw of [undefined, false]) {
    const { scores } = await tasks.score(pairs, raw === undefined ? {} : { raw });
    assert.ok(Math.abs(scores[0]! - sigmoid) < 1e-6);
  }
  assert.deepEqual((await tasksOf({ scoreActivation: "identity" }, scorer).tasks.score(pairs, {})).scores, [6]);
  await assert.rejects(tasks.score(pairs, { maxTokens: 5 }), { code: "text_too_long" });
  await tasks.score(pairs, { maxTokens: 6, truncate: 5 });
  assert.equal(ran.at(-1)![1], "(a|b)");
  const asking = tasksOf({ isAsked: true, question: "{query}?{document}!" }, scorer);
  await asking.tasks.score(pairs, {});
  assert.deepEqual(asking.ran, [["score", "a?bc!", "first"]]);
});

test("lists are lists, and what is wrong is shown, though not all of it", async () => {
  const { tasks } = tasksOf();
  await assert.rejects(tasks.embed({ length: 0 } as never, {}), { param: "inputs" });
  await assert.rejects(tasks.score("ab" as never, {}), { param: "pairs" });
  await assert.rejects(tasks.rerank("a", "b" as never, {}), { param: "documents" });
  const long = `y${"x".repeat(150)}`;
  await assert.rejects(tasks.embed(["a"], { pooling: long as never }), { message: /pooling is yx{99};/ });
});
