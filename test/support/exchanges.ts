// The requests of exchanges.test.ts: every field of every route, and every way to be refused.

import type { EngineFacts } from "../../src/engine/messages.js";
import type { ServerOptions } from "../../src/server/server.js";
import type { Exchange } from "./exchange.js";

const messages = [{ role: "user", content: "a" }];
const chat = "/v1/chat/completions";
const add = { name: "add", description: "adds", parameters: { type: "object", properties: { a: { type: "number" } } } };
const [ADD, SUB] = [
  { type: "function", function: add },
  { type: "function", function: { name: "sub" } },
];
const tools = [ADD, SUB];
const named = (name: string) => ({ type: "function", function: { name } });
const CALLS =
  'So <tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call><tool_call>{"name": "sub", "arguments": {}}</tool_call>';
const THOUGHT = "<think>hm</think>Hi";
const stream = true;
const long = "a".repeat(600);

const CHAT: readonly Exchange[] = [
  { title: "chat", to: chat, body: { messages }, says: THOUGHT },
  {
    title: "chat: samples with logprobs",
    to: chat,
    body: { messages, n: 2, logprobs: true, top_logprobs: 3 },
    says: ["a", "bc"],
  },
  {
    ...{ title: "chat: streamed samples with logprobs, usage and trace", to: chat, says: ["<think>a</think>b", "c"] },
    body: { messages, stream, n: 2, logprobs: true, stream_options: { include_usage: true } },
    headers: { "x-pagoda-trace": "1" },
  },
  {
    title: "chat: streamed",
    to: chat,
    body: { messages, stream, stream_options: {} },
    says: { text: THOUGHT, finishReason: "length" },
  },
  { title: "chat: the trace alone", to: chat, body: { messages, stream }, headers: { "x-pagoda-trace": "1" } },
  {
    title: "chat: with its trace",
    to: chat,
    body: { messages, model: "other" },
    headers: { "x-pagoda-trace": "1" },
    says: { text: "Hi", cachedTokens: 3 },
  },
  {
    title: "chat: logprobs of what is held back",
    to: chat,
    body: { messages, stream, logprobs: true },
    says: "<think",
  },
  {
    title: "chat: no logprobs",
    to: chat,
    body: { messages, logprobs: false, prompt_logprobs: 1, model: "tiny:latest" },
  },
  { title: "chat: top_logprobs alone", to: chat, body: { messages, top_logprobs: 1 } },
  { title: "chat: prompt_logprobs streamed", to: chat, body: { messages, stream, prompt_logprobs: 0 } },
  { title: "chat: calls", to: chat, body: { messages, tools }, says: CALLS },
  { title: "chat: calls streamed", to: chat, body: { messages, tools, stream }, says: CALLS },
  {
    title: "chat: a call that was cut",
    to: chat,
    body: { messages, tools },
    says: { text: CALLS.slice(0, 45), finishReason: "length" },
  },
  {
    title: "chat: calls without tools are text",
    to: chat,
    body: { messages, tools, tool_choice: "none" },
    says: CALLS,
  },
  { title: "chat: functions", to: chat, body: { messages, functions: [add], function_call: "auto" }, says: CALLS },
  { title: "chat: functions streamed", to: chat, body: { messages, functions: [add], stream }, says: CALLS },
  { title: "chat: functions without a call", to: chat, body: { messages, functions: [add], function_call: "none" } },
  {
    title: "chat: one function",
    to: chat,
    body: { messages, functions: [add], function_call: { name: "add" } },
    says: CALLS.slice(3),
  },
  { title: "chat: required", to: chat, body: { messages, tools, tool_choice: "required" }, says: CALLS.slice(3) },
  {
    title: "chat: required, one",
    to: chat,
    body: { messages, tools, tool_choice: "required", parallel_tool_calls: false },
  },
  {
    title: "chat: required with text",
    to: chat,
    body: { messages, tools, tool_choice: "required", response_format: { type: "text" } },
  },
  {
    title: "chat: required with a format",
    to: chat,
    body: { messages, tools, tool_choice: "required", response_format: { type: "json_object" } },
  },
  { title: "chat: named", to: chat, body: { messages, tools, tool_choice: named("sub"), parallel_tool_calls: true } },
  { title: "chat: named, unknown", to: chat, body: { messages, tools, tool_choice: named("mul") } },
  { title: "chat: required of none", to: chat, body: { messages, tool_choice: "required" } },
  { title: "chat: named of none", to: chat, body: { messages, tool_choice: named("add") } },
  {
    ...{ title: "chat: allowed", to: chat },
    body: {
      messages,
      tools,
      tool_choice: { type: "allowed_tools", allowed_tools: { mode: "required", tools: [named("sub")] } },
    },
  },
  {
    ...{ title: "chat: allowed, free", to: chat, says: CALLS },
    body: {
      messages,
      tools,
      tool_choice: { type: "allowed_tools", allowed_tools: { mode: "auto", tools: [named("sub")] } },
    },
  },
  { title: "chat: any object", to: chat, body: { messages, response_format: { type: "json_object" } }, says: THOUGHT },
  {
    ...{ title: "chat: a schema", to: chat },
    body: {
      messages,
      response_format: { type: "json_schema", json_schema: { name: "x", schema: { type: "string" } } },
    },
  },
  { title: "chat: guided", to: chat, body: { messages, guided_json: '{"type":"null"}' } },
  { title: "chat: guided by an object", to: chat, body: { messages, guided_json: { type: "null" } } },
  { title: "chat: guided by a choice", to: chat, body: { messages, guided_choice: ["a.b", "c-d", "e/f"] } },
  { title: "chat: guided by a grammar", to: chat, body: { messages, guided_grammar: 'root ::= "a"' } },
  {
    title: "chat: guided twice",
    to: chat,
    body: { messages, guided_regex: "a", response_format: { type: "json_object" } },
  },
  { title: "chat: structured", to: chat, body: { messages, structured_outputs: { regex: "a+" } } },
  {
    ...{ title: "chat: every way to sample", to: chat },
    body: {
      ...{
        messages,
        temperature: 0.5,
        top_k: 3,
        top_p: 0.9,
        min_p: 0.1,
        repetition_penalty: 1.1,
        presence_penalty: 0.2,
      },
      ...{
        frequency_penalty: 0.3,
        logit_bias: { 65: 2 },
        min_tokens: 1,
        max_tokens: 7,
        max_completion_tokens: 9,
        stop: "!",
      },
      ...{ stop_token_ids: [5], ignore_eos: true, seed: 4, priority: 2, cache_salt: "s", skip_special_tokens: false },
    },
  },
  {
    title: "chat: nulls",
    to: chat,
    body: { messages, temperature: null, top_k: -1, stop: ["!", "?"], max_tokens: 3, n: null },
  },
  {
    title: "chat: continued",
    to: chat,
    body: {
      messages: [...messages, { role: "assistant", content: "b" }],
      continue_final_message: true,
      add_generation_prompt: false,
    },
  },
  { title: "chat: not continued", to: chat, body: { messages, add_generation_prompt: true } },
  { title: "chat: neither", to: chat, body: { messages, add_generation_prompt: false } },
  {
    title: "chat: parts",
    to: chat,
    body: {
      messages: [
        {
          role: "developer",
          content: [
            { type: "text", text: "a" },
            { type: "text", text: "b" },
          ],
        },
        { role: "user", content: null },
      ],
    },
  },
  {
    title: "chat: a part without text",
    to: chat,
    body: { messages: [...messages, { role: "user", content: [{ type: "text" }] }] },
  },
  { title: "chat: an image", to: chat, body: { messages: [{ role: "user", content: [{ type: "image_url" }] }] } },
  { title: "chat: another model", to: chat, body: { messages, model: "large" } },
  { title: "chat: unknown field", to: chat, body: { messages, temprature: 1 } },
  { title: "chat: unknown field further in", to: chat, body: { messages, stream_options: { usage: true } } },
  {
    title: "chat: unknown field of a part",
    to: chat,
    body: { messages: [{ role: "user", content: [{ type: "text", text: "a", odd: 1 }] }] },
  },
  {
    title: "chat: unknown field of a choice",
    to: chat,
    body: { messages, tools, tool_choice: { type: "function", function: { name: "add", odd: 1 } } },
  },
  {
    title: "chat: unknown field of a name",
    to: chat,
    body: { messages, tools, tool_choice: { ...named("add"), odd: 1 } },
  },
  { title: "chat: out of range", to: chat, body: { messages, temperature: -1 } },
  {
    title: "chat: a tool's name",
    to: chat,
    body: { messages, tools: [{ type: "function", function: { name: "a b" } }] },
  },
  { title: "chat: no messages", to: chat, body: { messages: [] } },
  { title: "chat: not JSON", to: chat, body: "{" },
  { title: "chat: no object", to: chat, body: "3" },
  { title: "chat: too deep", to: chat, body: `{"messages": ${"[".repeat(201)}` },
  {
    title: "chat: a text too long to be read",
    to: chat,
    body: { messages: [{ role: "user", content: "a".repeat(512 * 32 * 6 + 1) }] },
  },
  {
    title: "chat: a text too long to be tokenised",
    to: chat,
    body: { messages: [{ role: "user", content: "a".repeat(512 * 32 + 1) }] },
  },
  { title: "chat: a prompt too long", to: chat, body: { messages: [{ role: "user", content: long }] } },
  { title: "chat: the longest prompt", to: chat, body: { messages: [{ role: "user", content: "a".repeat(508) }] } },
  { title: "chat: one more", to: chat, body: { messages: [{ role: "user", content: "a".repeat(509) }] } },
  { title: "chat: as a form", to: chat, body: { messages }, headers: { "content-type": "text/plain" } },
  {
    title: "chat: as other JSON",
    to: chat,
    body: { messages },
    headers: { "content-type": "application/vnd.x+json; charset=utf-8" },
  },
  { title: "chat: zipped", to: chat, body: { messages }, headers: { "content-encoding": "gzip" } },
  { title: "chat: not zipped", to: chat, body: { messages }, headers: { "content-encoding": "Identity" } },
  {
    title: "chat: a step fails",
    to: chat,
    body: { messages },
    says: { text: "", error: { code: "step_failed", details: { reason: "x" } } },
  },
  {
    title: "chat: a stream fails",
    to: chat,
    body: { messages, stream },
    says: { text: "", error: { code: "no_token_left", details: { index: 2 } } },
  },
  { title: "chat: GET", to: `GET ${chat}` },
];

