// What one request may ask of the server's thread: each limit is told by a code, and what is just within it is served.

import assert from "node:assert/strict";
import { test } from "node:test";
import { ToldServer } from "../../test/support/told-server.js";

test("conversations, biases and values have limits", async () => {
  await using told = await ToldServer.start();
  const codeOf = async (path: string, body: unknown) => {
    const reply = await told.ask("POST", path, body);
    return reply.status === 200 ? 200 : ((await reply.json()) as { error: { code: string } }).error.code;
  };
  const chat = (numMessages: number) => ({
    model: "tiny",
    max_tokens: 1,
    messages: Array.from({ length: numMessages }, (_, i) => ({ role: i % 2 ? "assistant" : "user", content: "" })),
  });
  assert.equal(await codeOf("/v1/chat/completions", chat(8193)), "invalid_value");
  assert.equal(await codeOf("/v1/chat/completions", chat(3)), 200);
  // The vocabulary has 260 tokens, each of which can be written with more zeros.
  const bias = (size: number) => ({
    ...{ model: "tiny", prompt: "a", max_tokens: 1 },
    logit_bias: Object.fromEntries(
      Array.from({ length: size }, (_, i) => [`${"0".repeat(Math.floor(i / 256))}${i % 256}`, 1]),
    ),
  });
  assert.equal(await codeOf("/v1/completions", bias(8192)), 200);
  assert.equal(await codeOf("/v1/completions", bias(8193)), "invalid_value");
  const numbers = { model: "tiny", prompt: Array.from({ length: 500_002 }, () => 1), max_tokens: 1 };
  assert.equal(await codeOf("/v1/completions", numbers), "invalid_json");
});

test("a key may put its requests behind others, an admin's before them; looking is limited for each key", async () => {
  await using told = await ToldServer.start({ apiKey: ["plain"], adminKey: ["boss"] });
  const priorityOf = async (key: string, priority: number) => {
    const body = { model: "tiny", prompt: "a", max_tokens: 1, priority };
    const reply = await told.ask("POST", "/v1/completions", body, { authorization: `Bearer ${key}` });
    assert.equal(reply.status, 200);
    return told.asked.at(-1)!.priority;
  };
  assert.deepEqual(
    [await priorityOf("plain", -5), await priorityOf("plain", 5), await priorityOf("boss", -5)],
    [0, 5, -5],
  );
  const look = async (key: string) => {
    const reply = await told.ask("GET", "/api/steps?format=json", undefined, { authorization: `Bearer ${key}` });
    await reply.text();
    return reply.status;
  };
  const statuses = [];
  for (let i = 0; i < 40; i++) statuses.push(await look("plain"));
  assert.ok(statuses.includes(200) && statuses.includes(429), statuses.join());
  assert.equal(await look("boss"), 200, "its own");
});
