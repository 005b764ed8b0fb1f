// Other APIs' bodies as OpenAI's, field by field.

import assert from "node:assert/strict";
import { test } from "node:test";
import { chatOfConversation, chatOfMessages } from "./anthropic/chat.js";
import type { MessagesBody } from "./anthropic/schema.js";
import { endsWithAnswer } from "./calls/chat-plan.js";
import { chatOfGenerate, chatOfOllama, formatOfOllama } from "./ollama/chat.js";
import type { OllamaChat } from "./ollama/schema.js";
import { chatOfResponse, formatOfResponse, itemsOf, listedItem } from "./openai/response-chat.js";
import type { InputItem, ResponseBody } from "./openai/responses-schema.js";

const USER = { role: "user", content: "a" } as const;
/** Without what is there and undefined. */
const given = (value: object): unknown => JSON.parse(JSON.stringify(value));

test("a conversation is continued that ends with an assistant's own words", () => {
  const said = (more: object) => endsWithAnswer([USER, { role: "assistant", content: "b", ...more }]);
  assert.deepEqual(
    [said({}), said({ content: "" }), said({ content: null }), said({ tool_calls: [] }), said({ role: "user" })],
    [true, false, false, false, false],
  );
  assert.equal(endsWithAnswer([]), false);
});

test("Anthropic: blocks become messages, results of tools their own; what is asked for keeps its meaning", () => {
  const text = (value: string) => ({ type: "text" as const, text: value });
  const body: MessagesBody = {
    model: "m",
    max_tokens: 5,
    system: [text("be"), text("good")],
    messages: [
      { role: "user", content: [text("one"), text("two")] },
      {
        role: "assistant",
        content: [text("I"), { type: "tool_use", id: "t1", name: "add", input: { a: 1 } }],
      },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "t1", content: [text("x"), text("y")] },
          { type: "tool_result", tool_use_id: "t2" },
          text("and?"),
        ],
      },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "t3", content: "z" }] },
      { role: "user", content: "then" },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "t4" },
          { type: "tool_use", id: "t5", name: "add", input: {} },
        ],
      },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "t6" },
          { type: "thinking", thinking: "hm" },
        ],
      },
      { role: "user", content: [] },
    ],
    tools: [
      { name: "add", description: "adds", input_schema: { type: "object" } },
      { name: "sub", input_schema: {} },
    ],
    ...{ stream: true, stop_sequences: ["!"], temperature: 0.5, top_k: 3, top_p: 0.9 },
    thinking: { type: "disabled" },
  };
  const call = { id: "t1", type: "function", function: { name: "add", arguments: '{"a":1}' } };
  assert.deepEqual(given(chatOfMessages(body)), {
    model: "m",
    messages: [
      { role: "system", content: "be\ngood" },
      { role: "user", content: "one\ntwo" },
      { role: "assistant", content: "I", tool_calls: [call] },
      { role: "tool", tool_call_id: "t1", content: "x\ny" },
      { role: "tool", tool_call_id: "t2", content: "" },
      { role: "user", content: "and?" },
      { role: "tool", tool_call_id: "t3", content: "z" },
      { role: "user", content: "then" },
      { role: "tool", tool_call_id: "t4", content: "" },
      {
        role: "user",
        content: "",
        tool_calls: [{ id: "t5", type: "function", function: { name: "add", arguments: "{}" } }],
      },
      { role: "tool", tool_call_id: "t6", content: "" },
      { role: "user", content: "", reasoning_content: "hm" },
      { role: "user", content: "" },
    ],
    continue_final_message: false,
    tools: [
      { type: "function", function: { name: "add", parameters: { type: "object" }, description: "adds" } },
      { type: "function", function: { name: "sub", parameters: {} } },
    ],
    chat_template_kwargs: { enable_thinking: false },
    ...{ max_tokens: 5, stream: true, stop: ["!"], temperature: 0.5, top_k: 3, top_p: 0.9, parallel_tool_calls: true },
  });
  const plain = { model: "m", max_tokens: 1, messages: [USER] };
  const chosen = (tool_choice: MessagesBody["tool_choice"]) => {
    const chat = chatOfMessages({ ...plain, tool_choice });
    return [chat.tool_choice, chat.parallel_tool_calls];
  };
  assert.deepEqual(chosen(undefined), [undefined, true]);
  assert.deepEqual(chosen({ type: "auto", disable_parallel_tool_use: true }), ["auto", false]);
  assert.deepEqual(chosen({ type: "none" }), ["none", true]);
  assert.deepEqual(chosen({ type: "any", disable_parallel_tool_use: false }), ["required", true]);
  assert.deepEqual(chosen({ type: "tool", name: "f" }), [{ type: "function", function: { name: "f" } }, true]);
  const thinking = chatOfConversation({ ...plain, thinking: { type: "adaptive" } });
  assert.deepEqual(thinking.chat_template_kwargs, { enable_thinking: true });
  for (const system of [undefined, null, "", []])
    assert.deepEqual(chatOfConversation({ ...plain, system }).messages, [USER]);
  assert.deepEqual(chatOfConversation({ ...plain, system: "s" }).messages[0], { role: "system", content: "s" });
  const begun = { ...plain, messages: [USER, { role: "assistant" as const, content: "b" }] };
  assert.equal(chatOfConversation(begun).continue_final_message, true);
});