const PIECES: readonly Exchange[] = [
  {
    ...{ title: "chat in pieces", to: chat, says: { text: "<think", rest: ">ab</think>c" } },
    body: { messages, stream, logprobs: true, stream_options: { include_usage: false } },
  },
  {
    title: "chat in pieces: what is held back",
    to: chat,
    body: { messages, stream },
    says: { text: "<think", rest: "s" },
  },
  {
    title: "chat in pieces: calls",
    to: chat,
    body: { messages, tools, stream },
    says: { text: CALLS.slice(0, 46), rest: CALLS.slice(46) },
  },
  {
    title: "completions in pieces",
    to: "/v1/completions",
    body: { prompt: "ab", stream, echo: true, logprobs: 0 },
    says: { text: "xy", rest: "z" },
  },
  {
    title: "response in pieces",
    to: "/v1/responses",
    body: { input: "a", stream, store: false, top_logprobs: 0 },
    says: { text: "<think>h", rest: "m</think>Hi" },
  },
  {
    title: "response in pieces: calls",
    to: "/v1/responses",
    body: { input: "a", stream, store: false, tools: [{ type: "function", ...add }] },
    says: { text: CALLS.slice(0, 46), rest: CALLS.slice(46, 54) },
  },
  {
    title: "message in pieces",
    to: "/v1/messages",
    body: { model: "tiny", max_tokens: 9, messages, stream },
    says: { text: "<think>h", rest: "m</think>Hi" },
  },
  {
    ...{
      title: "message in pieces: calls",
      to: "/v1/messages",
      says: { text: CALLS.slice(0, 46), rest: CALLS.slice(46) },
    },
    body: { model: "tiny", max_tokens: 9, messages, stream, tools: [{ name: "add", input_schema: {} }] },
  },
  {
    title: "ollama in pieces",
    to: "/api/chat",
    body: { model: "tiny", messages, logprobs: true },
    says: { text: "<think>h", rest: "m</think>Hi" },
  },
  {
    title: "ollama in pieces: held back",
    to: "/api/chat",
    body: { model: "tiny", messages, logprobs: true },
    says: { text: "<", rest: "think>h</think>Hi" },
  },
  {
    title: "message in pieces: held back",
    to: "/v1/messages",
    body: { model: "tiny", max_tokens: 9, messages, stream },
    says: { text: "<thi", rest: "ng" },
  },
  {
    title: "message that ends with what was held back",
    to: "/v1/messages",
    body: { model: "tiny", max_tokens: 9, messages },
    says: "<thi",
  },
  {
    title: "response that ends with what was held back",
    to: "/v1/responses",
    body: { input: "a", stream, store: false, top_logprobs: 1 },
    says: "<thi",
  },
  {
    title: "message of one call",
    to: "/v1/messages",
    body: { model: "tiny", max_tokens: 9, messages, tools: [{ name: "add", input_schema: {} }] },
    says: CALLS.slice(3, 60),
  },
  {
    title: "message when all is full",
    to: "/v1/messages",
    body: { model: "tiny", max_tokens: 9, messages },
    says: { text: "", error: { code: "queue_full", details: { value: 1, limit: 1, retryAfter: 3 } } },
  },
  { title: "message too large", to: "/v1/messages", body: " ".repeat(4 * 2 ** 20 + 1) },
  {
    title: "message tokens of a long text",
    to: "/v1/messages/count_tokens",
    body: { model: "tiny", messages: [{ role: "user", content: "a".repeat(512 * 32 * 6 + 1) }] },
  },
  {
    title: "tokens of a long text",
    to: "/tokenize",
    body: { prompt: "a".repeat(512 * 32 * 6 + 1), return_token_strs: false, model: "large" },
  },
  {
    title: "embedding of a long text",
    to: "/v1/embeddings",
    body: { input: "a".repeat(512 * 32 * 6 + 1), model: "large" },
  },
  {
    title: "ollama embed of a long text",
    to: "/api/embed",
    body: { input: "a".repeat(512 * 32 * 6 + 1), model: "large" },
  },
  {
    title: "ollama embeddings of a long text",
    to: "/api/embeddings",
    body: { prompt: "a".repeat(512 * 32 * 6 + 1), model: "large" },
  },
  {
    title: "scores of a long text",
    to: "/v1/score",
    body: { text_1: "a", text_2: "a".repeat(512 * 32 * 6 + 1), model: "large" },
  },
  {
    title: "ranks of a long text",
    to: "/v1/rerank",
    body: { query: "a", documents: ["a".repeat(512 * 32 * 6 + 1)], model: "large" },
  },
  { title: "completion of another model", to: "/v1/completions", body: { prompt: [65], model: "large" } },
  { title: "completion of one token", to: "/v1/completions", body: { prompt: [65], model: "" } },
  {
    title: "chat of the longest text",
    to: chat,
    body: { messages: [{ role: "user", content: "a".repeat(512 * 32) }] },
  },
];

