// Requests as coding agents and the clients of other servers send them, over HTTP to a real engine.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pino } from "pino";
import { startServer, type TestServer } from "../support/test-server.js";
import { writeTinyCheckpoint } from "../support/tiny-checkpoint.js";

const messages = [{ role: "user", content: "hi" }];
const CHAT = { messages, max_tokens: 2 };
const MESSAGE = { model: "", max_tokens: 2, messages };
const lines: Record<string, unknown>[] = [];
let host: TestServer;
let strict: TestServer;

before(async () => {
  const model = writeTinyCheckpoint({ context: 12_288 }); // its template knows no tools: they are told in words
  const logger = pino({ level: "warn" }, { write: (line: string) => lines.push(JSON.parse(line)) });
  host = await startServer({ model }, { logger });
  strict = await startServer({ model }, { strictFields: true });
});
after(async () => {
  await host[Symbol.asyncDispose]();
  await strict[Symbol.asyncDispose]();
});

// biome-ignore lint/suspicious/noExplicitAny: answers of three APIs
type Json = Record<string, any>;

async function ask(path: string, body: unknown, to = host, headers = {}): Promise<{ status: number; json: Json }> {
  const response = await to.post(path, body, headers);
  return { status: response.status, json: (await response.json()) as Json };
}

test("unknown fields are ignored and logged once; strict servers refuse them", async () => {
  const odd = { ...CHAT, cache_prompt: true, stream_options: { odd: 1 }, web_search_options: null };
  for (let i = 0; i < 2; i++) assert.equal((await ask("/v1/chat/completions", odd)).status, 200);
  const told = lines.flatMap((line) => (line.fields as string[] | undefined) ?? []);
  assert.deepEqual(told.filter((name) => /cache_prompt|odd|web_search/.test(name)).toSorted(), [
    "cache_prompt",
    "stream_options.odd",
  ]);
  const { status, json } = await ask("/v1/chat/completions", odd, strict);
  assert.deepEqual([status, json.error.code], [400, "unknown_field"]);
});

test("what other servers call the same is the same", async () => {
  const seed = { ...CHAT, max_tokens: 12, seed: 7 };
  const textOf = async (fields: object): Promise<string> =>
    (await ask("/v1/chat/completions", { ...seed, ...fields }, strict)).json.choices[0].message.content;
  assert.equal(await textOf({ repeat_penalty: 5 }), await textOf({ repetition_penalty: 5 }));
  assert.match(await textOf({ regex: "[ab]{3}" }), /^[ab]{3}$/);
  assert.match(await textOf({ response_format: { type: "json_object", schema: { const: 5 } } }), /^5$/);
  for (const fields of [
    { max_tokens: -1, stop: "a" },
    { reasoning: { effort: "low" } },
    { thinking: { type: "disabled" } },
  ])
    assert.equal(
      (await ask("/v1/chat/completions", { ...CHAT, ...fields }, strict)).status,
      200,
      JSON.stringify(fields),
    );
});

test("Claude Code's request", async () => {
  const body = {
    ...MESSAGE,
    context_management: { edits: [{ type: "clear_thinking_20251015", keep: "all" }] },
    output_config: { effort: "high" },
    thinking: { type: "adaptive" },
    metadata: { user_id: "u" },
    system: [{ type: "text", text: "Be brief.", cache_control: { type: "ephemeral" } }],
    tools: [
      { name: "a".repeat(128), input_schema: { type: "object" }, defer_loading: true },
      { type: "web_search_20250305", name: "web_search", max_uses: 8 },
      ...Array.from({ length: 200 }, (_, i) => ({ name: `t${i}`, input_schema: { type: "object" } })),
    ],
  };
  for (const to of [host, strict]) {
    const { status, json } = await ask("/v1/messages", body, to);
    assert.equal(status, 200, JSON.stringify(json));
  }
  const { json } = await ask("/v1/messages", {
    ...{ ...MESSAGE, max_tokens: 20 },
    output_config: { format: { type: "json_schema", schema: { enum: ["yes"] } } },
  });
  assert.deepEqual(json.content, [{ type: "text", text: '"yes"' }]);
  assert.match(json.id, /^msg_\w+$/);
});

test("the header that changes with every request of Claude Code's does not reach the prompt", async () => {
  const usageOf = async (cch: string): Promise<Json> => {
    const system = [
      { type: "text", text: `x-anthropic-billing-header: cc_version=2.1; cch=${cch};` },
      { type: "text", text: "You are an agent that writes code. ".repeat(8) },
    ];
    return (await ask("/v1/messages", { ...MESSAGE, system })).json.usage;
  };
  await usageOf("aaaa");
  const usage = await usageOf("bbbb");
  assert.ok(
    usage.cache_read_input_tokens > 0.9 * (usage.cache_read_input_tokens + usage.input_tokens),
    JSON.stringify(usage),
  );
});

test("threads are refused by the code that Anthropic's client knows", async () => {
  const { status, json } = await ask("/v1/messages", { ...MESSAGE, thread: { type: "create" } });
  assert.equal(status, 400);
  assert.deepEqual(json.error.details, { error_code: "thread_unsupported_request", unsupported: ["thread"] });
  assert.equal((await ask("/v1/messages", { ...MESSAGE, thread: null })).status, 200);
});