test("Ollama: calls get ids that their results answer in turn; options are its own", () => {
  const call = (id?: string) => ({
    ...(id === undefined ? {} : { id }),
    function: { name: "add", arguments: { a: 1 } },
  });
  const body: OllamaChat = {
    model: "m",
    messages: [
      USER,
      { role: "assistant", content: "", thinking: "hm", tool_calls: [call(), call("own"), call()] },
      { role: "tool", content: "1", tool_name: "add" },
      { role: "tool", content: "2" },
      { role: "tool", content: "3", tool_call_id: "said" },
      { role: "tool", content: "4" },
      { role: "tool", content: "5" },
    ],
    tools: [{ type: "function", function: { name: "add", type: "object" } }],
    options: {
      ...{ num_predict: 7, temperature: 0.5, top_k: 3, top_p: 0.9, min_p: 0.1, seed: 4, stop: ["!"] },
      ...{ repeat_penalty: 1.1, presence_penalty: 0.2, frequency_penalty: 0.3 },
    },
    logprobs: true,
    top_logprobs: 2,
    think: "high",
  };
  const called = (id: string) => ({ id, type: "function", function: { name: "add", arguments: '{"a":1}' } });
  assert.deepEqual(given(chatOfOllama(body)), {
    model: "m",
    messages: [
      USER,
      {
        role: "assistant",
        content: "",
        reasoning_content: "hm",
        tool_calls: [called("call_0"), called("own"), called("call_1")],
      },
      { role: "tool", content: "1", tool_call_id: "call_0", name: "add" },
      { role: "tool", content: "2", tool_call_id: "own" },
      { role: "tool", content: "3", tool_call_id: "said" },
      { role: "tool", content: "4", tool_call_id: "call_1" },
      { role: "tool", content: "5", tool_call_id: "call_0" },
    ],
    continue_final_message: false,
    tools: [{ type: "function", function: { name: "add" } }],
    ...{ max_tokens: 7, temperature: 0.5, top_k: 3, top_p: 0.9, min_p: 0.1, seed: 4, stop: ["!"] },
    ...{ repetition_penalty: 1.1, presence_penalty: 0.2, frequency_penalty: 0.3, logprobs: true, top_logprobs: 2 },
    chat_template_kwargs: { enable_thinking: true },
    reasoning_effort: "high",
  });
  for (const [num_predict, max_tokens] of [
    [1, 1],
    [0, null],
    [-1, null],
    [null, null],
  ] as const)
    assert.equal(chatOfGenerate({ model: "m", options: { num_predict } }).max_tokens, max_tokens);
  assert.deepEqual(chatOfGenerate({ model: "m" }).messages, [{ role: "user", content: "" }]);
  assert.deepEqual(chatOfGenerate({ model: "m", prompt: "p", system: "s" }).messages, [
    { role: "system", content: "s" },
    { role: "user", content: "p" },
  ]);
  const named = { ...USER, tool_name: "add" };
  assert.deepEqual(chatOfOllama({ model: "m", messages: [named] }).messages, [USER], "only results have a tool's name");
});

test("Ollama: a format is any object, a schema, or none", () => {
  const of = (format: OllamaChat["format"]) => formatOfOllama({ model: "m", format });
  const constraint = (source: string) => ({ kind: "json_schema", source, param: "format" });
  assert.deepEqual(
    [of(undefined), of(null), of(""), of("json"), of({ type: "string" })],
    [null, null, null, constraint('{"type":"object"}'), constraint('{"type":"string"}')],
  );
});