const COMPLETIONS: readonly Exchange[] = [
  { title: "completion", to: "/v1/completions", body: { prompt: "ab" }, says: { text: "x", stopToken: 120 } },
  {
    title: "completions of texts",
    to: "/v1/completions",
    body: { prompt: ["ab", "c"], n: 2, best_of: 2, logprobs: 2, max_tokens: 3 },
    says: ["x", "yz"],
  },
  { title: "completions of tokens", to: "/v1/completions", body: { prompt: [65, 66], add_special_tokens: false } },
  {
    title: "completions of lists of tokens",
    to: "/v1/completions",
    body: { prompt: [[65, 66], [67]], cache_salt: "s", priority: 3 },
  },
  { title: "completion with its prompt", to: "/v1/completions", body: { prompt: ["ab", "c"], echo: true } },
  {
    title: "completion with its prompt's logprobs",
    to: "/v1/completions",
    body: { prompt: ["ab", "c"], echo: true, logprobs: 1, n: 2 },
    says: ["x", "y"],
  },
  {
    title: "completion: more prompt logprobs",
    to: "/v1/completions",
    body: { prompt: "abc", echo: true, logprobs: 1, prompt_logprobs: 3 },
  },
  { title: "completion: prompt logprobs", to: "/v1/completions", body: { prompt: "ab", prompt_logprobs: 1 } },
  {
    title: "completion: prompt logprobs streamed",
    to: "/v1/completions",
    body: { prompt: "ab", prompt_logprobs: 1, stream },
  },
  {
    title: "completion streamed with logprobs",
    to: "/v1/completions",
    body: { prompt: "ab", logprobs: 1, stream },
    says: { text: "xy", rest: "z" },
  },
  {
    title: "completions streamed with their prompts",
    to: "/v1/completions",
    body: { prompt: ["ab", "c"], echo: true, logprobs: 1, n: 2, stream },
    says: ["x", "yz"],
  },
  {
    ...{ title: "completions streamed with usage", to: "/v1/completions", says: { text: "x", cachedTokens: 1 } },
    body: { prompt: ["ab", "c"], stream, echo: true, stream_options: { include_usage: true } },
  },
  {
    title: "completions streamed with traces",
    to: "/v1/completions",
    body: { prompt: ["ab", "c"], stream },
    headers: { "x-pagoda-trace": "1" },
  },
  {
    title: "completions with traces",
    to: "/v1/completions",
    body: { prompt: ["ab", "c"] },
    headers: { "x-pagoda-trace": "1" },
  },
  { title: "completion: best of more", to: "/v1/completions", body: { prompt: "a", best_of: 2 } },
  { title: "completion: best of one", to: "/v1/completions", body: { prompt: "a", best_of: 1 } },
  { title: "completion: a gap", to: "/v1/completions", body: { prompt: "a", suffix: "b" } },
  { title: "completion: no gap", to: "/v1/completions", body: { prompt: "a", suffix: "" } },
  { title: "completion: a gap of tokens", to: "/v1/completions", body: { prompt: [65], suffix: "b" } },
  {
    title: "completion: only scored",
    to: "/v1/completions",
    body: { prompt: "a".repeat(512), max_tokens: 0, echo: true, logprobs: 0 },
    says: { text: "", finishReason: "length" },
  },
  {
    title: "completion: scored tokens too long",
    to: "/v1/completions",
    body: { prompt: Array(513).fill(65), max_tokens: 0 },
  },
  { title: "completion: no room", to: "/v1/completions", body: { prompt: Array(512).fill(65) } },
  { title: "completion: room for one", to: "/v1/completions", body: { prompt: Array(511).fill(65) } },
  { title: "completion: empty", to: "/v1/completions", body: { prompt: [] } },
  { title: "completion: mixed", to: "/v1/completions", body: { prompt: ["a", 5] } },
];