test("Codex's request", async () => {
  const inner = { type: "function", name: "echo", parameters: { type: "object", properties: {} } };
  const body = {
    input: [
      { type: "message", role: "developer", content: [{ type: "input_text", text: "Be brief." }] },
      { type: "message", role: "user", content: [{ type: "input_text", text: "hi" }] },
      { type: "function_call", call_id: "c", name: "echo", namespace: "mcp__s", arguments: "{}" },
      { type: "function_call_output", call_id: "c", output: "done" },
    ],
    ...{ store: false, include: ["reasoning.encrypted_content"], client_metadata: { a: "b" }, max_output_tokens: 200 },
    tools: [
      { type: "web_search", external_web_access: false },
      { type: "custom", name: "apply_patch", format: { type: "grammar" } },
      { type: "namespace", name: "mcp__s", description: "", tools: [inner] },
    ],
    tool_choice: "required",
  };
  const { status, json } = await ask("/v1/responses", body);
  assert.equal(status, 200, JSON.stringify(json));
  assert.match(json.id, /^resp_\w+$/);
  const [call] = json.output;
  assert.deepEqual([call.type, call.name, call.namespace], ["function_call", "echo", "mcp__s"]);
  for (const fields of [{ conversation: "conv_1" }, { prompt: { id: "p" } }, { background: true }])
    assert.equal((await ask("/v1/responses", { input: "a", ...fields })).status, 400, JSON.stringify(fields));
  assert.equal((await ask("/v1/responses", { input: "a", conversation: null, max_output_tokens: 1 })).status, 200);
});

test("a prompt that is too long says so in each API's way, and is counted", async () => {
  const { maxContext } = host.engine.model;
  for (const times of [maxContext, 20 * maxContext]) {
    const content = "ab".repeat(times);
    const long = [{ role: "user", content }];
    const chat = await ask("/v1/chat/completions", { messages: long });
    assert.deepEqual([chat.status, chat.json.error.code], [400, "context_length_exceeded"]);
    const response = await ask("/v1/responses", { input: content });
    assert.deepEqual([response.status, response.json.error.code], [400, "context_length_exceeded"]);
    const { json } = await ask("/v1/messages", { ...MESSAGE, messages: long });
    const numbers = /^prompt is too long: (?:at least )?(\d+) tokens > (\d+) maximum$/.exec(json.error.message);
    assert.ok(numbers !== null && Number(numbers[1]) > Number(numbers[2]), json.error.message);
    const counted = await ask("/v1/messages/count_tokens", { model: "", messages: long });
    assert.ok(counted.json.input_tokens > maxContext, JSON.stringify(counted.json));
    assert.equal((await ask("/tokenize", { messages: long })).json.count, counted.json.input_tokens);
  }
});

test("streams carry the request's id", async () => {
  for (const [path, body] of [
    ["/v1/chat/completions", { ...CHAT, stream: true }],
    ["/api/chat", { model: host.engine.model.name, messages, options: { num_predict: 1 } }],
  ] as const) {
    const response = await host.post(path, body, { "x-request-id": "mine" });
    assert.equal(response.headers.get("x-request-id"), "mine", path);
    await response.text();
  }
});

test("Ollama's clients", async () => {
  const model = host.engine.model.name;
  const options = { num_predict: 1, f16_kv: true };
  const body = { model, stream: false, options, tool_choice: "auto", truncate: true };
  const turns = [{ role: "user", content: "a", name: "n" }, { role: "assistant", tool_calls: [] }, ...messages];
  assert.equal((await ask("/api/chat", { ...body, messages: turns })).status, 200);
  assert.equal((await ask("/api/chat", { model })).json.done_reason, "load");
  for (const path of ["/api/chat", "/api/generate"])
    assert.equal((await ask(path, { model: "none" })).status, 404, path);
  const form = { "content-type": "application/x-www-form-urlencoded" };
  const typed = { ...body, prompt: "a" };
  assert.equal((await ask("/api/generate", typed, host, form)).status, 200);
  assert.equal((await ask("/api/generate", typed, host, { ...form, origin: host.url })).status, 415);
  assert.equal((await fetch(host.url, { method: "HEAD" })).status, 200);
});

test("a path without /v1, or with two, is told where it is", async () => {
  for (const [path, right] of [
    ["/chat/completions", "/v1/chat/completions"],
    ["/v1/v1/messages", "/v1/messages"],
  ] as const) {
    const { status, json } = await ask(path, {});
    assert.equal(status, 404);
    assert.ok(json.error.message.includes(` ${right}:`), json.error.message);
  }
});

test("pages and apps of this machine are let in by one flag", async () => {
  await using dev = await startServer({ model: writeTinyCheckpoint() }, { devOrigins: true });
  const statusOf = async (to: TestServer, origin: string): Promise<readonly unknown[]> => {
    const response = await fetch(`${to.url}/v1/models`, { headers: { origin } });
    return [response.status, response.headers.get("access-control-allow-origin")];
  };
  for (const origin of ["http://localhost:3000", "vscode-webview://abc", "app://obsidian.md"]) {
    assert.deepEqual(await statusOf(dev, origin), [200, origin]);
    assert.deepEqual(await statusOf(host, origin), [403, null]);
  }
  for (const origin of ["https://evil.example", "http://localhost.evil.example", "null"])
    assert.deepEqual(await statusOf(dev, origin), [403, null]);
});

test("templates that ask for the date are told it", async () => {
  const model = writeTinyCheckpoint({ context: 12_288 }); // its template knows no tools: they are told in words
  const chat_template = "{{ date_string }}{% for m in messages %}{{ m.content }}{% endfor %}";
  writeFileSync(join(model, "tokenizer_config.json"), JSON.stringify({ eos_token: "<eos>", chat_template }));
  await using dated = await startServer({ model });
  const textOf = async (fields: object): Promise<string> =>
    (await ask("/tokenize", { messages, return_token_strs: true, ...fields }, dated)).json.token_strs.join("");
  assert.match(await textOf({}), /^\d\d [A-Z][a-z]{2} 20\d\dhi$/);
  assert.equal(await textOf({ chat_template_kwargs: { date_string: "today" } }), "todayhi");
});