test("Responses: items become messages, calls and thoughts part of the assistant's; the rest keeps its meaning", () => {
  const items: InputItem[] = [
    { role: "developer", content: "d" },
    { role: "user", content: [{ type: "input_text", text: "a" }, { type: "refusal", refusal: "b" }, { type: "text" }] },
    { type: "reasoning", content: [{ type: "reasoning_text", text: "hm" }] },
    { type: "function_call", call_id: "c1", name: "add", arguments: "{}" },
    { type: "function_call", call_id: "c2", name: "sub", arguments: "{}" },
    { type: "function_call_output", call_id: "c1", output: "1" },
    { type: "reasoning" },
    { role: "assistant", content: "x" },
    { role: "assistant", content: "y" },
    { role: "user", content: "z" },
    { role: "assistant", content: "w" },
  ];
  const body: ResponseBody = {
    model: "m",
    input: "unused",
    instructions: "be good",
    ...{ max_output_tokens: 5, temperature: 0.5, top_p: 0.9, seed: 3, cache_salt: "s", top_logprobs: 2 },
    tools: [
      { type: "function", name: "add", description: "adds", parameters: { type: "object" } },
      { type: "function", name: "sub", description: null, parameters: null },
    ],
    tool_choice: { type: "function", name: "add" },
    parallel_tool_calls: false,
    reasoning: { effort: "low" },
  };
  const call = (id: string, name: string) => ({ id, type: "function", function: { name, arguments: "{}" } });
  const named = (name: string) => ({ type: "function", function: { name } });
  assert.deepEqual(given(chatOfResponse(body, items)), {
    model: "m",
    messages: [
      { role: "system", content: "be good" },
      { role: "developer", content: "d" },
      { role: "user", content: "a\nb\n" },
      { role: "assistant", content: "", reasoning_content: "hm", tool_calls: [call("c1", "add"), call("c2", "sub")] },
      { role: "tool", tool_call_id: "c1", content: "1" },
      { role: "assistant", content: "xy" },
      { role: "user", content: "z" },
      { role: "assistant", content: "w" },
    ],
    ...{ max_tokens: 5, temperature: 0.5, top_p: 0.9, seed: 3, cache_salt: "s", logprobs: true, top_logprobs: 2 },
    tools: [
      { type: "function", function: { name: "add", description: "adds", parameters: { type: "object" } } },
      { type: "function", function: { name: "sub" } },
    ],
    tool_choice: named("add"),
    parallel_tool_calls: false,
    reasoning_effort: "low",
  });
  const chosen = (tool_choice: ResponseBody["tool_choice"]) =>
    chatOfResponse({ input: "", tool_choice }, []).tool_choice;
  assert.deepEqual([chosen(undefined), chosen("required")], [undefined, "required"]);
  assert.deepEqual(chosen({ type: "allowed_tools", mode: "auto", tools: [{ type: "function", name: "f" }] }), {
    type: "allowed_tools",
    allowed_tools: { mode: "auto", tools: [named("f")] },
  });
  assert.deepEqual(chatOfResponse({ input: "", instructions: "" }, []).messages, []);
  const unknown = () => chatOfResponse({ input: "" }, [USER, { id: "item_9" }]);
  const message = 'There is no item "item_9" here; send the item itself, or use previous_response_id.';
  assert.throws(unknown, { code: "item_not_found", param: "input.1.id", message });
});

test("Responses: formats, and items as they are listed", () => {
  const of = (text: ResponseBody["text"]) => formatOfResponse({ input: "", text });
  assert.deepEqual([of(undefined), of({}), of({ format: { type: "text" } })], [null, null, null]);
  const constraint = { kind: "json_schema", source: '{"type":"object"}', param: "text.format" };
  assert.deepEqual(of({ format: { type: "json_object" } }), constraint);
  const schema = { type: "string" };
  assert.deepEqual(of({ format: { type: "json_schema", schema } }), {
    ...{ kind: "json_schema", source: '{"type":"string"}', param: "text.format.schema" },
  });
  assert.deepEqual(itemsOf("hi"), [{ role: "user", content: "hi" }]);
  const parts = [{ type: "input_text" as const, text: "p" }];
  const items: InputItem[] = [
    { role: "assistant", content: "a" },
    { role: "user", content: parts, id: "own" },
    { id: "r" },
  ];
  assert.equal(itemsOf(items), items);
  assert.deepEqual(items.map(listedItem), [
    {
      ...{ id: "item_0", type: "message", status: "completed", role: "assistant" },
      content: [{ type: "output_text", text: "a" }],
    },
    { id: "own", type: "message", status: "completed", role: "user", content: parts },
    { id: "r" },
  ]);
});