const RESPONSES: readonly Exchange[] = [
  { title: "response", to: "/v1/responses", body: { input: "a" }, says: { text: THOUGHT, cachedTokens: 2 } },
  { title: "response kept", to: "GET /v1/responses/{id}" },
  { title: "response: its input", to: "GET /v1/responses/{id}/input_items" },
  {
    title: "response: continued",
    to: "/v1/responses",
    body: (last: { id: string }) => ({
      input: [
        { role: "user", content: "b" },
        { role: "user", content: "c" },
      ],
      previous_response_id: last.id,
    }),
  },
  { title: "response: its own input alone", to: "GET /v1/responses/{id}/input_items" },
  { title: "response not to be kept", to: "/v1/responses", body: { input: "a", store: false } },
  { title: "response that was not kept", to: "GET /v1/responses/{id}" },
  { title: "response to be kept", to: "/v1/responses", body: { input: "a", store: true } },
  { title: "response that was kept", to: "GET /v1/responses/{id}" },
  { title: "response: unknown before", to: "/v1/responses", body: { input: "a", previous_response_id: "none" } },
  { title: "response: not kept", to: "GET /v1/responses/none" },
  {
    ...{ title: "response streamed with calls", to: "/v1/responses", says: `${THOUGHT}${CALLS}` },
    body: {
      input: "a",
      stream,
      store: false,
      tools: [{ type: "function", ...add }],
      tool_choice: "auto",
      parallel_tool_calls: false,
    },
    headers: { "x-pagoda-trace": "1" },
  },
  {
    title: "response cut",
    to: "/v1/responses",
    body: { input: "a", stream, max_output_tokens: 1 },
    says: { text: "H", finishReason: "length" },
  },
  {
    ...{ title: "response with everything", to: "/v1/responses", says: { text: "H", finishReason: "length" } },
    body: {
      ...{
        input: "a",
        instructions: "i",
        temperature: 0.5,
        top_p: 0.9,
        top_logprobs: 1,
        metadata: { a: "b" },
        seed: 3,
      },
      ...{
        text: { format: { type: "json_object" } },
        reasoning: { effort: "low" },
        truncation: "auto",
        cache_salt: "s",
      },
    },
  },
  {
    title: "response fails",
    to: "/v1/responses",
    body: { input: "a", stream },
    says: { text: "H", error: { code: "step_failed", details: { reason: "x" } } },
  },
  {
    title: "response: truncated",
    to: "/v1/responses",
    body: {
      input: [
        { role: "user", content: long },
        { role: "user", content: "b" },
      ],
      truncation: "auto",
    },
  },
  {
    title: "response: not truncated",
    to: "/v1/responses",
    body: {
      input: [
        { role: "user", content: long },
        { role: "user", content: "b" },
      ],
      truncation: "disabled",
    },
  },
  {
    title: "response: unknown field of an item",
    to: "/v1/responses",
    body: { input: [{ role: "user", content: "a", odd: 1 }] },
  },
  {
    title: "response: unknown field of a part",
    to: "/v1/responses",
    body: { input: [{ role: "user", content: [{ type: "input_text", text: "a", odd: 1 }] }] },
  },
  { title: "response: in the background", to: "/v1/responses", body: { input: "a", background: true } },
  { title: "response to delete", to: "/v1/responses", body: { input: "a" } },
  { title: "response deleted", to: "DELETE /v1/responses/{id}" },
  { title: "response gone", to: "DELETE /v1/responses/{id}" },
];

