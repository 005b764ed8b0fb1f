// Thoughts before answers that are bound, and thoughts that are ended: over HTTP, by a model that always thinks the same.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type Script, writeScriptedModel } from "../support/scripted-model.js";
import { startServer, type TestServer } from "../support/test-server.js";

const THOUGHTS = ["one ", "two ", "three ", "four"];
const tool = { type: "function", function: { name: "add", parameters: { const: { a: 1 } } } };
/** It has the tags as tokens; `isOpened`: its template begins the thoughts. */
const scripts = (isOpened: boolean): Script[] => [
  { when: "true", answer: ["<think>", ...THOUGHTS, "</think>", "The answer."], isOpened },
];
const tags = ["<think>", "</think>"];
let opened: TestServer;
let free: TestServer;

before(async () => {
  opened = await startServer({ model: writeScriptedModel(scripts(true), { tags, context: 2048 }) });
  free = await startServer({ model: writeScriptedModel(scripts(false), { tags, context: 2048 }) });
});
after(async () => {
  await opened[Symbol.asyncDispose]();
  await free[Symbol.asyncDispose]();
});

// biome-ignore lint/suspicious/noExplicitAny: answers of several APIs
type Json = Record<string, any>;

async function ask(to: TestServer, fields: object, path = "/v1/chat/completions"): Promise<Json> {
  const body = { model: "", max_tokens: 60, temperature: 0, messages: [{ role: "user", content: "hi" }], ...fields };
  const response = await to.post(path, body);
  const json = (await response.json()) as Json;
  assert.equal(response.status, 200, JSON.stringify(json));
  return json;
}

async function turn(to: TestServer, fields: object): Promise<unknown[]> {
  const { choices, usage } = await ask(to, fields);
  const { content, reasoning_content } = choices[0].message;
  return [reasoning_content ?? null, content, usage.completion_tokens_details?.reasoning_tokens ?? 0];
}

const all = THOUGHTS.join("");
const YES = { response_format: { type: "json_schema", json_schema: { schema: { enum: ["yes"] } } } };

test("an answer that is bound begins behind the thoughts, whoever opens them", async () => {
  assert.deepEqual(await turn(opened, {}), [all, "The answer.", 5]);
  assert.deepEqual(await turn(free, {}), [all, "The answer.", 6], "the tag that opens them is one of them");
  assert.deepEqual(await turn(opened, YES), [all, '"yes"', 5]);
  assert.deepEqual(await turn(free, YES), [all, '"yes"', 6]);
  assert.deepEqual(await turn(opened, { guided_regex: "[ab]{3}" }), [all, "aaa", 5]);
  const forced = await ask(opened, { tools: [tool], tool_choice: "required" });
  const { tool_calls, reasoning_content } = forced.choices[0].message;
  assert.deepEqual([reasoning_content, tool_calls[0].function.name], [all, "add"]);
});

test("thoughts end when their budget is spent, by whichever name it comes", async () => {
  const two = ["one two", "The answer.", 3];
  assert.deepEqual(await turn(opened, { thinking_token_budget: 2 }), two);
  assert.deepEqual(await turn(opened, { thinking_budget: 2 }), two);
  assert.deepEqual(await turn(opened, { reasoning: { max_tokens: 2 } }), two);
  assert.deepEqual(await turn(opened, { thinking: { type: "enabled", budget_tokens: 2 } }), two);
  assert.deepEqual(await turn(free, { thinking_token_budget: 2 }), ["one two", "The answer.", 4]);
  assert.deepEqual(await turn(opened, { thinking_token_budget: 2, ...YES }), ["one two", '"yes"', 3]);
  assert.deepEqual(await turn(opened, { thinking_token_budget: 0 }), [null, "The answer.", 1]);
  assert.deepEqual(await turn(opened, { reasoning_effort: "none" }), [null, "The answer.", 1]);
  assert.deepEqual(await turn(opened, { thinking_token_budget: 100 }), [all, "The answer.", 5]);
  assert.deepEqual(await turn(opened, { thinking_token_budget: -1, reasoning_effort: "low" }), [all, "The answer.", 5]);
});

test("several samples, and answers that are guessed ahead, think the same", async () => {
  const { choices, usage } = await ask(opened, { n: 2, thinking_token_budget: 2, ...YES });
  for (const { message } of choices)
    assert.deepEqual([message.reasoning_content, message.content], ["one two", '"yes"']);
  assert.equal(usage.completion_tokens_details.reasoning_tokens, 6);
  const prediction = { type: "content", content: all };
  for (const speculative of ["ngram", "suffix"] as const) {
    const guessed = { speculative, prediction };
    assert.deepEqual((await turn(opened, { ...guessed, ...YES })).slice(0, 2), [all, '"yes"']);
    assert.deepEqual(await turn(opened, { ...guessed, thinking_token_budget: 3 }), ["one two three", "The answer.", 4]);
  }
});

test("the other APIs: budgets and counts", async () => {
  const message = await ask(opened, { thinking: { type: "enabled", budget_tokens: 2 } }, "/v1/messages");
  assert.deepEqual(
    message.content.map((block: Json) => block.thinking ?? block.text),
    ["one two", "The answer."],
  );
  const { output, usage } = await ask(
    opened,
    { input: "hi", messages: undefined, temperature: 0, reasoning: { effort: "none" } },
    "/v1/responses",
  );
  assert.equal(output.at(-1).content[0].text, "The answer.");
  assert.equal(usage.output_tokens_details.reasoning_tokens, 1);
  const response = await opened.post("/v1/chat/completions", {
    ...{ messages: [{ role: "user", content: "hi" }], temperature: 0, stream: true },
    ...{ stream_options: { include_usage: true }, thinking_token_budget: 3 },
  });
  const events = (await response.text()).split("\n\n").filter((line) => line.startsWith("data: {"));
  const chunks = events.map((line) => JSON.parse(line.slice(6)) as Json);
  assert.equal(chunks.map(({ choices }) => choices[0]?.delta.reasoning_content ?? "").join(""), "one two three");
  assert.equal(chunks.at(-1)!.usage.completion_tokens_details.reasoning_tokens, 4);
});
