// /v1/messages with Anthropic's own client, unmodified.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type ClientPackage, loadClient } from "../support/clients.js";
import { startServer, type TestServer } from "../support/test-server.js";

const { client: sdk, skip } = await loadClient("@anthropic-ai/sdk");
const MODEL = "story";
const user = (content: string) => ({ role: "user", content });
const WEATHER = {
  name: "get_weather",
  description: "Weather of a city",
  input_schema: { type: "object", properties: { city: { enum: ["Rome", "Oslo"] } }, required: ["city"] },
};

let host: TestServer;
let client: ClientPackage;
before(async () => {
  host = await startServer({}, { servedModelName: [MODEL], apiKey: ["secret"] });
  if (sdk !== null) client = new sdk.Anthropic({ baseURL: host.url, apiKey: "secret", maxRetries: 0 });
});
after(async () => host?.[Symbol.asyncDispose]());

test("an answer, whole and streamed, is the one of the OpenAI route", { skip }, async () => {
  const request = {
    model: MODEL,
    max_tokens: 24,
    temperature: 0,
    system: "Be brief.",
    messages: [user("Tell me a story.")],
  };
  const whole = await client.messages.create(request);
  const openai = await host.client.chat.completions.create({
    model: MODEL,
    max_tokens: 24,
    temperature: 0,
    messages: [
      { role: "system", content: "Be brief." },
      { role: "user", content: "Tell me a story." },
    ],
  });
  assert.deepEqual(
    [whole.type, whole.role, whole.model, whole.stop_reason],
    ["message", "assistant", MODEL, "max_tokens"],
  );
  assert.equal(whole.content[0].text, openai.choices[0]!.message.content);
  assert.equal(whole.usage.output_tokens, 24);
  assert.equal(whole.usage.input_tokens + whole.usage.cache_read_input_tokens, openai.usage!.prompt_tokens);

  const stream = client.messages.stream(request);
  const types = new Set<string>();
  for await (const event of stream) types.add(event.type);
  const final = await stream.finalMessage();
  assert.deepEqual(final.content, whole.content);
  assert.equal(final.stop_reason, "max_tokens");
  assert.equal(final.usage.output_tokens, 24);
  assert.deepEqual(
    [...types],
    [
      "message_start",
      "content_block_start",
      "content_block_delta",
      "content_block_stop",
      "message_delta",
      "message_stop",
    ],
  );
});

test("tools: a forced call, its result, and the same streamed", { skip }, async () => {
  const request = {
    model: MODEL,
    max_tokens: 100,
    tools: [WEATHER],
    tool_choice: { type: "tool", name: "get_weather" },
    messages: [user("Weather in Rome?")],
  };
  const message = await client.messages.create(request);
  assert.equal(message.stop_reason, "tool_use");
  const [call] = message.content;
  assert.equal(call.type, "tool_use");
  assert.ok(["Rome", "Oslo"].includes(call.input.city));
  const streamed = await client.messages.stream({ ...request, temperature: 0 }).finalMessage();
  assert.ok(["Rome", "Oslo"].includes(streamed.content[0].input.city));
  const after = await client.messages.create({
    model: MODEL,
    max_tokens: 4,
    tools: [WEATHER],
    messages: [
      user("Weather in Rome?"),
      { role: "assistant", content: message.content },
      {
        role: "user",
        content: [{ type: "tool_result", tool_use_id: call.id, content: [{ type: "text", text: "sunny" }] }],
      },
    ],
  });
  assert.equal(after.type, "message");
});

test("stop sequences, thinking, counting tokens", { skip }, async () => {
  const stopped = await client.messages.create({
    model: MODEL,
    max_tokens: 60,
    temperature: 0,
    stop_sequences: ["."],
    messages: [user("Tell me a story.")],
  });
  assert.deepEqual([stopped.stop_reason, stopped.stop_sequence], ["stop_sequence", "."]);
  const thinking = await client.messages.create({
    model: MODEL,
    max_tokens: 4,
    thinking: { type: "disabled" },
    messages: [user("hi")],
  });
  assert.equal(thinking.content[0].type, "text");
  const { input_tokens } = await client.messages.countTokens({
    model: MODEL,
    system: "Be brief.",
    messages: [user("Tell me a story.")],
  });
  assert.ok(input_tokens > 5);
});

test("errors are of the client's own classes", { skip }, async () => {
  const { Anthropic } = sdk;
  const request = { model: MODEL, max_tokens: 4, messages: [user("hi")] };
  await assert.rejects(client.messages.create({ ...request, model: "other" }), Anthropic.NotFoundError);
  await assert.rejects(client.messages.create({ ...request, max_tokens: 0 }), Anthropic.BadRequestError);
  const image = { type: "image", source: { type: "base64", media_type: "image/png", data: "AAAA" } };
  await assert.rejects(
    client.messages.create({ ...request, messages: [{ role: "user", content: [image] }] }),
    /does not see pictures/,
  );
  const stranger = new Anthropic({ baseURL: host.url, apiKey: "wrong", maxRetries: 0 });
  await assert.rejects(stranger.messages.create(request), (error: { error: unknown; status: number }) => {
    assert.equal(error.status, 401);
    assert.match(JSON.stringify(error.error), /authentication_error/);
    return true;
  });
});