const anthropic = { model: "tiny", max_tokens: 9, messages };
const aTool = { name: "add", input_schema: { type: "object" } };
const ANTHROPIC: readonly Exchange[] = [
  { title: "message", to: "/v1/messages", body: anthropic, says: { text: THOUGHT, cachedTokens: 2 } },
  { title: "message with calls", to: "/v1/messages", body: { ...anthropic, tools: [aTool] }, says: CALLS },
  {
    title: "message streamed with calls",
    to: "/v1/messages",
    body: { ...anthropic, tools: [aTool], stream },
    says: `${THOUGHT}${CALLS}x`,
  },
  {
    title: "message with a call that was cut",
    to: "/v1/messages",
    body: { ...anthropic, tools: [aTool] },
    says: { text: CALLS.slice(0, 48), finishReason: "length" },
  },
  { title: "message that was stopped", to: "/v1/messages", body: { ...anthropic, stop_sequences: ["!"] }, says: "Hi!" },
  { title: "message without a word", to: "/v1/messages", body: anthropic, says: { text: "", stopToken: 257 } },
  {
    title: "message of tools",
    to: "/v1/messages",
    body: { ...anthropic, tools: [aTool], tool_choice: { type: "any", disable_parallel_tool_use: true } },
  },
  { title: "message of another model", to: "/v1/messages", body: { ...anthropic, model: "large" } },
  { title: "message with an unknown field", to: "/v1/messages", body: { ...anthropic, n: 2 } },
  { title: "message without a limit", to: "/v1/messages", body: { model: "tiny", messages } },
  {
    title: "message stream fails",
    to: "/v1/messages",
    body: { ...anthropic, stream },
    says: { text: "H", error: { code: "draining", details: {} } },
  },
  {
    title: "message fails",
    to: "/v1/messages",
    body: anthropic,
    says: { text: "H", error: { code: "step_failed", details: { reason: "x" } } },
  },
  {
    title: "message too long",
    to: "/v1/messages",
    body: { ...anthropic, messages: [{ role: "user", content: long }] },
  },
  { title: "message batches", to: "/v1/messages/batches", body: {} },
  { title: "message tokens", to: "/v1/messages/count_tokens", body: { model: "tiny", messages } },
];

