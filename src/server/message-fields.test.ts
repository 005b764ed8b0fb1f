// What the APIs call reasoning and content becomes what chat templates know.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Engine } from "../engine/types.js";
import { chatOfConversation } from "./anthropic/chat.js";
import { toChatMessages } from "./calls/prompt.js";
import { chatOfGenerate } from "./ollama/chat.js";
import { chatOfResponse } from "./openai/response-chat.js";
import { ResponseWriter } from "./openai/response-writer.js";
import type { InputItem } from "./openai/responses-schema.js";

test("what an Anthropic client gives back as thinking is a message's reasoning; one without has none", () => {
  const user = { role: "user" as const, content: "a" };
  const said = [
    { type: "thinking" as const, thinking: "first" },
    { type: "thinking" as const, thinking: "then" },
    { type: "text" as const, text: "b" },
  ];
  const assistant = { role: "assistant" as const, content: said };
  const plain = { role: "assistant" as const, content: said.slice(2) };
  const { messages } = chatOfConversation({ model: "m", messages: [user, assistant, user, plain, user] });
  assert.deepEqual(messages[1], { role: "assistant", content: "b", reasoning_content: "first\nthen" });
  assert.deepEqual(messages[3], { role: "assistant", content: "b" });
});

test("reasoning items of a Responses client belong to the assistant's message after them, and are written as items", () => {
  const thought = (text: string): InputItem => ({ type: "reasoning", content: [{ type: "reasoning_text", text }] });
  const items: InputItem[] = [
    { role: "user", content: "a" },
    thought("first, "),
    thought("then"),
    { role: "assistant", content: "b" },
    thought(""),
  ];
  const body = { input: [], include: ["message.output_text.logprobs" as const] };
  const chat = chatOfResponse(body, items);
  assert.deepEqual(chat.messages[1], { role: "assistant", content: "b", reasoning_content: "first, then" });
  assert.equal(chat.messages.length, 2);
  assert.deepEqual([chat.logprobs, chat.top_logprobs], [true, 0]);
  assert.equal("logprobs" in chatOfResponse({ input: [] }, items), false);

  const writer = new ResponseWriter({} as Engine); // its tokenizer is for log-probabilities
  const events = [
    ...writer.take({ delta: { reasoning_content: "first, " }, logprobs: [] }),
    ...writer.take({ delta: { reasoning_content: "then" }, logprobs: [] }),
    ...writer.take({ delta: { content: "" }, logprobs: [] }),
    ...writer.endAll("length"),
  ];
  const deltas = events.filter(({ type }) => type === "response.reasoning_text.delta");
  assert.deepEqual(
    deltas.map(({ fields }) => [fields.delta, fields.output_index]),
    [
      ["first, ", 0],
      ["then", 0],
    ],
  );
  assert.deepEqual(
    writer.items.map(({ type, status, content }) => [type, status, content]),
    [
      ["reasoning", "incomplete", [{ type: "reasoning_text", text: "first, then" }]],
      ["message", "incomplete", [{ type: "output_text", text: "", annotations: [], logprobs: [] }]],
    ],
    "an answer without a word is a message without a word",
  );
  const added = events.filter(({ type }) => type === "response.output_item.added");
  assert.deepEqual(
    added.map(({ fields }) => fields.output_index),
    [0, 1],
  );
});

test("Ollama's think is the template's, and as a text how much", () => {
  const of = (think?: boolean | "low") => {
    const { chat_template_kwargs: kwargs, reasoning_effort } = chatOfGenerate({ model: "m", prompt: "a", think });
    return [kwargs?.enable_thinking, reasoning_effort];
  };
  assert.deepEqual(
    [of(), of(true), of(false), of("low")],
    [
      [undefined, undefined],
      [true, undefined],
      [false, undefined],
      [true, "low"],
    ],
  );
});

test("content may be a list of texts, or nothing", () => {
  const parts = [
    { type: "text" as const, text: "a" },
    { type: "text" as const, text: "b" },
  ];
  const messages = toChatMessages([
    { role: "developer", content: parts },
    { role: "assistant", content: null },
  ]);
  assert.deepEqual(messages, [
    { role: "system", content: "a\nb" },
    { role: "assistant", content: "" },
  ]);
});
