// Ollama's API with Ollama's own client, unmodified.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type ClientPackage, loadClient } from "../support/clients.js";
import { startServer, type TestServer } from "../support/test-server.js";

const { client: sdk, skip } = await loadClient("ollama");
const MODEL = "story";
const messages = [{ role: "user", content: "Tell me a story." }];

let host: TestServer;
let client: ClientPackage;
before(async () => {
  host = await startServer({}, { servedModelName: [MODEL] });
  if (sdk !== null) client = new sdk.Ollama({ host: host.url });
});
after(async () => host?.[Symbol.asyncDispose]());

const greedy = { temperature: 0, num_predict: 20 };

test("chat, whole and streamed, is the answer of the OpenAI route", { skip }, async () => {
  const openai = await host.client.chat.completions.create({
    model: MODEL,
    max_tokens: 20,
    temperature: 0,
    messages: messages as never,
  });
  const whole = await client.chat({ model: MODEL, messages, options: greedy });
  assert.equal(whole.message.content, openai.choices[0]!.message.content);
  assert.deepEqual([whole.done, whole.done_reason, whole.eval_count], [true, "length", 20]);
  assert.equal(whole.prompt_eval_count, openai.usage!.prompt_tokens);
  let text = "";
  let last: ClientPackage = null;
  for await (const part of await client.chat({ model: `${MODEL}:latest`, messages, options: greedy, stream: true })) {
    text += part.message.content;
    last = part;
  }
  assert.equal(text, whole.message.content);
  assert.ok(last.done && last.total_duration > 0 && last.eval_count === 20);
});

test("format and tools", { skip }, async () => {
  const format = { type: "object", properties: { ok: { type: "boolean" } }, required: ["ok"] };
  const object = await client.chat({ model: MODEL, messages, format });
  assert.equal(typeof JSON.parse(object.message.content).ok, "boolean");
  const tool = {
    type: "function",
    function: { name: "look", description: "Look", parameters: { type: "object", properties: {} } },
  };
  const call = { function: { name: "look", arguments: { at: "sea" } } };
  const after = await client.chat({
    model: MODEL,
    tools: [tool],
    options: { num_predict: 3 },
    messages: [
      ...messages,
      { role: "assistant", content: "", tool_calls: [call] },
      { role: "tool", content: "waves", tool_name: "look" },
    ],
  });
  assert.equal(after.message.role, "assistant");
});

test("generate: answered by the template, continued when raw, loaded when empty", { skip }, async () => {
  const answered = await client.generate({ model: MODEL, prompt: "Tell me a story.", options: greedy });
  const chatted = await client.chat({ model: MODEL, messages, options: greedy });
  assert.equal(answered.response, chatted.message.content);
  const raw = await client.generate({ model: MODEL, prompt: "Once upon a time", raw: true, options: greedy });
  const continued = await host.client.completions.create({
    model: MODEL,
    prompt: "Once upon a time",
    max_tokens: 20,
    temperature: 0,
  });
  assert.equal(raw.response, continued.choices[0]!.text);
  assert.equal((await client.generate({ model: MODEL, prompt: "" })).done_reason, "load");
});

test("embed, list, show, ps, version", { skip }, async () => {
  const { embeddings } = await client.embed({ model: MODEL, input: ["a", "b"] });
  assert.equal(embeddings.length, 2);
  assert.ok(Math.abs(Math.hypot(...embeddings[0]) - 1) < 1e-3);
  assert.equal((await client.list()).models[0].name, MODEL);
  assert.equal((await client.ps()).models[0].model, MODEL);
  const shown = await client.show({ model: MODEL });
  assert.ok(shown.capabilities.includes("completion"));
  const { version } = (await (await fetch(`${host.url}/api/version`)).json()) as { version: string };
  assert.match(version, /^\d+\.\d+\.\d+/);
});

test("errors reach the client as Ollama's do", { skip }, async () => {
  await assert.rejects(client.chat({ model: "other", messages }), /"other" is not served here/);
  await assert.rejects(
    client.chat({ model: MODEL, messages: [{ ...messages[0], images: ["AAAA"] }] }),
    /does not see pictures/,
  );
  await assert.rejects(client.chat({ model: MODEL, messages, options: { temperature: -1 } }), /options\.temperature/);
});