const ollama = { model: "tiny", messages };
const iTool = { type: "function", function: { name: "add", parameters: {} } };
const OLLAMA: readonly Exchange[] = [
  {
    title: "ollama chat",
    to: "/api/chat",
    body: { ...ollama, stream: false, options: { num_predict: 5 } },
    says: { text: THOUGHT, cachedTokens: 1 },
  },
  {
    title: "ollama chat streamed",
    to: "/api/chat",
    body: { ...ollama, tools: [iTool], logprobs: true, top_logprobs: 1 },
    says: `${THOUGHT}${CALLS}`,
  },
  { title: "ollama chat with calls", to: "/api/chat", body: { ...ollama, stream: false, tools: [iTool] }, says: CALLS },
  {
    title: "ollama chat with a call that was cut",
    to: "/api/chat",
    body: { ...ollama, stream: false, tools: [iTool] },
    says: { text: CALLS.slice(0, 48), finishReason: "length" },
  },
  { title: "ollama chat without top", to: "/api/chat", body: { ...ollama, stream: false, logprobs: true }, says: "a" },
  { title: "ollama chat in a format", to: "/api/chat", body: { ...ollama, stream: false, format: "json" } },
  {
    title: "ollama chat fails",
    to: "/api/chat",
    body: ollama,
    says: { text: "H", error: { code: "step_failed", details: { reason: "x" } } },
  },
  { title: "ollama load", to: "/api/chat", body: { model: "tiny", messages: [] } },
  { title: "ollama unload", to: "/api/chat", body: { model: "tiny", messages: [], keep_alive: 0 } },
  {
    title: "ollama generate",
    to: "/api/generate",
    body: { model: "tiny", prompt: "a", system: "s", stream: false },
    says: THOUGHT,
  },
  { title: "ollama generate streamed", to: "/api/generate", body: { model: "tiny", prompt: "a" }, says: THOUGHT },
  {
    ...{ title: "ollama generate raw", to: "/api/generate", says: "ab" },
    body: {
      model: "tiny",
      prompt: "a",
      raw: true,
      stream: false,
      logprobs: true,
      format: { type: "string" },
      options: { stop: "!" },
    },
  },
  {
    title: "ollama generate raw with alternatives",
    to: "/api/generate",
    body: { model: "tiny", prompt: "a", raw: true, stream: false, logprobs: true, top_logprobs: 2 },
    says: "a",
  },
  { title: "ollama generate nothing", to: "/api/generate", body: { model: "tiny", prompt: "", keep_alive: "5m" } },
  { title: "ollama generate of another", to: "/api/generate", body: { model: "large", prompt: "a", raw: true } },
  { title: "ollama generate with an image", to: "/api/generate", body: { model: "tiny", prompt: "a", images: ["x"] } },
  { title: "ollama embed", to: "/api/embed", body: { model: "tiny", input: ["a", "bc"] } },
  { title: "ollama embed one", to: "/api/embed", body: { model: "tiny", input: "a", dimensions: 1 } },
  { title: "ollama embed cut", to: "/api/embed", body: { model: "tiny", input: long } },
  { title: "ollama embed not cut", to: "/api/embed", body: { model: "tiny", input: long, truncate: false } },
  { title: "ollama embeddings", to: "/api/embeddings", body: { model: "tiny", prompt: long } },
  { title: "ollama show", to: "/api/show", body: { name: "tiny" } },
  { title: "ollama tags", to: "GET /api/tags" },
  { title: "ollama ps", to: "GET /api/ps" },
  { title: "ollama version", to: "GET /api/version" },
  { title: "ollama push", to: "/api/push", body: {} },
  { title: "ollama blobs", to: "/api/blobs/x", body: {} },
  { title: "ollama pulled", to: "/api/pulled", body: {} },
];

const OTHERS: readonly Exchange[] = [
  { title: "embeddings", to: "/v1/embeddings", body: { input: ["a", "bc"] } },
  {
    title: "embedding as base64",
    to: "/v1/embeddings",
    body: { input: "a", encoding_format: "base64", normalize: false, model: "other" },
  },
  { title: "embedding of tokens", to: "/v1/embeddings", body: { input: [65, 66], dimensions: 1, pooling: "mean" } },
  { title: "embeddings of lists of tokens", to: "/v1/embeddings", body: { input: [[65, 66], [67]], normalize: true } },
  { title: "embedding of one list of tokens", to: "/v1/embeddings", body: { input: [[65, 66]] } },
  { title: "embedding too long", to: "/v1/embeddings", body: { input: long } },
  { title: "embedding cut", to: "/v1/embeddings", body: { input: long, truncate_prompt_tokens: -1 } },
  { title: "embedding cut short", to: "/v1/embeddings", body: { input: long, truncate_prompt_tokens: 3 } },
  { title: "embedding cut to nothing", to: "/v1/embeddings", body: { input: long, truncate_prompt_tokens: 0 } },
  {
    title: "embedding truncated",
    to: "/v1/embeddings",
    body: { input: long, truncate: true, truncate_prompt_tokens: null },
  },
  { title: "embedding by an unknown prompt", to: "/v1/embeddings", body: { input: "a", prompt_name: "x" } },
  { title: "embedding by a type", to: "/v1/embeddings", body: { input: "a", input_type: "query" } },
  { title: "scores of a model that has none", to: "/v1/score", body: { text_1: "a", text_2: "b" } },
  { title: "tokens", to: "/tokenize", body: { prompt: "ab", return_token_strs: true, add_special_tokens: true } },
  { title: "tokens of a conversation", to: "/tokenize", body: { messages, tools } },
  { title: "tokens of nothing", to: "/tokenize", body: {} },
  { title: "tokens of both", to: "/tokenize", body: { prompt: "a", messages } },
  { title: "tokens of another model", to: "/tokenize", body: { prompt: "a", model: "large" } },
  { title: "text of tokens", to: "/detokenize", body: { tokens: [65, 259] } },
  { title: "text of unknown tokens", to: "/detokenize", body: { tokens: [65, 260] } },
  { title: "models", to: "GET /v1/models" },
  { title: "model", to: "GET /v1/models/other" },
  { title: "model that is not here", to: "GET /v1/models/large" },
  { title: "health", to: "GET /health" },
  { title: "ready", to: "GET /ready" },
  { title: "version", to: "GET /version" },
  { title: "stats", to: "GET /api/stats" },
  { title: "stats of a model", to: "GET /api/stats?model=other" },
  { title: "stats of another", to: "GET /api/stats?model=large" },
  { title: "cache", to: "GET /api/cache" },
  { title: "steps", to: "GET /api/steps?format=json" },
  { title: "plan", to: "GET /api/plan/1" },
  { title: "plan of no step", to: "GET /api/plan/x" },
  { title: "nothing here", to: "GET /v1/nothing" },
  { title: "a file that is not here", to: "GET /nothing.js" },
  { title: "deleting health", to: "DELETE /health" },
];

const key = (value: string) => ({ authorization: `Bearer ${value}` });
const KEYED: readonly Exchange[] = [
  { title: "no key", to: "GET /v1/models" },
  { title: "another key", to: "GET /v1/models", headers: key("x") },
  { title: "a key", to: chat, body: { messages, cache_salt: "s" }, headers: key("one") },
  { title: "a stream", to: chat, body: { messages, stream }, headers: key("one") },
  { title: "a completion", to: "/v1/completions", body: { prompt: "a" }, headers: key("one") },
  { title: "a response", to: "/v1/responses", body: { input: "a" }, headers: key("one") },
  { title: "others' response", to: "GET /v1/responses/{id}", headers: key("two") },
  { title: "a message", to: "/v1/messages", body: anthropic, headers: { "x-api-key": "one" } },
  { title: "no message", to: "/v1/messages", body: anthropic },
  { title: "unload", to: "/api/generate", body: { model: "tiny", keep_alive: "0s" }, headers: key("one") },
  { title: "unload by an admin", to: "/api/generate", body: { model: "tiny", keep_alive: "0" }, headers: key("root") },
  { title: "embeddings", to: "/v1/embeddings", body: { input: "a".repeat(21) }, headers: key("one") },
  { title: "cache", to: "GET /api/cache", headers: key("one") },
  { title: "cache of an admin", to: "GET /api/cache", headers: key("root") },
  { title: "metrics", to: "GET /metrics" },
  { title: "openapi", to: "GET /openapi.json" },
  { title: "health", to: "GET /health" },
  { title: "longest prompt", to: "/v1/completions", body: { prompt: "a".repeat(20) }, headers: key("one") },
  { title: "prompt too long", to: "/v1/completions", body: { prompt: "a".repeat(21) }, headers: key("one") },
  { title: "message under another name", to: "/v1/messages", body: anthropic, headers: { host: "evil" } },
  { title: "from a page", to: "GET /health", headers: { origin: "http://page" } },
  { title: "from another page", to: "GET /health", headers: { origin: "http://other" } },
  { title: "from itself", to: "GET /health", headers: { origin: "https://localhost" } },
  { title: "under another name", to: "GET /health", headers: { host: "evil" } },
  { title: "under its name", to: "GET /health", headers: { host: "mine:80" } },
  { title: "under no name", to: "GET /health", headers: { host: "[" } },
];

const RANKS: readonly Exchange[] = [
  { title: "ranks", to: "/v1/rerank", body: { query: "a", documents: ["bb", { text: "c" }] } },
  { title: "ranks, second version", to: "/v2/rerank", body: { query: "a", documents: ["b"], use_activation: false } },
  {
    title: "ranks with texts",
    to: "/v2/rerank",
    body: { query: "a", documents: ["b", "c"], return_documents: true, top_n: 1 },
  },
  {
    title: "ranks without texts",
    to: "/rerank",
    body: { query: "a", documents: ["b", "c"], return_documents: false, top_n: 0, instruction: "i" },
  },
  { title: "scores", to: "/v1/score", body: { text_1: "a", text_2: ["b", "cc"], use_activation: true } },
  {
    title: "scores of pairs",
    to: "/v1/score",
    body: { text_1: ["a", "b"], text_2: ["c", "d"], use_activation: false },
  },
  { title: "scores of one pair", to: "/v1/score", body: { text_1: ["a"], text_2: "b" } },
  { title: "scores of unequal lists", to: "/v1/score", body: { text_1: ["a", "b"], text_2: ["c"] } },
  { title: "chat with what ranks", to: chat, body: { messages } },
  { title: "show what ranks", to: "/api/show", body: { model: "tiny" } },
];

const PLAIN: readonly Exchange[] = [
  { title: "thoughts and calls are text", to: chat, body: { messages, tools }, says: `${THOUGHT}${CALLS}` },
  { title: "no calls to force", to: chat, body: { messages, tools, tool_choice: "required" } },
  { title: "show", to: "/api/show", body: { model: "tiny" } },
  { title: "from any page", to: "GET /health", headers: { origin: "http://other" } },
];

/** By name: how a server is started, and what it is asked, in this order. */
export const CONVERSATIONS: Readonly<
  Record<string, readonly [ServerOptions, readonly Exchange[], Partial<EngineFacts>?]>
> = {
  plain: [{}, [...CHAT, ...PIECES, ...COMPLETIONS, ...RESPONSES, ...ANTHROPIC, ...OLLAMA, ...OTHERS]],
  keyed: [
    {
      ...{ apiKey: ["one", "two"], adminKey: ["root"], openMetrics: false, logPrompts: true, maxPromptTokens: 20 },
      ...{ corsOrigin: ["http://page"], allowedHost: ["mine"] },
    },
    KEYED,
  ],
  ranks: [{}, RANKS, { task: "embed" }],
  bare: [{ toolParser: "none", reasoningParser: "none", corsOrigin: ["*"] }, PLAIN],
};
